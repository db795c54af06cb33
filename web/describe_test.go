package web_test

import (
	"strings"
	"testing"

	"signalbox/web"
)

// R-PR-2, W7: the text of a pull request reads as it was meant, and nothing in it becomes an element.
func TestPullDescription(t *testing.T) {
	t.Parallel()
	d := web.PullPageData{Shell: shell(), Number: 7, State: "OPEN", Title: "A change", Body: "<!-- signalbox:run=run_1 -->\nMade by an agent.\nNobody merged it.\n\n| | |\n| --- | --- |\n" +
		"| Run | [run_1](http://evil.example/) |\n| Task | \\<img src=x onerror=alert\\(1\\)\\> |\n| Base | `abc` |\n\n### Checks\n\n- test: passed\n- lint: \\[failed\\]\n\n" +
		"````text\n### not a heading\n```\n<script>alert(1)</script>\n````\n"}
	text := render(t, web.PullPage(d))
	for _, want := range []string{
		"<p>Made by an agent. Nobody merged it.</p>", "<dt>Run</dt><dd>run_1</dd>", "<dd>&lt;img src=x onerror=alert(1)&gt;</dd>", "<dd>abc</dd>", "<h3>Checks</h3>",
		"<li>test: passed</li>", "<li>lint: [failed]</li>", "### not a heading\n```\n&lt;script&gt;alert(1)&lt;/script&gt;",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s:\n%s", want, text[strings.Index(text, "describe"):])
		}
	}
	for _, no := range []string{"evil.example", "signalbox:run", "---", "<script>alert"} {
		if strings.Contains(text, no) {
			t.Errorf("shows %s", no)
		}
	}
}
