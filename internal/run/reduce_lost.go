package run

import (
	"fmt"
	"time"
)

// loss is a lease that ended without what it was for.
type loss struct {
	code              Code
	summary, evidence string
	// spent says that cost or time allow no further try.
	spent  bool
	jitter float64
	floor  time.Duration
	// drained says that the worker had been told to go: nothing is held against the run.
	drained bool
}

// lost decides what a failed or vanished lease means: before the patch is stored
// the attempt is over; afterwards the phase is delivered again, whatever was
// spent, because the stored patch costs nothing more.
func (m *move) lost(l loss) error {
	if m.r.State.Phase() == PhaseExecute {
		return m.lostAttempt(l)
	}
	count := &m.r.VerifyRedeliveries
	if m.r.State.Phase() == PhasePublish {
		count = &m.r.PublishRedeliveries
	}
	if l.drained {
		m.enqueue(m.r.State.Phase(), 0)
		return nil
	}
	limits := m.r.Limits
	if *count >= limits.Redeliveries || Lookup(l.code).Retry != RetryAgain {
		f := failure(l.code, l.summary, l.evidence)
		if m.r.State.Phase() == PhasePublish {
			f.Category = CatPRCreationFailed
		}
		return m.fail(f)
	}
	*count++
	m.enqueue(m.r.State.Phase(), max(l.backoff(limits, *count), l.floor))
	return nil
}

// backoff is the wait before the next try. A worker that vanished says nothing about the run: after the first the run is
// given out again at once, and only one that goes on losing workers waits.
func (l loss) backoff(limits Limits, tries int) time.Duration {
	if l.code != CodeWorkerLost {
		return Backoff(limits.Delays, tries, limits.Jitter, l.jitter)
	}
	if tries == 1 {
		return 0
	}
	return Backoff(limits.Delays, tries-1, limits.Jitter, l.jitter)
}

// lostAttempt charges the attempt to the budget that its end belongs to, and
// tries again while that budget, money and time last.
func (m *move) lostAttempt(l loss) error {
	if l.drained && !l.spent {
		m.do(EndAttempt{Attempt: m.r.Attempt, As: AttemptAborted, Code: l.code})
		m.r.Released++
		m.again()
		m.enqueue(PhaseExecute, 0)
		return nil
	}
	limits := m.r.Limits
	tries, left := m.charge(l.code)
	switch {
	case l.spent || Lookup(l.code).Retry != RetryAgain:
		return m.fail(failure(l.code, l.summary, l.evidence))
	case !left && l.code.Crash() && limits.MaxCrashes > 0:
		return m.fail(m.quarantine(l))
	case !left:
		return m.fail(failure(l.code, l.summary, l.evidence))
	}
	delay := l.backoff(limits, tries)
	if l.code == CodeProviderRateLimit && l.floor > 0 {
		delay = 0 // the provider's own pause, with its own spread, is the delay
	}
	m.do(EndAttempt{Attempt: m.r.Attempt, As: AttemptFailed, Code: l.code})
	m.again()
	m.enqueue(PhaseExecute, max(delay, l.floor))
	return nil
}

// charge counts the attempt and returns which one it is in its budget, and whether
// that budget allows another.
func (m *move) charge(c Code) (tries int, left bool) {
	r, l := &m.r, m.r.Limits
	switch {
	case c.Crash() && l.MaxCrashes > 0:
		r.Crashed++
		return r.Crashed, r.Crashed < l.MaxCrashes
	case c == CodeProviderRateLimit && l.MaxRateLimits > 0:
		r.RateLimited++
		return r.RateLimited, r.RateLimited < l.MaxRateLimits
	}
	return r.AttemptsUsed(), r.AttemptsLeft()
}

// quarantine ends a run that took worker after worker down with it. A new run of
// the same task would do the same, so nobody makes one by itself.
func (m *move) quarantine(l loss) *Failure {
	workers := "workers"
	if m.r.Crashed == 1 {
		workers = "worker"
	}
	f := failure(CodeWorkerLost, fmt.Sprintf("The run is quarantined: it crashed %d %s, the last one with %s. Find out what it does to them before you run it again.",
		m.r.Crashed, workers, l.code), l.evidence)
	f.Retryable = false
	return f
}
