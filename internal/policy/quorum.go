package policy

import "fmt"

// StillMay are those of the people who may approve the gate that f describes, as it stands: nobody who had a part in the
// change, and nobody who approved already.
func StillMay(r Rules, f Facts, people []Actor) []Actor {
	var out []Actor
	for _, p := range people {
		if may, _ := MayDecide(r, f, p, Approve); may {
			out = append(out, p)
		}
	}
	return out
}

// Rejecters are the people whose rejection blocks the gate that f describes; none where a rejection ends it.
func Rejecters(r Rules, f Facts) []string {
	if !r.Gates.AnyRejectBlocks {
		return nil
	}
	last, order := map[string]GateVerdict{}, []string{}
	for _, d := range f.Gate.Decisions {
		if _, ok := last[d.User]; !ok {
			order = append(order, d.User)
		}
		last[d.User] = d.Verdict
	}
	var out []string
	for _, user := range order {
		if last[user] == Reject {
			out = append(out, user)
		}
	}
	return out
}

// Asked is what a gate asked for when it was opened.
type Asked struct {
	Version string
	Quorum  int
	Role    Role
}

// Moved says in a sentence that another policy holds than when the gate was opened, and what it asks now; nothing where
// the same one holds. A20.
func Moved(r Rules, f Facts, asked Asked) string {
	if asked.Version == r.Version || asked.Version == "" {
		return ""
	}
	now := r.Under(f).Gates.For(f.Gate.Kind)
	words := fmt.Sprintf("Policy %s holds now; this was asked for under %s.", r.Version, asked.Version)
	if n := max(now.Quorum, 1); n != asked.Quorum {
		words += fmt.Sprintf(" It asks for %d approvals instead of %d.", n, asked.Quorum)
	}
	if now.Role != asked.Role {
		words += fmt.Sprintf(" The role %s decides instead of %s.", now.Role, asked.Role)
	}
	return words
}
