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
	file, _ := web.NewDiffFile(rendered, web.DiffOptions{Gate: gateID, View: view, PaintFor: time.Hour, Around: around})
	return file
}

// linesGate is a file's page with some of the lines around its changes, and the others offered.
func linesGate(t *testing.T) web.GateFilePageData {
	d := sampleGateFile(t)
	d.View = web.DiffChoice{Lines: "1-1-4.1-30-31.1-63-90"}
	d.File, d.Switches = sampleAround(t, d.View), web.DiffOptions{Gate: gateID, View: d.View}.FileSwitches(1)
	return d
}
