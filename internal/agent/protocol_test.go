package agent

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// White box: the decoder must hold its bounds for any bytes whatever, without
// a sandbox in between.
func FuzzProtocol(f *testing.F) {
	f.Add([]byte("{\"type\":\"text\",\"text\":\"\xff\"}\n{\"type\":\"plan\",\"plan\":{}}\n"), 3)
	f.Add([]byte("{\"type\":\"tool_started\",\"call_id\":\"a\"}\n{\"type\":\"tool_started\",\"call_id\":\"a\"}"), 1)
	f.Add([]byte("{\"type\":\"usage\",\"input\":1e300,\"output\":{}}\nnull\n[]\n\"x\"\n"), 7)
	f.Fuzz(func(t *testing.T, data []byte, chunk int) {
		var open int
		d := newDecoder(func(e Event) {
			switch e := e.(type) {
			case ToolStarted:
				open++
			case ToolFinished:
				open--
			case Text:
				if !utf8.ValidString(e.Text) || len(e.Text) > maxShown+4 {
					t.Errorf("text of %d bytes", len(e.Text))
				}
			}
		})
		lines := &lineSplitter{limit: 1 << 10, line: d.line}
		step := max(1, chunk%64)
		for rest := data; len(rest) > 0; {
			n := min(step, len(rest))
			if got, err := lines.Write(rest[:n]); got != n || err != nil {
				t.Fatalf("write: %d %v", got, err)
			}
			rest = rest[n:]
		}
		lines.flush()
		out := d.finish()
		if open != 0 {
			t.Errorf("%d tool calls stay open", open)
		}
		if out.Plan != nil && out.Plan.Validate() != nil {
			t.Error("an invalid plan was taken")
		}
		if n := bytes.Count(data, []byte("\n")) + 1; out.Warnings > n {
			t.Errorf("%d warnings for %d lines", out.Warnings, n)
		}
	})
}
