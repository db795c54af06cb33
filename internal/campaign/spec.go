package campaign

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/run"
)

// Bounds of a spec, so that one cannot be written that nobody can run.
const (
	MaxTargets = 10_000
	maxWaves   = 20
	maxGlobs   = 100
	maxName    = 100
	maxGoal    = 50_000
)

// Spec is what a campaign is to do, and within which limits. Each change of it is a new version; a version never changes.
type Spec struct {
	Name string `json:"name"`
	// Goal is a template: {{name}} is replaced by the target's variable of that name.
	Goal string `json:"goal"`
	// Title of each task, a template likewise; empty: the campaign's name.
	Title string `json:"title,omitempty"`
	// Agent is the agent profile; empty: the repository's own.
	Agent string `json:"agent,omitempty"`
	// Contract is what each task allows and asks for.
	Contract  run.Contract `json:"contract"`
	Completes Completes    `json:"completes_when"`
	Targets   Targets      `json:"targets"`
	Waves     []Wave       `json:"waves"`
	Stop      Stop         `json:"stop"`
	Limits    Limits       `json:"limits"`
	Windows   Windows      `json:"windows"`
}

// Completes says when a target is done: when its pull request is opened, or only when it is merged.
type Completes string

// When targets are done.
const (
	WhenOpened Completes = "opened"
	WhenMerged Completes = "merged"
)

// Targets says which repositories take part.
type Targets struct {
	// Repositories by name, with the variables of each.
	List []Listed `json:"list,omitempty"`
	// Match are globs over the names of registered repositories; a list and a query add up.
	Match []string `json:"match,omitempty"`
	// Exclude are globs of names that never take part, each with the reason.
	Exclude []Exclusion `json:"exclude,omitempty"`
}

// Listed is one repository of a list.
type Listed struct {
	Repository string            `json:"repository"`
	Owner      string            `json:"owner,omitempty"`
	Vars       map[string]string `json:"vars,omitempty"`
}

// Exclusion keeps repositories out.
type Exclusion struct {
	Match  string `json:"match"`
	Reason string `json:"reason"`
}

// WaveKind is what a wave is for.
type WaveKind string

// Kinds of waves. A canary comes first and is chosen for variety; full is all that is left.
const (
	Canary WaveKind = "canary"
	Ramp   WaveKind = "ramp"
	Full   WaveKind = "full"
)

// Wave is one step from the canary to all.
type Wave struct {
	Kind WaveKind `json:"kind"`
	// Size is how many targets it has, or which share of all; of full it is what is left.
	Size Amount `json:"size"`
	// Concurrency is how many targets may be at work at once; 0: the campaign's.
	Concurrency int       `json:"concurrency,omitempty"`
	Promotion   Promotion `json:"promotion"`
	// Soak is how long after the last target's end a promotion by rule waits.
	Soak Span `json:"soak,omitempty"`
}

// Promotion says who lets the next wave begin.
type Promotion string

// Ways of promotion.
const (
	ByHand    Promotion = "hand"
	ByTheRule Promotion = "rule"
)

// Stop is the rule that pauses a campaign by itself (ux.md 5.4, rule 1).
type Stop struct {
	// Rate is the highest share of failures among the last finished ones, in percent.
	Rate float64 `json:"rate"`
	// Last is over how many finished targets the rate is taken.
	Last int `json:"last"`
	// Sample is how many must have finished before a rate counts.
	Sample int `json:"sample"`
	// First is how many failures pause before there is a sample.
	First int `json:"first"`
	// Counts are outcomes that count as failures beside FAILED.
	Counts []Outcome `json:"counts,omitempty"`
}

// Limits bound what goes on at once and in all.
type Limits struct {
	Concurrency int `json:"concurrency"`
	// Tolerance is how many failures are accepted in all, or which share of the targets. No more than tolerance left + 1 are at work
	// at once, so that it is passed by one at most (StackSets' STRICT_FAILURE_TOLERANCE).
	Tolerance Amount `json:"tolerance"`
	// BudgetMicros is what all may cost, in millionths of the currency; 0: no bound.
	BudgetMicros int64 `json:"budget_micros,omitempty"`
	// PullsPerHour bounds how many pull requests are opened in any hour; 0: no bound.
	PullsPerHour int `json:"pulls_per_hour,omitempty"`
	// OpenPerOwner bounds the open pull requests of one owner; 0: no bound.
	OpenPerOwner int `json:"open_per_owner,omitempty"`
}

// Amount is a number, "5", or a share of all, "10%".
type Amount string

// Of is the amount of a whole, a share being rounded down; ok is false where the amount is none.
func (a Amount) Of(whole int) (n int, ok bool) {
	text, share := strings.CutSuffix(strings.TrimSpace(string(a)), "%")
	if share {
		p, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(p) || p < 0 || p > 100 {
			return 0, false
		}
		return int(math.Floor(float64(whole)*p/100 + 1e-9)), true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

// UnmarshalJSON takes a number for what it says.
func (a *Amount) UnmarshalJSON(raw []byte) error {
	var text string
	if len(raw) > 0 && raw[0] != '"' {
		var n json.Number
		if err := json.Unmarshal(raw, &n); err != nil {
			return fmt.Errorf("read an amount: %w", err)
		}
		text = n.String()
	} else if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("read an amount: %w", err)
	}
	*a = Amount(text)
	return nil
}

// Span is a length of time, written as "30m" or "2h".
type Span string

// Duration of the span; an empty one is none.
func (s Span) Duration() time.Duration {
	d, err := time.ParseDuration(string(s))
	if err != nil {
		return 0
	}
	return d
}

func (s Span) valid() bool {
	d, err := time.ParseDuration(string(s))
	return s == "" || err == nil && d >= 0 && d <= 30*24*time.Hour
}

// Default are the values of what a spec does not say.
func Default() Spec {
	return Spec{
		Contract: run.Contract{Mode: run.ModePRCreated, Risk: "LOW"}, Completes: WhenOpened,
		Waves: []Wave{
			{Kind: Canary, Size: "5", Promotion: ByHand},
			{Kind: Ramp, Size: "20%", Promotion: ByHand},
			{Kind: Full, Promotion: ByHand},
		},
		Stop:   Stop{Rate: 15, Last: 50, Sample: 5, First: 3},
		Limits: Limits{Concurrency: 10, Tolerance: "10%"},
	}
}

// concurrency is how many may be at work at once in a wave.
func (s Spec) concurrency(wave int) int {
	if wave < len(s.Waves) && s.Waves[wave].Concurrency > 0 {
		return min(s.Waves[wave].Concurrency, s.Limits.Concurrency)
	}
	return s.Limits.Concurrency
}

// WaveName is what people call a wave: "Canary", "Ramp 2 of 3", "Full".
func (s Spec) WaveName(wave int) string {
	if wave < 0 || wave >= len(s.Waves) {
		return ""
	}
	switch s.Waves[wave].Kind {
	case Canary:
		return "Canary"
	case Full:
		return "Full"
	}
	at, of := 0, 0
	for i, w := range s.Waves {
		if w.Kind == Ramp {
			of++
			if i <= wave {
				at++
			}
		}
	}
	if of == 1 {
		return "Ramp"
	}
	return fmt.Sprintf("Ramp %d of %d", at, of)
}

// Fill replaces each {{name}} of a template by the variable of that name. Names without a variable come back, sorted.
func Fill(template string, vars map[string]string) (text string, unknown []string) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(template, "{{")
		b.WriteString(before)
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}}")
		if !closed {
			b.WriteString("{{" + rest)
			break
		}
		if value, ok := vars[strings.TrimSpace(name)]; ok {
			b.WriteString(value)
		} else {
			unknown = append(unknown, strings.TrimSpace(name))
		}
		template = after
	}
	slices.Sort(unknown)
	return b.String(), slices.Compact(unknown)
}
