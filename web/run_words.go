package web

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"signalbox/web/ui"
)

func query(s string) string { return url.QueryEscape(s) }

func runTitle(r RunView) string { return runBadge(r).Word + " · " + r.Title }

func runStream(d RunPageData) string {
	if !d.Live {
		return ""
	}
	return RunStreamURL(d.Panel.Run.ID, d.LastSeq, d.Timeline.Grows(), d.Timeline.Level)
}

func runBadge(r RunView) ui.Status {
	row := RunRow{State: r.State, Leased: r.Leased}
	if r.Gate != nil {
		row.GateKind = r.Gate.Kind
		if r.State == "WAITING_FOR_APPROVAL" && r.Gate.State == "expired" {
			return ui.Of("Request expired", ui.ToneExpired)
		}
	}
	return runRowStatus(row)
}

// attemptBadge greys a failure that a later attempt made history.
func attemptBadge(a AttemptView) ui.Status {
	s := ui.AttemptStatus(a.State)
	if a.Superseded && s.Tone == ui.ToneFailed {
		return ui.Of("Failed, then tried again", ui.ToneCancelled)
	}
	return s
}

func attemptLine(a AttemptView, now time.Time) string {
	parts := []string{}
	if a.Worker != "" {
		parts = append(parts, a.Worker)
	}
	if !a.Started.IsZero() {
		end := a.Ended
		if end.IsZero() {
			end = now
		}
		parts = append(parts, "from "+ui.Second(a.Started)+" for "+ui.Dur(end.Sub(a.Started)))
	}
	return strings.Join(parts, ", ")
}

func artifactName(a ArtifactView) string {
	if a.Name != "" {
		return a.Name
	}
	return a.Kind
}

func artifactLine(a ArtifactView) string {
	s := a.Kind
	if a.Revision > 0 {
		s += fmt.Sprintf(", revision %d", a.Revision)
	}
	if a.Attempt > 0 {
		s += fmt.Sprintf(", attempt %d", a.Attempt)
	}
	if a.Late {
		s += ", stored late"
	}
	return s
}

// failedStep is the step to read first when a run failed: the last that failed in the attempt that counted.
func failedStep(r RunView, steps []StepView) (StepView, bool) {
	var last StepView
	for _, s := range steps {
		if !s.Superseded && (s.State == "FAILED" || s.State == "TIMED_OUT") && !s.Started.Before(last.Started) {
			last = s
		}
	}
	return last, last.ID != "" && r.State == "FAILED"
}

func stepTook(s StepView, now time.Time) string {
	switch {
	case s.Started.IsZero():
		return "not started"
	case s.Ended.IsZero():
		return "for " + ui.Dur(now.Sub(s.Started))
	default:
		return ui.Dur(s.Ended.Sub(s.Started))
	}
}

// TailLines splits a log tail into lines without a trailing empty one.
func TailLines(tail string) []string {
	return strings.Split(strings.TrimSuffix(tail, "\n"), "\n")
}

func verdictWords(v string) string {
	switch strings.ToLower(v) {
	case "pass":
		return "passed"
	case "fix":
		return "asks for a fix"
	case "fail":
		return "failed"
	case "no_change":
		return "no change needed"
	default:
		return v
	}
}

// roundTo keeps times on the rail short.
func roundTo(d time.Duration) time.Duration {
	if d < time.Minute {
		return time.Second
	}
	return time.Minute
}

func eventAnchor(ev TimelineEvent) string { return "e" + eventLabel(ev) }

// eventHref is an event's permalink; a fact has none but its place on the page.
func eventHref(d TimelineData, ev TimelineEvent) string {
	if ev.Seq > 0 {
		return RunEventURL(d.RunID, ev.Seq)
	}
	return "#" + eventAnchor(ev)
}

// eventLabel is the event's number in the run's log, or the id of a fact. Facts are labelled by trusted characters only.
func eventLabel(ev TimelineEvent) string {
	if ev.Seq > 0 {
		return strconv.FormatInt(ev.Seq, 10)
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, ev.FactID)
}

// attemptHeading is the attempt whose heading stands before event i, or 0.
func attemptHeading(d TimelineData, i int) int {
	prev := d.PrevAttempt
	if i > 0 {
		prev = d.Events[i-1].Attempt
	}
	if n := d.Events[i].Attempt; n > 0 && n != prev {
		return n
	}
	return 0
}
