package schedule

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"signalbox/internal/capability"
	"signalbox/internal/policy"
)

// nobody names the narrowest thing that no live worker offers.
func (a *assigner) nobody(i Item) string {
	left := a.offers
	for _, step := range []struct {
		keep func(Offer) bool
		none string
	}{
		{func(o Offer) bool { return o.Tenant == uuid.Nil || o.Tenant == i.Tenant }, "no worker of this tenant is live"},
		{func(o Offer) bool { return slices.Contains(o.Phases, i.Phase) }, "no live worker takes the phase " + i.Phase},
		{func(o Offer) bool { return o.servesQueue(i.Queue) }, fmt.Sprintf("no live worker serves the queue %s", i.Queue)},
		{func(o Offer) bool { return i.Pool == "" || slices.Contains(o.Pools, i.Pool) }, fmt.Sprintf("no live worker belongs to the pool %s", i.Pool)},
		{func(o Offer) bool { return len(capability.Missing(policy.Declared(i.Requires), o.Capabilities)) == 0 }, "no live worker offers " + a.lacking(i)},
		{func(o Offer) bool { return a.allowed(o, i) }, a.forbidden(i)},
	} {
		kept := slices.DeleteFunc(slices.Clone(left), func(o Offer) bool { return !step.keep(o) })
		if len(kept) == 0 {
			return sentence(step.none)
		}
		left = kept
	}
	return sentence("no live worker can take it")
}

func (o Offer) servesQueue(queue string) bool {
	if len(o.Queues) == 0 {
		return queue == policy.DefaultQueue
	}
	return slices.Contains(o.Queues, queue)
}

// lacking lists what no worker offers, or else all that is asked for: then each is
// there and nobody has them together.
func (a *assigner) lacking(i Item) string {
	declared := policy.Declared(i.Requires)
	nowhere := slices.DeleteFunc(slices.Clone(declared), func(r string) bool {
		return slices.ContainsFunc(a.offers, func(o Offer) bool { return len(capability.Missing([]string{r}, o.Capabilities)) == 0 })
	})
	if len(nowhere) > 0 {
		return strings.Join(nowhere, ", ")
	}
	return strings.Join(declared, ", ") + " together"
}

func (a *assigner) forbidden(i Item) string {
	r := a.Tenants[i.Tenant].Rules
	asks := "policy " + r.Version
	if held := a.rules(i); held.Execution != r.Execution {
		r, asks = held, "the policy that the run was admitted under"
	}
	if i.Phase == "verify" && i.Maker != uuid.Nil && !r.Execution.SameWorkerMayVerify {
		return fmt.Sprintf("%s wants another worker than the one that made the patch, with isolation %s or stronger, and none is live", asks, r.Execution.MinIsolation)
	}
	return fmt.Sprintf("%s asks for isolation %s or stronger and no live worker offers it", asks, r.Execution.MinIsolation)
}

// words say who paused the queue, when and why. The reason may end as a sentence does.
func (p Pause) words() string {
	return fmt.Sprintf("queue %s was paused by %s at %s: %s", p.Queue, p.By, p.At.UTC().Format("2006-01-02 15:04 MST"), strings.TrimRight(p.Reason, ". "))
}

// incident says that a tenant stopped new work, and for how long that holds. The message may end as a sentence does.
func incident(tenant, message string) string {
	words := fmt.Sprintf("incident mode is on for %s, so no agent begins until it is over", tenant)
	if message = strings.TrimRight(message, ". "); message != "" {
		words += ": " + message
	}
	return words
}

// place says who goes first.
func place(ahead int, tenant string) string {
	if ahead == 0 {
		return fmt.Sprintf(" It is next in line for %s.", tenant)
	}
	return fmt.Sprintf(" It is number %d in line for %s.", ahead+1, tenant)
}

func sentence(words string) string {
	r, size := utf8.DecodeRuneInString(words)
	return string(unicode.ToUpper(r)) + words[size:] + "."
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
