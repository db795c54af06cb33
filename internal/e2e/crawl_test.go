package e2e_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// seeded is a product with a run in each state that pages tell apart, made as people and agents make them.
func seeded(t *testing.T) *rig.Rig {
	t.Helper()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita, ana := r.Person("rita"), r.Person("ana")
	submit := func(k rig.Task) string {
		k.Repository = repo
		_, run := rita.Submit(k)
		return run
	}
	change := raiseTax(repo)
	plan := rig.Act{Do: "plan", When: "plan", File: "lib/price.sh"}
	planned := rig.Task{Title: "Raise the tax by plan", Goal: rig.Recipe("Tax is 20 per cent now.", plan), PlanGate: true}

	sentBack, rejected, waiting := submit(change), submit(change), submit(change)
	first := r.AwaitGate(sentBack)
	ana.RequestChanges(first, `replace "hello" with "hello, world" in greeting.txt`)
	ana.Approve(r.AwaitGate(sentBack, first))
	if page := ana.Decide(r.AwaitGate(rejected), "reject", "Not <b>now</b>."); page.Status != http.StatusOK {
		t.Fatalf("reject: %d %s", page.Status, page.Alert())
	}
	r.AwaitGate(waiting)
	r.AwaitGate(submit(planned))
	report := rig.Act{Do: "raw", New: `{"type":"report","report":{"summary":"Tax is set in one place.","places":["lib/price.sh"]}}` + "\n"}
	r.Await(submit(rig.Task{Title: "Where is the tax?", Mode: string(wire.AnalysisReportCreated), Goal: rig.Recipe("Find it.", report)}), wire.RunStateSUCCEEDED)
	r.Await(submit(rig.Task{Title: "No <script>alert(1)</script> recipe", Goal: "Whatever you like."}), wire.RunStateFAILED)
	r.Await(sentBack, wire.RunStateSUCCEEDED)
	stopped, held := submit(raiseTax(repo, "never")), submit(raiseTax(repo, "never"))
	r.Await(held, wire.RunStateEXECUTING)
	r.Await(stopped, wire.RunStateEXECUTING)
	rita.Cancel(stopped, "Wrong repository.")
	r.Await(stopped, wire.RunStateCANCELLED)
	admin := r.Person("adam")
	if page := admin.Fill("/workers", "/workers/queues/pause", url.Values{"reason": {"The registry is down."}}); page.Status != http.StatusOK {
		t.Fatalf("pause the queue: %d %s", page.Status, page.Alert())
	}
	r.Await(submit(change), wire.RunStateQUEUED)
	return r
}

// crawler visits every address that pages lead to, as one person.
type crawler struct {
	t    *testing.T
	who  *rig.Person
	base *url.URL
	todo []string
	// from is the page on which an address was found first, pages is what was answered.
	from  map[string]string
	pages map[string]rig.Page
	// anchors are the fragments that links to an address name.
	anchors map[string]map[string]string
}

// find keeps an address of the product that a page names.
func (c *crawler) find(page *url.URL, ref string) {
	u, err := page.Parse(ref)
	if err != nil {
		c.t.Errorf("%s names %q: %v", page, ref, err)
		return
	}
	if u.Host != c.base.Host || strings.HasPrefix(u.Path, "/login") {
		return
	}
	path := u.RequestURI()
	if c.from[path] == "" {
		c.from[path] = page.RequestURI()
		c.todo = append(c.todo, path)
	}
	if u.Fragment != "" {
		if c.anchors[path] == nil {
			c.anchors[path] = map[string]string{}
		}
		c.anchors[path][u.Fragment] = page.RequestURI()
	}
}

func (c *crawler) crawl() {
	for len(c.todo) > 0 {
		path := c.todo[0]
		c.todo = c.todo[1:]
		page, err := c.who.Browser.Get(c.t.Context(), path)
		if err != nil {
			c.t.Fatal(err)
		}
		c.pages[path] = page
		if page.Status != http.StatusOK {
			c.t.Errorf("%s leads to %s, which answers %d: %s", c.from[path], path, page.Status, page.Alert())
			continue
		}
		if !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
			continue
		}
		for selector, name := range map[string]string{"a[href], link[href]": "href", "script[src], img[src]": "src", "[hx-get]": "hx-get"} {
			page.Doc.Find(selector).Each(func(_ int, s *goquery.Selection) { c.find(page.URL, s.AttrOr(name, "")) })
		}
		page.Doc.Find("form[method=get]").Each(func(_ int, s *goquery.Selection) {
			action, fragment, _ := strings.Cut(s.AttrOr("action", ""), "#")
			c.find(page.URL, action+"?"+fields(s).Encode()+"#"+fragment)
		})
	}
}

// fields are what a form sends where nobody touched it.
func fields(form *goquery.Selection) url.Values {
	v := url.Values{}
	form.Find("input[name], select[name]").Each(func(_ int, s *goquery.Selection) {
		if kind := s.AttrOr("type", ""); kind != "checkbox" && kind != "radio" {
			v.Set(s.AttrOr("name", ""), s.AttrOr("value", s.Find("option[selected]").AttrOr("value", "")))
		}
	})
	return v
}

// anchored fails for every fragment that its page does not have.
func (c *crawler) anchored() {
	for path, anchors := range c.anchors {
		page := c.pages[path]
		if page.Status != http.StatusOK {
			continue // said already
		}
		ids := map[string]bool{}
		page.Doc.Find("[id]").Each(func(_ int, s *goquery.Selection) { ids[s.AttrOr("id", "")] = true })
		for anchor, from := range anchors {
			if !ids[anchor] {
				c.t.Errorf("%s links to %s#%s, which is not there", from, path, anchor)
			}
		}
	}
}

// permanent are the things that have an address of their own: where they stand, and the link in them that leads there.
var permanent = []struct{ what, page, each, link string }{
	{"a run", "/runs", "tbody tr", `a[href^="/runs/"]`},
	{"a task", "/tasks", "tbody tr", `a[href^="/tasks/"]`},
	{"what waits for a person", "/inbox", ".turn", `a[href^="/gates/"]`},
	{"what was decided", "/inbox", ".decided li", `a[href^="/gates/"]`},
	{"a repository", "/repositories", ".repo", `a[href^="#repo-"], a[href*="#repo-"]`},
	{"a worker", "/workers", `[aria-label="Table of workers"] tbody tr`, `a[href^="#worker-"]`},
	{"a queue", "/workers", `[id^="queue-"]`, `a[href^="#queue-"]`},
	{"an event", "/runs/", "#timeline-rows .tl-row", "a.tl-link"},
	{"a gate of a run", "/runs/", `[aria-labelledby=gates] .card`, `a[href^="/gates/"]`},
	{"an artifact", "/runs/", `[aria-labelledby=artifacts] .card`, `a[href^="/artifacts/"]`},
	{"a line of a log", "/runs/", "#log-box li[id]", "a.logno"},
	{"a decision", "/gates/", "[aria-labelledby=history] .decisions > li", `a[href*="#decision-"]`},
	{"a line of a patch", "/gates/", ".dfile tr.dadd, .dfile tr.ddel", "a[data-n]"},
}

// linked fails for everything that has no address of its own.
func (c *crawler) linked(seen map[string]int) {
	for path, page := range c.pages {
		if page.Status != http.StatusOK {
			continue
		}
		for _, p := range permanent {
			if page.URL.Path != p.page && !(strings.HasSuffix(p.page, "/") && strings.HasPrefix(page.URL.Path, p.page)) {
				continue
			}
			page.Doc.Find(p.each).Each(func(_ int, s *goquery.Selection) {
				seen[p.what]++
				if s.Find(p.link).Length() == 0 {
					c.t.Errorf("%s: %s without an address of its own: %.200s", path, p.what, rig.Words(s))
				}
			})
		}
	}
}

// U20: whoever follows any link of any page, as any role, comes to a page that is there and to the place that the link names;
// every row of a list, event, line and decision has a link to itself.
func TestEveryLinkArrives(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	base, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, who := range []string{"rita", "ana", "adam"} {
		c := &crawler{t: t, who: r.Person(who), base: base, from: map[string]string{}, pages: map[string]rig.Page{}, anchors: map[string]map[string]string{}}
		for _, path := range []string{"/", "/docs/api", "/help/keys"} {
			c.find(base, path)
		}
		c.crawl()
		c.anchored()
		c.linked(seen)
		t.Logf("%s: %d addresses, %d with fragments", who, len(c.pages), len(c.anchors))
		if len(c.pages) < 100 || len(c.anchors) < 50 {
			t.Errorf("%s: found only %d addresses, %d with fragments", who, len(c.pages), len(c.anchors))
		}
	}
	for _, p := range permanent {
		if seen[p.what] == 0 {
			t.Errorf("nowhere was %s", p.what)
		}
	}
}
