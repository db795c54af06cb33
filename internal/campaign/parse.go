package campaign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"signalbox/internal/fault"
	"signalbox/internal/glob"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// maxSpec is the largest spec, in bytes: ten thousand targets with a variable each.
const maxSpec = 1 << 20

// Parse reads a spec as a person writes it, in YAML or JSON: an unknown field, a wrong type or a value out of range is an error that
// names the field, and what is not said has its default.
func Parse(doc []byte) (spec Spec, err error) {
	// The YAML library has panicked on hostile input before.
	defer func() {
		if recover() != nil {
			spec, err = Spec{}, invalid("", "it is not readable YAML")
		}
	}()
	if len(doc) > maxSpec {
		return Spec{}, fault.Newf(fault.TooLarge, "Nothing was stored: a campaign's spec has at most %d MB.", maxSpec>>20)
	}
	body, err := policy.PlainYAML(doc)
	if err != nil {
		if bad, ok := errors.AsType[*policy.ParseError](err); ok {
			return Spec{}, invalid("", "%s", bad.Problems[0])
		}
		return Spec{}, err
	}
	var said any
	if err := yaml.NodeToValue(body, &said); err != nil {
		return Spec{}, invalid("", "it cannot be read: %s", firstLine(err.Error()))
	}
	raw, err := json.Marshal(said)
	if err != nil {
		return Spec{}, invalid("", "it cannot be read: %s", firstLine(err.Error()))
	}
	spec = Default()
	spec.Waves = nil // a list is taken whole, not wave by wave
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return Spec{}, invalid(wrong.Field, "it is a %s, which does not fit there", wrong.Value)
		}
		if field, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
			return Spec{}, invalid(strings.Trim(field, `"`), "there is no such field")
		}
		return Spec{}, invalid("", "it cannot be read: %s", firstLine(err.Error()))
	}
	if spec.Waves == nil {
		spec.Waves = Default().Waves
	}
	return spec, spec.Check()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func invalid(field, format string, args ...any) error {
	where := "the spec"
	if field != "" {
		where = field
	}
	return fault.Newf(fault.Invalid, "Nothing was stored: %s: %s.", where, fmt.Sprintf(format, args...)).WithField(field)
}

// Check holds that a campaign of the spec can be run. The error names the first field that is wrong.
func (s Spec) Check() error {
	switch {
	case strings.TrimSpace(s.Name) == "" || len([]rune(s.Name)) > maxName:
		return invalid("name", "it has 1 to %d characters", maxName)
	case strings.TrimSpace(s.Goal) == "" || len(s.Goal) > maxGoal:
		return invalid("goal", "it has 1 to %d bytes", maxGoal)
	case len([]rune(s.Title)) > 200:
		return invalid("title", "it has at most 200 characters")
	case !slices.Contains(run.Modes(), s.Contract.Mode):
		return invalid("contract.mode", "%.40q is none of %v", s.Contract.Mode, run.Modes())
	case !slices.Contains(policy.Risks(), policy.Risk(s.Contract.Risk)):
		return invalid("contract.risk", "%.40q is none of %v", s.Contract.Risk, policy.Risks())
	case s.Completes != WhenOpened && s.Completes != WhenMerged:
		return invalid("completes_when", "%.40q is neither opened nor merged", s.Completes)
	}
	for _, err := range []error{s.Targets.check(), checkWaves(s.Waves), s.Stop.check(), s.Limits.check(), s.Windows.check()} {
		if err != nil {
			return err
		}
	}
	return nil
}

func (t Targets) check() error {
	if len(t.List)+len(t.Match) == 0 {
		return invalid("targets", "name repositories in list, or globs of their names in match")
	}
	if len(t.List) > MaxTargets {
		return invalid("targets.list", "it has more than %d repositories", MaxTargets)
	}
	if len(t.Match) > maxGlobs || len(t.Exclude) > maxGlobs {
		return invalid("targets", "it has more than %d globs", maxGlobs)
	}
	seen := map[string]bool{}
	for _, l := range t.List {
		if l.Repository == "" || seen[l.Repository] {
			return invalid("targets.list", "%.100q is empty or stands twice", l.Repository)
		}
		seen[l.Repository] = true
	}
	for _, g := range t.Match {
		if !glob.Valid(g) {
			return invalid("targets.match", "%.100q is not a glob, or one that would take too long to match", g)
		}
	}
	for _, e := range t.Exclude {
		if !glob.Valid(e.Match) {
			return invalid("targets.exclude", "%.100q is not a glob, or one that would take too long to match", e.Match)
		}
		if strings.TrimSpace(e.Reason) == "" {
			return invalid("targets.exclude", "say why %.100q takes no part", e.Match)
		}
	}
	return nil
}

func checkWaves(waves []Wave) error {
	if len(waves) == 0 || len(waves) > maxWaves {
		return invalid("waves", "there are 1 to %d", maxWaves)
	}
	for i, w := range waves {
		field := fmt.Sprintf("waves[%d]", i)
		last := i == len(waves)-1
		n, ok := w.Size.Of(1_000_000)
		switch {
		case w.Kind != Canary && w.Kind != Ramp && w.Kind != Full:
			return invalid(field+".kind", "%.40q is none of canary, ramp, full", w.Kind)
		case w.Kind == Canary && i > 0:
			return invalid(field+".kind", "a canary comes first")
		case (w.Kind == Full) != last:
			return invalid(field+".kind", "the last wave, and no other, is full: it takes what is left")
		case w.Kind != Full && (!ok || n == 0):
			return invalid(field+".size", "%.40q is neither a number from 1 nor a share such as 10%%", w.Size)
		case w.Concurrency < 0:
			return invalid(field+".concurrency", "it is not below 0")
		case w.Promotion != ByHand && w.Promotion != ByTheRule && w.Promotion != "":
			return invalid(field+".promotion", "%.40q is neither hand nor rule", w.Promotion)
		case !w.Soak.valid():
			return invalid(field+".soak", "%.40q is no length of time up to 30 days, such as 30m", w.Soak)
		}
	}
	return nil
}

func (s Stop) check() error {
	switch {
	case !(s.Rate >= 0 && s.Rate <= 100):
		return invalid("stop.rate", "it is a percentage from 0 to 100")
	case s.Last < 1 || s.Last > MaxTargets:
		return invalid("stop.last", "it is from 1 to %d", MaxTargets)
	case s.Sample < 1 || s.Sample > s.Last:
		return invalid("stop.sample", "it is from 1 to last, %d", s.Last)
	case s.First < 0:
		return invalid("stop.first", "it is not below 0")
	}
	for _, o := range s.Counts {
		if !slices.Contains(Outcomes(), o) || o.Success() {
			return invalid("stop.counts", "%.40q is no outcome that can be a failure", o)
		}
	}
	return nil
}

func (l Limits) check() error {
	switch _, ok := l.Tolerance.Of(100); {
	case l.Concurrency < 1 || l.Concurrency > MaxTargets:
		return invalid("limits.concurrency", "it is from 1 to %d", MaxTargets)
	case !ok:
		return invalid("limits.tolerance", "%.40q is neither a number nor a share such as 10%%", l.Tolerance)
	case l.BudgetMicros < 0:
		return invalid("limits.budget_micros", "it is not below 0")
	case l.PullsPerHour < 0:
		return invalid("limits.pulls_per_hour", "it is not below 0")
	case l.OpenPerOwner < 0:
		return invalid("limits.open_per_owner", "it is not below 0")
	}
	return nil
}

func (w Windows) check() error {
	if _, err := w.location(); err != nil || w.Zone == "Local" { // the server's own zone is not every replica's
		return invalid("windows.zone", "%.40q is no time zone; use a name such as Europe/Zurich", w.Zone)
	}
	for i, one := range w.Open {
		field := fmt.Sprintf("windows.open[%d]", i)
		for _, d := range one.Days {
			if !slices.ContainsFunc(weekdays, func(known string) bool { return strings.EqualFold(known, d) }) {
				return invalid(field+".days", "%.40q is none of mon, tue, wed, thu, fri, sat, sun", d)
			}
		}
		from, okFrom := clock(one.From)
		to, okTo := clock(one.To)
		if !okFrom || !okTo || from == to {
			return invalid(field, "from and to are two times of the day such as 08:00 and 18:00")
		}
	}
	return nil
}
