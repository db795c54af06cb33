package campaign

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Rate is a share of failures with what it was taken of.
type Rate struct {
	Failed, Of int
}

// Percent is the share; 0 of nothing.
func (r Rate) Percent() float64 {
	if r.Of == 0 {
		return 0
	}
	return 100 * float64(r.Failed) / float64(r.Of)
}

// String is "4 of 18 finished runs failed (22 %)".
func (r Rate) String() string {
	return fmt.Sprintf("%d of %d finished runs failed (%.0f %%)", r.Failed, r.Of, r.Percent())
}

// RateOf is the rate over the last n of some targets that finished after an instant; a n of 0 is all of them.
func RateOf(targets []Target, s Stop, since time.Time, n int) Rate {
	var finished []Target
	for _, t := range targets {
		if in, _ := t.counted(s.Counts); in && t.EndedAt.After(since) {
			finished = append(finished, t)
		}
	}
	slices.SortStableFunc(finished, func(a, b Target) int {
		return cmp.Or(b.EndedAt.Compare(a.EndedAt), cmp.Compare(a.Repository, b.Repository))
	})
	if n > 0 && len(finished) > n {
		finished = finished[:n]
	}
	r := Rate{Of: len(finished)}
	for _, t := range finished {
		if _, failure := t.counted(s.Counts); failure {
			r.Failed++
		}
	}
	return r
}

// Allowance is what is left of the tolerance.
type Allowance struct {
	Tolerance int // accepted failures in all
	Used      int
}

// Left is how many failures are accepted still; below 0 the tolerance is passed.
func (a Allowance) Left() int { return a.Tolerance - a.Used }

// AllowanceOf counts the failures of a campaign against its tolerance. Excluded targets take part in neither.
func AllowanceOf(targets []Target, spec Spec) Allowance {
	eligible, used := 0, 0
	for _, t := range targets {
		if t.Stage == Excluded {
			continue
		}
		eligible++
		if _, failure := t.counted(spec.Stop.Counts); failure {
			used++
		}
	}
	tolerance, _ := spec.Limits.Tolerance.Of(eligible)
	return Allowance{tolerance, used}
}

// AtOnce is how many targets of a wave may be at work at once, and why where that is less than the wave's concurrency.
func AtOnce(targets []Target, spec Spec, wave int) (n int, why string) {
	most, a := spec.concurrency(wave), AllowanceOf(targets, spec)
	if strict := max(a.Left()+1, 0); strict < most {
		return strict, fmt.Sprintf("%d at a time because %d of %d allowed failures are used", strict, a.Used, a.Tolerance)
	}
	return most, ""
}
