package campaign

import (
	"cmp"
	"fmt"
	"slices"
)

// Candidate is a repository that takes part, with what makes it differ from others.
type Candidate struct {
	Repository string
	Owner      string
	Language   string
	// Size is any measure of the repository's size; only its order counts.
	Size int64
}

// Assign gives each candidate its wave. The canary is chosen for variety: one after the other, the candidate that differs most in
// language, owner and size from those that are chosen already. The others follow by name. Sizes that are shares are of all.
func Assign(candidates []Candidate, waves []Wave) ([]int, error) {
	out := make([]int, len(candidates))
	order := make([]int, len(candidates))
	for i := range order {
		order[i], out[i] = i, -1
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(candidates[a].Repository, candidates[b].Repository) })
	left := len(candidates)
	for w, wave := range waves {
		size := left
		if wave.Kind != Full {
			n, ok := wave.Size.Of(len(candidates))
			if !ok {
				return nil, fmt.Errorf("wave %d: %q is neither a number nor a share", w+1, wave.Size)
			}
			size = min(max(n, 1), left)
		}
		chosen := order[:size]
		if wave.Kind == Canary {
			chosen = various(candidates, order, min(size, mostVarious))
			chosen = append(chosen, slices.DeleteFunc(slices.Clone(order), func(i int) bool { return slices.Contains(chosen, i) })[:size-len(chosen)]...)
		}
		for _, i := range chosen {
			out[i] = w
		}
		order = slices.DeleteFunc(slices.Clone(order), func(i int) bool { return out[i] >= 0 })
		left = len(order)
	}
	if left > 0 {
		return nil, fmt.Errorf("%d targets are in no wave: the last wave must be full", left)
	}
	return out, nil
}

// mostVarious is how many of a canary are chosen for variety; the others follow by name.
const mostVarious = 50

// various picks n of the candidates in order, each time one whose language, owner and third of sizes were chosen least so far.
func various(candidates []Candidate, order []int, n int) []int {
	bySize := slices.Clone(order)
	slices.SortStableFunc(bySize, func(a, b int) int { return cmp.Compare(candidates[a].Size, candidates[b].Size) })
	third := make(map[int]int, len(order))
	for at, i := range bySize {
		third[i] = at * 3 / len(bySize)
	}
	languages, owners, thirds := map[string]int{}, map[string]int{}, map[int]int{}
	var chosen []int
	taken := make(map[int]bool, n)
	for len(chosen) < n {
		best, least := -1, 0
		for _, i := range order {
			if taken[i] {
				continue
			}
			seen := 4*languages[candidates[i].Language] + 2*owners[candidates[i].Owner] + thirds[third[i]]
			if best < 0 || seen < least {
				best, least = i, seen
			}
		}
		taken[best] = true
		chosen = append(chosen, best)
		languages[candidates[best].Language]++
		owners[candidates[best].Owner]++
		thirds[third[best]]++
	}
	return chosen
}
