package ui_test

import (
	"strings"
	"testing"
	"time"

	"signalbox/web/ui"
)

// Instants in a sentence are marked for machines, so that they can be shown in the reader's zone; all else is text.
func TestSentence(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 23, 30, 0, 0, time.UTC)
	for sentence, want := range map[string]string{
		"No instant, 14:02 nor 99:99:99 UTC.":                    "No instant, 14:02 nor 99:99:99 UTC.",
		"By " + ui.Clock(now.Add(time.Hour)) + " at the latest.": `By <time datetime="2026-11-30T00:30:00Z">00:30:00 UTC</time> at the latest.`,
		"From " + ui.Clock(now.Add(-time.Hour)) + ".":            `From <time datetime="2026-11-29T22:30:00Z">22:30:00 UTC</time>.`,
		"Until " + ui.Stamp(now.AddDate(0, 1, 0)) + ", <b>":      `Until <time datetime="2026-12-29T23:30:00Z">29 Dec 2026, 23:30 UTC</time>, &lt;b&gt;`,
		ui.Second(now) + " and 14:02 UTC":                        `<time datetime="2026-11-29T23:30:00Z">29 Nov 2026, 23:30:00 UTC</time> and <time datetime="2026-11-29T14:02:00Z">14:02 UTC</time>`,
		"Ana 99 Foo 2026, 10:00 UTC":                             "Ana 99 Foo 2026, 10:00 UTC",
	} {
		var b strings.Builder
		if err := ui.Sentence(sentence, now).Render(t.Context(), &b); err != nil || b.String() != want {
			t.Errorf("%q is\n%s, want\n%s (%v)", sentence, b.String(), want, err)
		}
	}
}
