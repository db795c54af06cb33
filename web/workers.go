package web

import (
	"fmt"
	"strings"
	"time"

	"signalbox/web/ui"
)

// WorkersPageData is the state of queues and execution plane.
type WorkersPageData struct {
	Shell
	Hints        []Hint
	QueueDepth   int
	OldestQueued time.Time // zero: nothing queued
	Queues       []QueueRow
	Providers    []ProviderRow
	Rows         []WorkerRow
	// Waiting are the items that have waited longest; there may be more, as QueueDepth says.
	Waiting []WaitingRow
	Stuck   []StuckRow
	Advice  AdviceView
	// MayAct is set for administrators; the others see the same page without its buttons.
	MayAct bool
	// Problem says what was not done, about the queue of that name where one was named; Reason keeps what was typed.
	Problem, ProblemQueue, Reason string
	IdempotencyKey                string
}

// QueueRow is one named queue.
type QueueRow struct {
	Name                    string
	Depth, Delayed, Running int
	Workers                 int
	Oldest                  time.Time // zero: nothing waits
	// Came and Went are runs a minute over the last ten.
	Came, Went float64
	// Paused is set with who, when and why; Own says that this tenant may resume it.
	Paused      bool
	PausedBy    string
	PausedAt    time.Time
	PauseReason string
	Own         bool
	PauseKey    string
}

// ProviderRow is a model provider that is left alone by everybody.
type ProviderRow struct {
	Name string
	// Since is when the first in a row was turned away, Until when one run tries; Due says that this is over, Probing that one does.
	Since, Until time.Time
	Failures     int
	Due, Probing bool
	// RunID, Title and By are the run that was turned away last and who asked for it, Reason what its worker said; empty
	// where it is another tenant's.
	RunID, Title, By, Reason string
	// ResumeKey is of the button that ends the pause; empty where the reader may not.
	ResumeKey string
}

// WorkerRow is one boot of a worker; State is computed by the reader from the heartbeat.
type WorkerRow struct {
	ID          string
	Name        string
	State       string // STARTING, READY, DRAINING, STOPPED, STALE, DEAD
	HeartbeatAt time.Time
	StartedAt   time.Time
	StaleAfter  time.Duration // from the last heartbeat
	Version     string
	VersionSkew bool
	Isolation   string
	Unsafe      bool // isolation is process
	Roles       []string
	Queues      []string
	Busy, Slots int
	Runs        []WorkerRun
	LastError   string
	MayDrain    bool
	DrainKey    string
}

// WorkerRun is a run that a worker holds.
type WorkerRun struct{ ID, Title, Phase string }

// WaitingRow is a READY item with the truth about why nobody has it.
type WaitingRow struct {
	RunID, Title, Queue, Phase string
	Since                      time.Time
	Reason                     string
}

// StuckRow is a run whose lease is over and was not taken back yet.
type StuckRow struct {
	RunID, Title, Worker string
	Expired, Heartbeat   time.Time
	// Key is of the button that releases it; empty where the reader may not.
	Key string
}

// AdviceView says how many runs fit and what binds.
type AdviceView struct {
	Words  string
	Binds  string
	Bounds []BoundView
}

// BoundView is one thing that bounds.
type BoundView struct {
	Name, Words string
	Runs        int
	Known       bool
}

// healthSentence puts the problem first when there is one, else says that all is well; tone is the notice's.
func healthSentence(d WorkersPageData) (title, rest string, tone ui.Tone) {
	var live, lost, starting, free, slots int
	for _, w := range d.Rows {
		switch w.State {
		case "READY":
			live++
			slots += w.Slots
			free += max(w.Slots-w.Busy, 0)
		case "STARTING":
			starting++
		case "STALE":
			lost++
		}
	}
	var problems []string
	if live == 0 && (d.QueueDepth > 0 || lost > 0) {
		problems = append(problems, "No worker is ready.")
	}
	if n := len(d.Stuck); n > 0 {
		problems = append(problems, fmt.Sprintf("%s stuck: the lease is over and nobody was heard of.", ui.Count(n, "run is", "runs are")))
	}
	if lost > 0 {
		problems = append(problems, fmt.Sprintf("%s without a heartbeat; what they held is taken back when their leases end.", ui.Count(lost, "worker is", "workers are")))
	}
	for _, q := range d.Queues {
		if q.Paused && q.Depth > 0 {
			problems = append(problems, fmt.Sprintf("Queue %s is paused and %s.", q.Name, ui.Count(q.Depth, "run waits", "runs wait")))
		}
	}
	for _, p := range d.Providers {
		problems = append(problems, fmt.Sprintf("Provider %s asked to slow down.", p.Name))
	}
	queued := "Nothing is queued."
	if d.QueueDepth > 0 {
		queued = ui.Count(d.QueueDepth, "run is", "runs are") + " queued."
		if !d.OldestQueued.IsZero() {
			queued = fmt.Sprintf("%s queued, the oldest for %s.", ui.Count(d.QueueDepth, "run is", "runs are"), ui.Dur(d.Now.Sub(d.OldestQueued)))
		}
	}
	workers := "No worker is live."
	if live > 0 {
		workers = fmt.Sprintf("%s live, %d of %s free.", ui.Count(live, "worker is", "workers are"), free, ui.Count(slots, "slot", "slots"))
	}
	if starting > 0 {
		workers += " " + ui.Count(starting, "worker tries its sandbox", "workers try their sandboxes") + " and gets work afterwards."
	}
	if len(problems) > 0 {
		return problems[0], strings.Join(append(problems[1:], workers, queued), " "), ui.ToneWaiting
	}
	if live == 0 && starting > 0 {
		return "Starting.", workers + " " + queued, ui.ToneNeutral
	}
	if live == 0 {
		return "Nothing to do, and nobody to do it.", workers + " " + queued, ui.ToneNeutral
	}
	return "Healthy.", workers + " " + queued, ui.ToneDone
}

func staleWords(w WorkerRow, now time.Time) string {
	if w.State != "READY" && w.State != "DRAINING" && w.State != "STARTING" || w.StaleAfter == 0 || w.HeartbeatAt.IsZero() {
		return ""
	}
	left := w.StaleAfter - now.Sub(w.HeartbeatAt)
	if left <= 0 {
		return "stale"
	}
	return "stale in " + ui.Dur(left.Round(time.Second))
}

// rate says how many a minute.
func rate(perMinute float64) string {
	if perMinute > 0 && perMinute < 0.1 {
		return "below 0.1"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", perMinute), ".0")
}

// providerWhen says when a provider that asked to slow down is tried again.
func providerWhen(p ProviderRow) string {
	switch {
	case p.Probing:
		return "One run tries it now; the others follow when it gets through."
	case p.Due:
		return "The next run tries it; the others follow when it gets through."
	}
	return "Left alone until " + ui.Clock(p.Until) + "; then one run tries it."
}

// turnedAway says how often; the time of the first follows.
func turnedAway(p ProviderRow) string {
	if p.Failures == 1 {
		return "Turned a run away"
	}
	return fmt.Sprintf("Turned runs away %d times in a row, first", p.Failures)
}

// lastWords say whose run was turned away last and what its worker said; they follow the run's title.
func lastWords(p ProviderRow) (words string) {
	if p.By != "" {
		words = " of " + p.By
	}
	if p.Reason != "" {
		words += ": " + p.Reason
	}
	return words
}

// ProviderResumeURL takes the POST that ends the pause of a model provider.
const ProviderResumeURL = "/workers/providers/resume"

// QueuePauseURL and QueueResumeURL take the POST that stops or goes on with a queue.
const (
	QueuePauseURL  = "/workers/queues/pause"
	QueueResumeURL = "/workers/queues/resume"
)

// WorkerDrainURL takes the POST that asks a worker to finish and end.
func WorkerDrainURL(id string) string { return sub(WorkersURL, id, "drain") }

// workerAnchor is the place of a worker on the page.
func workerAnchor(w WorkerRow) string { return "worker-" + w.ID }
