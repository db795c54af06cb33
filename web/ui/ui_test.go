package ui_test

import (
	"testing"
	"time"

	"signalbox/internal/run"
	"signalbox/web/ui"
)

func TestLengthsAndAges(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 s", 250 * time.Millisecond: "250 ms", 42 * time.Second: "42 s", 185 * time.Second: "3 min 5 s", 2 * time.Hour: "2 h",
		130 * time.Minute: "2 h 10 min", 99 * time.Hour: "4 d 3 h", -time.Minute: "0 s",
	} {
		if got := ui.Dur(d); got != want {
			t.Errorf("Dur(%v) = %q, want %q", d, got, want)
		}
	}
	now := time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{now: "just now", now.Add(-3 * time.Minute): "3 min ago", now.Add(3 * time.Hour): "in 3 h", now.Add(-72 * time.Hour): "3 d ago"} {
		if got := ui.Ago(at, now); got != want {
			t.Errorf("Ago(%v) = %q, want %q", at, got, want)
		}
	}
	zone := time.FixedZone("CET", 3600)
	if got := ui.Stamp(now.In(zone)); got != "29 Nov 2026, 14:00 UTC" {
		t.Errorf("Stamp = %q: a time must carry its zone", got)
	}
}

// TestStatusVocabulary: every state has a word of its own, a tone and an icon; a state of a newer server is not hidden.
func TestStatusVocabulary(t *testing.T) {
	t.Parallel()
	words := map[string]bool{}
	for _, state := range run.States() {
		s := ui.RunStatus(string(state))
		if s.Word == "" || s.Word == string(state) || words[s.Word] || s.Icon == (ui.Icon{}) || s.Tone == ui.ToneNeutral {
			t.Errorf("%s: %+v", state, s)
		}
		words[s.Word] = true
	}
	if s := ui.RunStatus("BRAND_NEW"); s.Word != "BRAND_NEW" {
		t.Errorf("an unknown state became %q", s.Word)
	}
	icons := map[ui.Icon]ui.Tone{}
	for _, tone := range []ui.Tone{ui.ToneQueued, ui.ToneRunning, ui.ToneWaiting, ui.ToneDone, ui.ToneFailed, ui.ToneCancelled, ui.ToneExpired, ui.ToneDenied, ui.ToneNeutral} {
		s := ui.Of("x", tone)
		if other, ok := icons[s.Icon]; ok {
			t.Errorf("%s looks like %s without colour", tone, other)
		}
		icons[s.Icon] = tone
	}
}
