package schedule

import (
	"time"

	"github.com/google/uuid"
)

// Parking is a provider that asked to be left alone.
type Parking struct {
	Until time.Time
	// Failures is how often in a row it asked.
	Failures int
	// Probe is the run that tries first now that the time is over, while it holds its lease; the zero id without one.
	Probe uuid.UUID
}

// FirstPause is how long the first pause lasts where the provider names no time; each further one in a row lasts
// twice as long, up to LongestPause. PauseJitter is the largest part of a pause that is added to it.
const (
	FirstPause   = 30 * time.Second
	LongestPause = 30 * time.Minute
	PauseJitter  = 0.2
)

// Again is the pause after the provider turned somebody away: what it asked for, but at least twice the last one and at
// most LongestPause, and then something on top, so that what waits does not come back at once. A worker reports what was
// asked for, and one worker's word must not stop everybody for a day: when the longest pause is over one run tries. Who
// began before the last pause was over belongs to the same wave and makes it no longer. draw is from 0 to 1 and was drawn
// by the caller.
func (p Parking) Again(now, began time.Time, asked time.Duration, draw float64) Parking {
	next := Parking{Failures: max(p.Failures, 1)}
	if p.Failures > 0 && !began.Before(p.Until) {
		next.Failures = p.Failures + 1
	}
	wait := min(FirstPause<<min(next.Failures-1, 16), LongestPause)
	wait = max(wait, min(asked, LongestPause))
	wait += time.Duration(PauseJitter * min(max(draw, 0), 1) * float64(wait))
	next.Until = now.Add(wait)
	if next.Until.Before(p.Until) {
		next.Until = p.Until
	}
	return next
}
