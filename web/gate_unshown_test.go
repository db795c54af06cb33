package web_test

import (
	"strings"
	"testing"

	"golang.org/x/net/html"

	"signalbox/web"
)

// TestTicksForWhatIsNotShown: each group has a required tick, only Approve asks for it, and a refusal stands beside it (A26).
func TestTicksForWhatIsNotShown(t *testing.T) {
	t.Parallel()
	d := sampleGatePanel()
	d.Unshown[1].Files = []string{"a", "b", "c", "d", "e", "f"}
	d.Elsewhere, d.Text = []string{"binary"}, "kept"
	d.Outcome = &web.Outcome{Kind: web.OutcomeInvalid, Field: "reviewed_elsewhere", Text: "Nothing was approved: 1 file has hidden characters."}
	text := render(t, web.GatePanel(d))
	ticked, invalid := map[string]bool{}, map[string]bool{}
	for n := range parse(t, text).Descendants() {
		if n.Type == html.ElementNode && attr(n, "name") == "reviewed_elsewhere" {
			if !has(n, "required") {
				t.Errorf("the tick for %s is not required", attr(n, "value"))
			}
			ticked[attr(n, "value")], invalid[attr(n, "value")] = has(n, "checked"), has(n, "aria-invalid")
		}
		if n.Type == html.ElementNode && n.Data == "button" && attr(n, "name") == "verdict" && has(n, "formnovalidate") == (attr(n, "value") == "approve") {
			t.Errorf("%s: the browser's check is on the wrong button", attr(n, "value"))
		}
		if n.Type == html.ElementNode && n.Data == "textarea" && has(n, "aria-invalid") {
			t.Error("the text is marked, and the ticks are what is missing")
		}
	}
	if len(ticked) != 2 || !ticked["binary"] || ticked["hidden_text"] || invalid["binary"] || !invalid["hidden_text"] {
		t.Errorf("ticked %v, marked %v", ticked, invalid)
	}
	for _, want := range []string{"a, b, c, d and 2 more", "6 files with hidden characters", `href="#f-elsewhere-1"`, "Your text is kept below."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
}
