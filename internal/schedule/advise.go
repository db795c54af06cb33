package schedule

import (
	"fmt"
	"strings"
)

// Plant is what was measured about everything that bounds how many runs can be under way at once. A bound that is nil
// is not set or not known, and then does not bind.
type Plant struct {
	// Workers live, with so many Slots together; Busy of them are taken, and Waiting items are ready.
	Workers, Slots, Busy, Waiting int
	// Model is how many runs the limits of the model providers let execute together; Policy is the tenant's and the
	// installation's own limit; Database is an estimate from its measured answer time; Checks are the slots that verify;
	// Budget is how many more runs today's money pays for.
	Model, Policy, Database, Checks, Budget *int
}

// Bound is one thing that limits how many runs are under way at once.
type Bound struct {
	// Name is sandbox slots, model quota, policy, database, checks or budget.
	Name  string
	Runs  int
	Known bool
	Words string
}

// Advice says how many runs fit, what binds now, and whether more workers would help (R-Q-9).
type Advice struct {
	Bounds []Bound
	// Runs is the least of the known bounds.
	Runs int
	// Binds names the bound that is reached first; of equal ones the first in the list.
	Binds string
	// Workers is how many workers fit in all, at the slots that the live ones have on average; 0 where that is not known.
	Workers int
	// Unbounded says that nothing but the sandbox slots is known to bound the number of workers.
	Unbounded bool
	Words     string
}

// Advise compares what was measured. It recommends and decides nothing.
func Advise(p Plant) Advice {
	a := Advice{Bounds: []Bound{
		{"sandbox slots", p.Slots, true, fmt.Sprintf("%s, %s.", plural(p.Workers, "live worker", "live workers"), plural(p.Slots, "slot", "slots"))},
		bound("model quota", p.Model, "runs that execute by the limits of the model providers, which bind no verification and no pull request", "No provider has a limit in the policy."),
		bound("policy", p.Policy, "leases by the limits of tenant and installation", "Neither tenant nor installation has a limit of its own."),
		bound("database", p.Database, "runs, estimated from how fast the database answers now", "Its answer time was not measured."),
		bound("checks", p.Checks, "slots of live workers that verify", "No worker was asked."),
		bound("budget", p.Budget, "runs that the rest of today's budget pays for", "No daily budget is set."),
	}}
	least, rest := 0, -1
	for n, b := range a.Bounds {
		if !b.Known {
			continue
		}
		if b.Runs < a.Bounds[least].Runs {
			least = n
		}
		// Slots and checks grow with every worker; the others do not.
		if b.Name != "sandbox slots" && b.Name != "checks" && (rest < 0 || b.Runs < a.Bounds[rest].Runs) {
			rest = n
		}
	}
	a.Runs, a.Binds, a.Unbounded = a.Bounds[least].Runs, a.Bounds[least].Name, rest < 0
	each := 0
	if p.Workers > 0 {
		each = max(p.Slots/p.Workers, 1)
	}
	if rest >= 0 && each > 0 {
		a.Workers = (a.Bounds[rest].Runs + each - 1) / each
	}
	a.Words = a.words(p, rest)
	return a
}

func bound(name string, runs *int, words, unknown string) Bound {
	if runs == nil {
		return Bound{Name: name, Words: unknown}
	}
	return Bound{name, max(*runs, 0), true, fmt.Sprintf("%d %s.", max(*runs, 0), words)}
}

func (a Advice) words(p Plant, rest int) string {
	var out []string
	switch {
	case p.Workers == 0 && p.Waiting == 0:
		return "No worker is live, and nothing waits."
	case p.Workers == 0:
		return fmt.Sprintf("No worker is live and %s. Start one.", plural(p.Waiting, "run waits", "runs wait"))
	}
	out = append(out, fmt.Sprintf("%s at once, bound by %s.", plural(a.Runs, "run fits", "runs fit"), a.Binds))
	switch {
	case a.Binds != "sandbox slots" && a.Binds != "checks":
		out = append(out, fmt.Sprintf("More workers would not help: %s binds first.", a.Binds))
	case p.Waiting == 0:
		out = append(out, fmt.Sprintf("Nothing waits for a slot; %d of %d are busy, so no more workers are needed now.", p.Busy, p.Slots))
	case p.Busy < p.Slots:
		out = append(out, fmt.Sprintf("%s although %s: the reason stands beside each run.", plural(p.Waiting, "run waits", "runs wait"), plural(p.Slots-p.Busy, "slot is free", "slots are free")))
	case rest < 0:
		out = append(out, fmt.Sprintf("%s for a slot. More workers help; nothing else is known to bind.", plural(p.Waiting, "run waits", "runs wait")))
	default:
		out = append(out, fmt.Sprintf("%s for a slot. More workers help, up to %d in all; then %s binds.", plural(p.Waiting, "run waits", "runs wait"), a.Workers, a.Bounds[rest].Name))
	}
	return strings.Join(out, " ")
}
