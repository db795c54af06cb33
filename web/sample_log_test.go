package web_test

import (
	"fmt"
	"time"

	"signalbox/web"
	"signalbox/web/ui"
)

func logText(from int64, texts ...string) (lines []web.LogLine) {
	for i, text := range texts {
		lines = append(lines, web.LogLine{No: from + int64(i), Text: text, At: ago(14*time.Minute - time.Duration(i)*time.Second)})
	}
	return lines
}

// sampleLog is the end of a long log of a failed check, with what programs do to terminals.
func sampleLog() web.LogPageData {
	step := sampleRunPage().Steps[1]
	lines := logText(1201, "=== RUN   TestRetryClosesBody", "\x1b[31m--- FAIL: TestRetryClosesBody (0.00s)\x1b[0m", "    retry_test.go:41: undefined: countingBody",
		"\x1b]8;;https://evil.example\x07click\x1b]8;;\x07", "<script>alert(1)</script>", "rm -rf /\rls", "fetch 1%\rfetch 20%\rfetch 80%\rfetch done",
		"waiting", "waiting", "waiting", "waiting", "waiting", "::group::Environment", "HOME=/work", "TOKEN=[redacted]", "::endgroup::", "invisible \u202etext", "FAIL\tacme/payments/internal/http\t0.012s")
	lines[2].Mark, lines[1].Mark = true, true
	total := lines[len(lines)-1].No
	return web.LogPageData{Shell: shell(), RunID: runID, Title: goal, Name: step.Name, Attempt: 1, Step: &step, Log: web.LogView{
		Base: web.StepURL(runID, step.ID), Lines: lines, Ends: total, Total: total, Bytes: 81_000, Tail: true, Last: ago(14 * time.Minute), At: 1202, To: 1203, Times: web.LogTimesUTC,
	}}
}

func sampleLiveLog() web.LogPageData {
	lines := logText(40, "step 1 of 9", "step 2 of 9", "building 45%")
	return web.LogPageData{Shell: shell(), RunID: runID, Title: goal, Name: "Execution log", Attempt: 2, Log: web.LogView{
		Base: web.LogURL(runID, "lease_1"), Lines: lines, Ends: 41, Total: 42, Bytes: 900, Tail: true, Live: true, Last: ago(3 * time.Second), Wrap: true,
	}}
}

func sampleFound() web.LogPageData {
	d := sampleLog()
	lines := logText(7, "before", "an \x1b[31mErr\x1b[0mor here", "after", "x")
	lines[3].No, lines[3].Gap, lines[3].Text = 900, true, "error and ERROR"
	d.Log.Lines, d.Log.At, d.Log.To, d.Log.Query = lines, 0, 0, "error"
	d.Log.Find = &web.LogFind{Total: 120, List: true, First: 51, Last: 52, Prev: 1, Next: 53, Upto: 1218, Whole: true}
	return d
}

func sampleEmptyLog() web.LogPageData {
	d := sampleLog()
	d.Log = web.LogView{Base: d.Log.Base}
	d.Elsewhere = &web.Link{Text: "Open the execution log of this attempt", Href: web.LogURL(runID, "lease_1")}
	return d
}

func sampleLogs() web.LogsPageData {
	d := web.LogsPageData{Shell: shell(), RunID: runID, Title: goal, Live: true}
	failed := ui.StepStatus("FAILED")
	for attempt := 1; attempt <= 2; attempt++ {
		d.Logs = append(d.Logs,
			web.LogEntry{Name: "Execution log", Href: web.LogURL(runID, fmt.Sprint("lease_", attempt)), Attempt: attempt, Live: attempt == 2, Lines: 123456, Bytes: 12_300_000, Began: ago(20 * time.Minute), Last: ago(15 * time.Minute)},
			web.LogEntry{Name: "go test ./...", Href: web.StepURL(runID, "s2"), Attempt: attempt, Status: &failed, Lines: 212, Bytes: 4000, Began: ago(15 * time.Minute), Last: ago(14 * time.Minute)})
	}
	return d
}
