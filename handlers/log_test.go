package handlers_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"signalbox/internal/wire"
)

// say stores output under the lease, in chunks of the largest size.
func (l *lease) say(t testing.TB, call, text string) {
	t.Helper()
	for len(text) > 0 {
		batch := wire.LogBatch{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: l.next("logs")}
		for len(text) > 0 && len(batch.Chunks) < 16 {
			n := min(len(text), 64<<10)
			batch.Chunks = append(batch.Chunks, wire.LogChunkReport{Stream: "agent", CallId: call, Data: []byte(text[:n])})
			text = text[n:]
		}
		l.call(t, "POST", "/runs/"+l.as.RunId+"/logs", batch).want(t, http.StatusOK)
	}
}

// step reports a step and answers its page.
func (l *lease) step(t testing.TB, call, name string, state wire.StepState) string {
	t.Helper()
	l.call(t, "POST", "/runs/"+l.as.RunId+"/steps", wire.StepBatch{LeaseId: l.as.LeaseId, FencingToken: l.as.FencingToken, Sequence: l.next("steps"),
		Steps: []wire.StepReport{{CallId: call, Kind: "verify", Name: name, State: state}}}).want(t, http.StatusOK)
	for _, s := range into[wire.StepList](t, l.w.cli(t, rita).call(t, "GET", "/runs/"+l.as.RunId+"/steps", nil)).Items {
		if s.CallId == call {
			return "/runs/" + l.as.RunId + "/steps/" + s.Id
		}
	}
	t.Fatal("the step is not listed")
	return ""
}

func (l *lease) logURL() string { return "/runs/" + l.as.RunId + "/logs/" + l.as.LeaseId }

// next counts the batches of a kind of fact.
func (l *lease) next(kind string) int64 {
	if l.sent == nil {
		l.sent = map[string]int64{}
	}
	l.sent[kind]++
	return l.sent[kind]
}

// printing is a run that a worker executes, and somebody who looks.
func printing(t *testing.T) (*browser, *lease) {
	t.Helper()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	l.do(t, wire.RunCommand{Command: wire.CmdStart})
	return b, l
}

// shown are the numbers and texts of a page's lines.
func shown(doc *goquery.Document) (ids, texts []string) {
	doc.Find("#log-box li[id]").Each(func(_ int, li *goquery.Selection) {
		ids = append(ids, li.AttrOr("id", ""))
		texts = append(texts, strings.TrimSpace(li.Find("code").Last().Text()))
	})
	return ids, texts
}

func numbered(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "%06d: the quick brown fox jumps over the lazy dog, %s\n", i, strconv.Itoa(i*7919%100003))
	}
	return b.String()
}

func zipped(t testing.TB, body string) int {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	got(z.Write([]byte(body)))(t)
	must(t, z.Close())
	return b.Len()
}

// R-UI-1, R-UI-3: of a log of 200,000 lines a page holds one window, wherever it lies; every line has an address that shows it.
// Field reports: travis-ci#927, travis-ci#6973, concourse#470, test-infra#26765, zebra#7637.
func TestLongLog(t *testing.T) {
	t.Parallel()
	b, l := printing(t)
	const total = 200_000
	l.say(t, "", numbered(total))
	for query, want := range map[string]struct{ first, last, marks int }{
		"":                    {total - 499, total, 0},
		"?from=1":             {1, 500, 0},
		"?at=100000":          {99_900, 100_399, 1},
		"?at=42-57":           {1, 500, 16},
		"?at=57-42":           {1, 500, 16},
		"?at=L199990-L199999": {total - 499, total, 10},
		"?from=99999999":      {total - 499, total, 0},
		"?all=1":              {total - 499, total, 0},
	} {
		a := b.get(t, l.logURL()+query).want(t, http.StatusOK)
		doc := a.page(t)
		ids, texts := shown(doc)
		if n := want.last - want.first + 1; len(ids) != n || ids[0] != fmt.Sprint("L", want.first) || ids[n-1] != fmt.Sprint("L", want.last) {
			t.Fatalf("%q shows %d lines", query, len(ids))
		}
		if !strings.HasPrefix(texts[0], fmt.Sprintf("%06d:", want.first)) || doc.Find(".logmark").Length() != want.marks {
			t.Errorf("%q: the first line is %q, %d are marked", query, texts[0], doc.Find(".logmark").Length())
		}
		if n := zipped(t, a.body); n > 40_000 || len(a.body) > 250_000 {
			t.Errorf("%q: the page has %d bytes, %d compressed", query, len(a.body), n)
		}
		href := doc.Find("#L"+strconv.Itoa(want.first+1)+" a.logno").AttrOr("href", "")
		if !strings.HasSuffix(href, fmt.Sprintf("/logs/%s?at=%d#L%d", l.as.LeaseId, want.first+1, want.first+1)) {
			t.Errorf("%q: a line's address is %q", query, href)
		}
	}
	doc := b.get(t, l.logURL()).page(t)
	if got := strings.Join(strings.Fields(doc.Find("#log-earlier").Text()), " "); !strings.HasPrefix(got, "199,500 earlier lines not shown Show earlier") {
		t.Errorf("above the window stands %q", got)
	}
	if href, _ := doc.Find("#log-up").Attr("href"); !strings.HasSuffix(href, "?from=199001#log") {
		t.Errorf("the earlier window is at %q", href)
	}
	if a := b.get(t, l.logURL()+"?at=200001"); !strings.Contains(a.body, "Line 200001 is not there") {
		t.Error("a line that is not there is shown without a word")
	}
	for _, bad := range []string{"?at=x", "?at=1-2-3", "?t=mars", "?q=" + strings.Repeat("x", 201), "?q=a%0Ab", "?hit=0", "?from=-1"} {
		b.get(t, l.logURL()+bad).want(t, http.StatusUnprocessableEntity)
	}
}

// A search counts every hit, lists them with what stands around, and leads from one to the next. Case and colours do not matter.
// Field report: squid PR#1965.
func TestLogSearch(t *testing.T) {
	t.Parallel()
	b, l := printing(t)
	text := strings.Split(numbered(1000), "\n")
	for i := 10; i <= 980; i += 10 {
		text[i-1] = fmt.Sprintf("line %d \x1b[31mNEE\x1b[1mDLE\x1b[0m <b>", i)
	}
	l.say(t, "", strings.Join(text, "\n")+strings.Repeat("y", 60_000)+"needle\n")
	search := func(query string) *goquery.Document {
		return b.get(t, l.logURL()+"?"+query).want(t, http.StatusOK).page(t)
	}
	doc := search("q=needle")
	if got := doc.Find(".logfound [role=status]").Text(); got != "99 lines hold “needle”; hits 1 to 50 are shown." {
		t.Errorf("found: %q", got)
	}
	ids, _ := shown(doc)
	if len(ids) != 250 || ids[0] != "L8" || ids[2] != "L10" || doc.Find(".loggap").Length() != 49 {
		t.Errorf("%d lines from %s, %d gaps", len(ids), ids[0], doc.Find(".loggap").Length())
	}
	var marked strings.Builder
	doc.Find("#L10 .hit").Each(func(_ int, s *goquery.Selection) { marked.WriteString(s.Text()) })
	if marked.String() != "NEEDLE" {
		t.Errorf("marked is %q", marked.String())
	}
	next := doc.Find(".logfound [rel=next]").AttrOr("href", "")
	doc = b.get(t, next).page(t)
	if ids, texts := shown(doc); ids[2] != "L510" || !strings.Contains(texts[len(texts)-1], "needle") || doc.Find(".logfound [rel=next]").Length() != 0 {
		t.Errorf("the second page begins at %s and ends with %.80q", ids[0], texts[len(texts)-1])
	}
	doc = search("q=needle&at=510")
	if got := doc.Find(".logfound [role=status]").Text(); got != "99 lines hold “needle”; 51 of them up to this place." {
		t.Errorf("at a hit: %q", got)
	}
	for rel, want := range map[string]string{"prev": "at=500&q=needle#L500", "next": "at=520&q=needle#L520"} {
		if href := doc.Find(".logfound [rel="+rel+"]").AttrOr("href", ""); !strings.HasSuffix(href, want) {
			t.Errorf("%s is %q", rel, href)
		}
	}
	if got := search("q=" + url.QueryEscape("<script>alert(1)")).Find(".logfound [role=status]").Text(); got != "No line holds “<script>alert(1)”." {
		t.Errorf("found: %q", got)
	}
}

// What a program prints is shown and does nothing: no markup, no sequence, no hidden character; a line of 5 MB costs no more
// than another, and the download has all of it.
func TestHostileLog(t *testing.T) {
	t.Parallel()
	b, l := printing(t)
	bomb := strings.Repeat("\x1b[1;31;4m\x1b[32m", 20_000)
	all := "<script>alert(1)</script><img src=x onerror=alert(1)>\n" + "user \u202egnp.exe\u2066 \u200bx\n" + bomb + "end\n" + strings.Repeat("a", 5<<20) + "\n" +
		"\x1b]0;title\x07\x1b]8;;https://evil.example\x07click\x1b]8;;\x07\n" + "\x1bPq" + strings.Repeat("x", 3000) + "\n" + "bell\x07 nul\x00 \xff\xfe\n" + "a\rb\rc\rd\n" + "[redacted] last\n"
	step := l.step(t, "v-1", "go test", wire.StepRunning)
	l.say(t, "v-1", all)
	a := b.get(t, step).want(t, http.StatusOK)
	if len(a.body) > 60_000 {
		t.Errorf("the page has %d bytes", len(a.body))
	}
	doc := a.page(t)
	ids, texts := shown(doc)
	if len(ids) != 9 || !strings.Contains(texts[3], "cut here") || texts[8] != "[redacted] last" || !strings.HasPrefix(texts[0], "<script>") {
		t.Errorf("%d lines: %.60q", len(ids), texts)
	}
	if n := doc.Find("#log-box script, #log-box img, #log-box a:not(.logno)").Length(); n != 0 {
		t.Errorf("%d elements of the log's own", n)
	}
	if bad := regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u200b\u202e\u2066]").FindString(a.body); bad != "" {
		t.Errorf("the page holds %q", bad)
	}
	if texts[1] != "user U+202Egnp.exeU+2066 U+200Bx" {
		t.Errorf("hidden characters are shown as %q", texts[1])
	}
	raw := b.get(t, step+"/raw").want(t, http.StatusOK)
	if raw.body != all {
		t.Errorf("the download has %d bytes, want %d", len(raw.body), len(all))
	}
	for name, want := range map[string]string{"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff", "Content-Length": strconv.Itoa(len(all))} {
		if raw.Header.Get(name) != want {
			t.Errorf("%s: %q", name, raw.Header.Get(name))
		}
	}
	if d := raw.Header.Get("Content-Disposition"); !regexp.MustCompile(`^attachment; filename="step_[0-9a-z]+\.log"$`).MatchString(d) {
		t.Errorf("Content-Disposition: %q", d)
	}
	// The run's page counts what is there, not what it read.
	l.step(t, "v-1", "go test", wire.StepFailed)
	if page := b.get(t, "/runs/"+l.as.RunId).want(t, http.StatusOK); !strings.Contains(page.body, "Last 9 of 9 lines.") {
		t.Error("the run's page does not count the lines")
	}
}

// A log is live: lines arrive as they end, the line that has not is shown, and a reconnection goes on where it was.
func TestLogStream(t *testing.T) {
	t.Parallel()
	b, l := printing(t)
	l.say(t, "", "one\ntw")
	page := b.get(t, l.logURL()+"?t=utc").want(t, http.StatusOK).page(t)
	connect := page.Find("#stream").AttrOr("hx-sse:connect", "")
	if connect != l.logURL()+"/stream?after=1&t=utc" || page.Find("#log-open #L2").Length() != 1 {
		t.Errorf("the page listens to %q", connect)
	}
	live, stop := b.listen(t, connect)
	if m := next(t, live); m.id != "1" || strings.Contains(m.data, `id="L1"`) || !strings.Contains(m.data, `id="L2"`) {
		t.Errorf("first message %s: %s", m.id, m.data)
	}
	l.say(t, "", "o\nthree\n<b>")
	m := next(t, live)
	for m.id != "3" {
		m = next(t, live)
	}
	if strings.Contains(m.data, `id="L1"`) || !strings.Contains(m.data, "two") || !strings.Contains(m.data, "&lt;b&gt;") || !strings.Contains(m.data, `hx-swap="beforeend"`) {
		t.Errorf("message %s: %s", m.id, m.data)
	}
	stop()
	again, _ := b.listen(t, connect, "Last-Event-ID", "2")
	if m := next(t, again); m.id != "3" || strings.Contains(m.data, `id="L2"`) || !strings.Contains(m.data, `id="L3"`) {
		t.Errorf("after a reconnection %s: %s", m.id, m.data)
	}
	// Too much for one message: the end replaces what is shown.
	l.say(t, "", "\n"+numbered(2000))
	for m = next(t, again); m.id != "2004"; {
		m = next(t, again)
	}
	if !strings.Contains(m.data, `hx-target="#log-lines" hx-swap="innerHTML"`) || strings.Contains(m.data, `id="L100"`) {
		t.Errorf("message %s of %d bytes does not replace", m.id, len(m.data))
	}
	l.do(t, wire.RunCommand{Command: wire.CmdAttemptFailed, AttemptFailed: &wire.AttemptFailed{ReasonCode: "agent_exit", Summary: "It broke."}})
	for m = next(t, again); m.event != "ended"; {
		m = next(t, again)
	}
	if page := b.get(t, l.logURL()).page(t); page.Find("#stream").Length() != 0 || page.Find("#log-box").Length() != 1 {
		t.Error("a log that has ended is live, or not shown")
	}
}

// A log in which nothing was printed says so, one that was cut short says so, and all are listed by attempts.
func TestLogsOfARun(t *testing.T) {
	t.Parallel()
	b, l := printing(t)
	if a := b.get(t, "/runs/"+l.as.RunId+"/logs").want(t, http.StatusOK); !strings.Contains(a.body, "Nothing was printed yet.") {
		t.Error("the empty list says nothing")
	}
	silent := l.step(t, "v-1", "go vet", wire.StepRunning)
	loud := l.step(t, "v-2", "go <b>test", wire.StepSucceeded)
	if a := b.get(t, silent).want(t, http.StatusOK); !strings.Contains(a.body, "Nothing was printed yet.") || !strings.Contains(a.body, "/stream?after=0") {
		t.Error("a silent step that runs is not shown as such")
	}
	l.say(t, "", "agent\n")
	l.say(t, "v-2", "some\nmore\n\n[signalbox: the output limit of this run is reached; the rest was not kept]\n")
	if a := b.get(t, loud).want(t, http.StatusOK); !strings.Contains(a.body, "This log is not whole.") {
		t.Error("a log that was cut short does not say so")
	}
	list := b.get(t, "/runs/"+l.as.RunId+"/logs").want(t, http.StatusOK).page(t)
	var rows []string
	list.Find(".cards .card").Each(func(_ int, li *goquery.Selection) {
		rows = append(rows, li.Find("a").Text()+" "+strings.Fields(li.Find("p.muted").Text())[0])
	})
	if strings.Join(rows, ", ") != "Execution log 1, go <b>test 4" {
		t.Errorf("listed are %q", rows)
	}
	l.do(t, wire.RunCommand{Command: wire.CmdAttemptFailed, AttemptFailed: &wire.AttemptFailed{ReasonCode: "agent_exit", Summary: "It broke."}})
	if a := b.get(t, silent).want(t, http.StatusOK); !strings.Contains(a.body, "Nothing was printed before it was stopped.") || !strings.Contains(a.body, l.logURL()) {
		t.Errorf("a silent step of a lease that has ended does not say so: %s", a.page(t).Find("main").Text())
	}
	// Another tenant's, another run's and no log at all are the same: not there.
	b.submit(t, "Replace another word.")
	other := l.worker.claim(t, "execute")
	for _, path := range []string{"/runs/" + other.as.RunId + "/logs/" + l.as.LeaseId, "/runs/" + other.as.RunId + strings.TrimPrefix(loud, "/runs/"+l.as.RunId) + "/raw", l.logURL() + "x"} {
		b.get(t, path).want(t, http.StatusNotFound)
	}
}

// The API hands out one step's output by itself.
func TestLogsOfAStepByAPI(t *testing.T) {
	t.Parallel()
	b, l := printing(t)
	step := l.step(t, "v-1", "go vet", wire.StepRunning)
	l.say(t, "", "agent\n")
	l.say(t, "v-1", "vet\n")
	read := func(query string) (text string) {
		a := b.w.cli(t, rita).call(t, "GET", "/runs/"+l.as.RunId+"/logs"+query, nil).want(t, http.StatusOK)
		for _, c := range into[wire.LogChunkList](t, a).Items {
			text += string(c.Data)
		}
		return text
	}
	if got := read(""); got != "agent\nvet\n" {
		t.Errorf("all: %q", got)
	}
	if got := read("?step_id=" + step[strings.LastIndex(step, "/")+1:]); got != "vet\n" {
		t.Errorf("the step's: %q", got)
	}
}
