package web

import (
	"fmt"
	"strings"
	"time"

	"signalbox/web/ui"
)

// workersSentence puts the problem first when there is one.
func workersSentence(d WorkersPageData) string {
	var live, lost, free int
	for _, w := range d.Rows {
		switch w.State {
		case "READY":
			live++
			free += max(w.Slots-w.Busy, 0)
		case "STALE", "DEAD":
			lost++
		}
	}
	var parts []string
	if lost > 0 {
		parts = append(parts, fmt.Sprintf("%s without a heartbeat; what they held is taken back when their leases end.", ui.Count(lost, "worker is", "workers are")))
	}
	if live == 0 {
		parts = append(parts, "No worker is ready.")
	} else {
		parts = append(parts, fmt.Sprintf("%s ready, %s free.", ui.Count(live, "worker is", "workers are"), ui.Count(free, "slot", "slots")))
	}
	switch {
	case d.QueueDepth == 0:
		parts = append(parts, "Nothing is queued.")
	case d.OldestQueued.IsZero():
		parts = append(parts, ui.Count(d.QueueDepth, "run is", "runs are")+" queued.")
	default:
		parts = append(parts, fmt.Sprintf("%s queued, the oldest for %s.", ui.Count(d.QueueDepth, "run is", "runs are"), ui.Dur(d.Now.Sub(d.OldestQueued))))
	}
	return strings.Join(parts, " ")
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
