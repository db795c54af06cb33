package web_test

import (
	"crypto/sha1" //nolint:gosec // git's own names of objects
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/internal/patch"
	"signalbox/web"
)

// sampleHunks are two hunks in a file of 89 lines, and what finds the lines around them.
func sampleHunks(t *testing.T) (*patch.Patch, func(int) (patch.Around, bool)) {
	t.Helper()
	var lines []string
	for n := 1; n <= 90; n++ {
		lines = append(lines, fmt.Sprintf("\tcount += %d // line %d\n", n, n))
	}
	lines[0], lines[1], lines[88] = "package sum\n", "// <b>Total</b> is \u202eeverything.\n", "}"
	lines = lines[:89]
	text := strings.Join(lines, "")
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text)) //nolint:gosec // see above
	name := hex.EncodeToString(sum[:])
	raw := "diff --git a/sum.go b/sum.go\nindex " + name + ".." + strings.Repeat("2", 40) + " 100644\n--- a/sum.go\n+++ b/sum.go\n" +
		"@@ -5 +5,2 @@\n " + lines[4] + "+\tcount++\n@@ -60,2 +61,2 @@\n-" + lines[59] + "+\tcount += 600\n " + lines[60]
	p, err := patch.Parse([]byte(raw), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	base := patch.ParseBase(fmt.Appendf(nil, "%s blob %d\n%s\n", name, len(text), text))
	return p, func(i int) (patch.Around, bool) { return p.Around(i, base) }
}

// sampleAround is that file, with lines around the hunks as asked for.
func sampleAround(t *testing.T, view web.DiffChoice) web.DiffFile {
	t.Helper()
	p, around := sampleHunks(t)
	rendered, _ := p.RenderFile(0, web.FileBounds())
	file, _ := web.NewDiffFile(rendered, web.DiffOptions{Place: web.GatePlace(gateID), View: view, PaintFor: time.Hour, Around: around})
	return file
}

// linesGate is a file's page with some of the lines around its changes, and the others offered.
func linesGate(t *testing.T) web.GateFilePageData {
	d := sampleGateFile(t)
	d.View = web.DiffChoice{Lines: "1-1-4.1-30-31.1-63-90"}
	d.File, d.Switches = sampleAround(t, d.View), web.DiffOptions{Place: web.GatePlace(gateID), View: d.View}.FileSwitches(1)
	return d
}

// linesPull is a pull request with some of the lines around its changes, and the others offered.
func linesPull(t *testing.T) web.PullPageData {
	p, around := sampleHunks(t)
	options := web.DiffOptions{Place: web.PullPlace("7"), View: web.DiffChoice{Lines: "1-1-4.1-30-31.1-63-90"}, PaintFor: time.Hour, Around: around}
	return web.PullPageData{
		Shell: shell(), ID: "7", Number: 7, Title: goal, State: "OPEN", Repository: repo, Branch: "agent/task_01jdx3h2/run_01jdx3h4", Base: "main", Head: "0d9b6c1f2a3e4d5c", Author: "Signalbox",
		Created: ago(3 * time.Minute), RunID: runID, TaskID: taskID, Diff: web.NewDiffView(p.Render(web.PullBounds()), options), MayMerge: true, IdempotencyKey: "K4",
	}
}
