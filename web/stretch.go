package web

import (
	"strings"
	"time"

	"signalbox/internal/run"
	"signalbox/web/ui"
)

// Stretch is how long a run spent on one kind of thing, over its whole life.
type Stretch struct {
	Kind string // queue, agent, verify, people, forge, stop, unread
	Took time.Duration
	Now  bool // the run is at it
}

// stretchKinds are the kinds in the order in which the bar shows them, with the words beside it.
var stretchKinds = []struct{ kind, words string }{
	{"queue", "waited in the queue"},
	{"agent", "agent"},
	{"verify", "verification"},
	{"people", "people"},
	{"forge", "CI and forge"},
	{"stop", "stopping"},
	{"unread", "not looked at"},
}

// Stretches says where a run's time went, from its events in order: the answer to "why did this take nine hours". The present
// stage lasts until now. What took no time is left out. Working states count as waiting in the queue until a worker holds
// a lease, because nothing happens meanwhile. Where the events' numbers jump, nobody knows, and the bar says so.
func Stretches(events []TimelineEvent, now time.Time) []Stretch {
	took := map[string]time.Duration{}
	state, held, since, seq := "", false, time.Time{}, int64(0)
	for _, ev := range events {
		switch {
		case jumps(seq, ev.Seq):
			took["unread"] += max(ev.At.Sub(since), 0)
		case state != "":
			took[stretchOf(state, held)] += max(ev.At.Sub(since), 0)
		}
		since, seq = ev.At, max(ev.Seq, seq)
		if ev.To != "" {
			state = ev.To
		}
		switch kind := run.Kind(ev.Kind); {
		case kind == run.KindLeaseAcquired:
			held = true
		case run.HandsOver(kind), kind == run.KindWorkerLost, kind == run.KindLeaseReleased, kind == run.KindAttemptFailed, state == string(run.Queued):
			held = false
		}
	}
	current := ""
	if state != "" && !terminal(state) {
		current = stretchOf(state, held)
		took[current] += max(now.Sub(since), 0)
	}
	var all []Stretch
	for _, k := range stretchKinds {
		if took[k.kind] > 0 || k.kind == current {
			all = append(all, Stretch{Kind: k.kind, Took: took[k.kind], Now: k.kind == current})
		}
	}
	return all
}

// jumps reports whether events between two numbers are missing; facts have the number 0.
func jumps(before, seq int64) bool { return seq > before+1 && before > 0 }

func stretchOf(state string, held bool) string {
	switch state {
	case "CREATED", "QUEUED":
		return "queue"
	case "WAITING_FOR_APPROVAL":
		return "people"
	case "PR_CREATED", "AWAITING_VERIFICATION":
		return "forge"
	case "CANCELLING":
		return "stop"
	}
	switch {
	case needsWorker(state) && !held:
		return "queue"
	case state == "PR_CREATING":
		return "forge"
	case state == "PATCH_READY" || state == "VERIFYING" || state == "JUDGING":
		return "verify"
	}
	return "agent"
}

func stretchWords(kind string) string {
	for _, k := range stretchKinds {
		if k.kind == kind {
			return k.words
		}
	}
	return kind
}

// stretchSentence is the bar in words: "9 h 4 min in all: waited in the queue 4 min, agent 12 min, people 8 h 48 min so far."
func stretchSentence(all []Stretch) string {
	total, parts := time.Duration(0), make([]string, 0, len(all))
	for _, s := range all {
		total += s.Took
		part := stretchWords(s.Kind) + " " + ui.Dur(s.Took)
		if s.Now {
			part += " so far"
		}
		parts = append(parts, part)
	}
	return ui.Dur(total) + " in all: " + strings.Join(parts, ", ") + "."
}

// stretchBar is the width of the bar in the units of its view box.
const stretchBar = 1000

// piece is a span's place in the bar.
type piece struct {
	kind     string
	x, width int
}

// stretchPieces lays the all side by side. A short one is widened to be seen at all, at the cost of the longest.
func stretchPieces(all []Stretch) []piece {
	const least = 6
	total, longest := time.Duration(0), 0
	for i, s := range all {
		total += s.Took
		if s.Took > all[longest].Took {
			longest = i
		}
	}
	if total <= 0 {
		return nil
	}
	pieces, sum := make([]piece, len(all)), 0
	for i, s := range all {
		pieces[i] = piece{kind: s.Kind, width: max(int(int64(stretchBar)*s.Took.Milliseconds()/max(total.Milliseconds(), 1)), least)}
		sum += pieces[i].width
	}
	pieces[longest].width += stretchBar - sum
	x := 0
	for i := range pieces {
		pieces[i].x = x
		x += pieces[i].width
	}
	return pieces
}
