package policy

import (
	"cmp"
	"fmt"
	"strings"
)

// QuickContent is what is known of the content of a gate that is approved from a list, without its own page. The zero
// value is content that nobody looked at, and is not enough.
type QuickContent struct {
	// Whole says that all of the content stands above the button.
	Whole bool
	// Missing says in words what does not, where that is known.
	Missing string
	// Hidden says that the content holds characters that nobody sees as they are.
	Hidden bool
}

// Quick says in words why a gate is approved on its own page only; nothing where it may be approved from a list, below
// all of its content. How many approvals are missing does not matter: this one counts as any other.
func Quick(kind GateKind, risk Risk, c QuickContent) []string {
	var why []string
	if kind != GatePlan && kind != GatePatch {
		why = append(why, "Only a plan or a patch can be approved from a list.")
	}
	if risk != RiskLow {
		why = append(why, fmt.Sprintf("Its risk is %s; only what has a low risk can be approved from a list.", cmp.Or(strings.ToLower(string(risk)), "not known")))
	}
	if !c.Whole {
		why = append(why, cmp.Or(c.Missing, "Not all of its content can be shown in a list."))
	}
	if c.Hidden {
		why = append(why, "It holds hidden or text-reordering characters.")
	}
	return why
}
