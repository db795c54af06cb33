package web

import (
	"fmt"
	"math"
	"time"

	"signalbox/internal/money"
	"signalbox/web/ui"
)

// RunCost is what a run cost by where its number comes from. The three are never one sum.
type RunCost struct {
	Reported, Estimated money.Amount
	UnknownCalls        int64
}

// none says that no model was called.
func (c RunCost) none() bool {
	return c.Reported.Micros == 0 && c.Estimated.Micros == 0 && c.UnknownCalls == 0
}

// parts are the cost in a list, none where no model was called.
func (c RunCost) parts() (parts []string) {
	if c.none() {
		return nil
	}
	if c.Reported.Micros > 0 || c.Estimated.Micros == 0 && c.UnknownCalls == 0 {
		parts = append(parts, c.Reported.String())
	}
	if c.Estimated.Micros > 0 {
		parts = append(parts, c.Estimated.String()+" estimated")
	}
	if c.UnknownCalls > 0 {
		if parts == nil {
			return []string{"unknown"}
		}
		parts = append(parts, "part unknown")
	}
	return parts
}

// usualWords compares how long a run was active with its repository's usual run.
func (r RunRow) usualWords() string {
	if r.Usual <= 0 {
		return ""
	}
	usual := ui.Rough(r.Usual)
	switch times := r.times(); {
	case r.Ended.IsZero() && times <= 1:
		return "usually " + usual
	case times > 1.25:
		return fmt.Sprintf("%s times the usual %s", factor(times), usual)
	case times < 0.8:
		return "less than the usual " + usual
	default:
		return "as usual, " + usual
	}
}

// times is how often the usual time goes into the run's.
func (r RunRow) times() float64 { return r.Active.Seconds() / max(r.Usual.Seconds(), 0.001) }

// bar is the run's share of twice the usual time, the width of the comparison: its middle is the usual run.
func (r RunRow) bar() string { return fmt.Sprintf("%.1f", min(r.times()*20, 40)) }

// factor writes a factor: one decimal while it is small.
func factor(f float64) string {
	if f < 10 {
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprint(int(math.Round(f)))
}

// waitsForPerson says whether the run stands at a person, so that a list tells it from work that goes on.
func (r RunRow) waitsForPerson() bool {
	return r.State == "WAITING_FOR_APPROVAL" || r.State == "AWAITING_VERIFICATION"
}

// sinceWords says how long a run that has not ended is in its state, and for whom it waits.
func (r RunRow) sinceWords(now time.Time) string {
	if r.waitsForPerson() {
		return "waits for a person for " + ui.Rough(now.Sub(r.Since))
	}
	return "for " + ui.Rough(now.Sub(r.Since))
}
