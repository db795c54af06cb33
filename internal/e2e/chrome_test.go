package e2e_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"signalbox/internal/e2e/rig"
)

// chrome is the one browser process of this test process. It runs while any test needs it.
type chrome struct {
	mu    sync.Mutex
	users int
	ctx   context.Context
	stop  func()
}

var shared chrome

// browser starts chromium for t, or joins the one that runs.
func (c *chrome) browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		rig.NotExercised(t, "the browser tests: %v (Debian: apt-get install chromium)", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users == 0 {
		options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.DisableGPU,
			chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WindowSize(1280, 900))
		if os.Geteuid() == 0 {
			options = append(options, chromedp.NoSandbox)
		}
		allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, stopBrowser := chromedp.NewContext(allocator)
		if err := chromedp.Do(ctx); err != nil {
			stopBrowser()
			stopAllocator()
			t.Fatalf("start chromium: %v", err)
		}
		c.ctx, c.stop = ctx, func() { stopBrowser(); stopAllocator() }
	}
	c.users++
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.users--; c.users == 0 {
			c.stop()
		}
	})
	return c.ctx
}

// tab is one tab of one person's browser. It remembers everything that a page did and should not have done.
type tab struct {
	t    *testing.T
	r    *rig.Rig
	ctx  context.Context
	name string

	mu       sync.Mutex
	troubles []string
	loads    int // documents loaded
	forgiven []*regexp.Regexp
}

// newTab opens a browser of its own for somebody: cookies are shared with no other test.
func newTab(r *rig.Rig, t *testing.T, name string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(shared.browser(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	return watch(r, t, ctx, name)
}

// another is a further tab of the same browser: same cookies, other page.
func (b *tab) another(name string) *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	return watch(b.r, b.t, ctx, name)
}

func watch(r *rig.Rig, t *testing.T, ctx context.Context, name string) *tab {
	t.Helper()
	b := &tab{t: t, r: r, ctx: ctx, name: name}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	b.do("listen to the tab", func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		for _, enable := range []func() error{
			func() error { _, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{}); return err },
			func() error { _, err := cdp.Call(ctx, target, audits.Enable, cdp.Empty{}); return err },
			func() error { _, err := cdp.Call(ctx, target, cdplog.Enable, cdp.Empty{}); return err },
			// A tab stays in sight whichever others are opened beside it: one out of sight opens no stream.
			func() error {
				_, err := cdp.Call(ctx, target, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
				return err
			},
		} {
			if err := enable(); err != nil {
				return chromedp.Void{}, err
			}
		}
		return chromedp.Void{}, nil
	})
	// Nothing moves: a click during a transition between pages hits its picture.
	b.do("keep still", media(""))
	t.Cleanup(b.quiet)
	return b
}

// hear keeps what a well-behaved page never does: errors on the console, a violation of the content policy (U17: every browser test
// fails on one), a dialog, a request to somebody else.
func (b *tab) hear(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	trouble := func(format string, args ...any) {
		b.troubles = append(b.troubles, fmt.Sprintf(format, args...))
	}
	switch ev := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		if ev.Type == runtime.ConsoleAPICalledTypeError || ev.Type == runtime.ConsoleAPICalledTypeWarning {
			var words []string
			for _, a := range ev.Args {
				words = append(words, strings.TrimSpace(string(a.Value)+" "+a.Description))
			}
			trouble("console.%s: %s", ev.Type, strings.Join(words, " "))
		}
	case *runtime.EventExceptionThrown:
		trouble("uncaught: %v", &chromedp.ExceptionError{ExceptionDetails: ev.ExceptionDetails})
	case *cdplog.EventEntryAdded:
		if ev.Entry.Level == cdplog.EntryLevelError || ev.Entry.Source == cdplog.EntrySourceSecurity {
			trouble("log %s: %s %s", ev.Entry.Source, ev.Entry.Text, ev.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if ev.Issue.Code == audits.InspectorIssueCodeContentSecurityPolicyIssue {
			trouble("content policy: %+v", ev.Issue.Details.ContentSecurityPolicyIssueDetails)
		}
	case *page.EventJavascriptDialogOpening:
		trouble("dialog: %s", ev.Message)
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(ev.Request.URL)
		if err != nil || u.Hostname() != "127.0.0.1" && u.Scheme != "about" && u.Scheme != "data" {
			trouble("request to %s", ev.Request.URL)
		}
	case *page.EventLoadEventFired:
		b.loads++
	}
}

// forgive names troubles that a test makes on purpose, such as a refused form.
func (b *tab) forgive(patterns ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range patterns {
		b.forgiven = append(b.forgiven, regexp.MustCompile(p))
	}
}

// quiet fails the test for every trouble that was not forgiven.
func (b *tab) quiet() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, trouble := range b.troubles {
		if !slices.ContainsFunc(b.forgiven, func(p *regexp.Regexp) bool { return p.MatchString(trouble) }) {
			b.t.Errorf("the page of %s: %s", b.name, trouble)
		}
	}
	b.troubles = nil
}

func (b *tab) loaded() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loads
}

const tabPatience = time.Minute

func (b *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, tabPatience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%s: %s: %v\n%s", b.name, what, err, b.seen())
	}
}

// eval is the value of an expression on the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, tabPatience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %s: %v", b.name, expression, err)
	}
	return v
}

// seen is where the tab is and what it shows, for failures.
func (b *tab) seen() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + ", " + document.visibilityState + ", " + (document.querySelector("#live")?.innerText || "not live") + "\n" +
		(document.querySelector("main") || document.body).innerText.slice(0, 3000)`))
	if err != nil {
		return err.Error()
	}
	return text
}

// until waits until an expression is true on whatever page the tab is at. A document of which only the beginning arrived
// is not looked at: what a test reads next may stand in the rest.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, rig.Patience)
	defer cancel()
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for {
		// An error is a page between two documents; the next look finds the new one.
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.readyState === "complete" && !!(`+expression+")"))
		if err == nil && ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("%s: not so: %s (%v)\n%s", b.name, what, err, b.seen())
		}
	}
}

// open visits a page of the product and waits until its scripts ran.
func (b *tab) open(path string) {
	b.t.Helper()
	b.do("open "+path, chromedp.Navigate(b.r.URL+path))
}

// click presses with the mouse what a selector finds.
func (b *tab) click(css string) {
	b.t.Helper()
	// Until styles are there, what is measured is not what will be hit.
	b.until(css+" is there", `document.querySelector(`+strconv.Quote(css)+`)`)
	b.do("click "+css, chromedp.ScrollIntoView(chromedp.CSS(css)), chromedp.Click(chromedp.CSS(css)))
}

// write types a text into a field, after what is there.
func (b *tab) write(css, text string) {
	b.t.Helper()
	b.do("write into "+css, chromedp.ScrollIntoView(chromedp.CSS(css)), chromedp.SendKeys(chromedp.CSS(css), text))
}

// choose picks an option of a select by its label.
func (b *tab) choose(css, label string) {
	b.t.Helper()
	value := eval[string](b, fmt.Sprintf(`[...document.querySelectorAll(%q)].filter(o => o.textContent.trim() === %q).map(o => o.value)[0] || ""`, css+" option", label))
	if value == "" {
		b.t.Fatalf("%s: %s has no option %q", b.name, css, label)
	}
	b.do("choose "+label, chromedp.SetValue(chromedp.CSS(css), value))
}

// text is the text that a selector's first element shows; "" where there is none.
func (b *tab) text(css string) string {
	b.t.Helper()
	return strings.Join(strings.Fields(eval[string](b, fmt.Sprintf(`(document.querySelector(%q) || {}).innerText || ""`, css))), " ")
}

func (b *tab) has(css string) bool {
	b.t.Helper()
	return eval[bool](b, fmt.Sprintf(`!!document.querySelector(%q)`, css))
}

func (b *tab) path() string {
	b.t.Helper()
	return eval[string](b, "location.pathname")
}

// signIn goes through the login page and the provider's form.
func (b *tab) signIn(subject string) {
	b.t.Helper()
	b.open("/login")
	b.click(`a[href^="/login/"]`)
	b.until("the provider asks who it is", `document.querySelector('button[name="person"]')`)
	b.click(`button[name="person"][value="` + subject + `"]`)
	b.until("signed in", `location.pathname === "/inbox"`)
}

// submitTask fills the form for a new task and answers the task's run.
func (b *tab) submitTask(k rig.Task) (run string) {
	b.t.Helper()
	b.open("/tasks/new")
	b.choose("#f-repository", k.Repository.Name)
	b.do("write the goal", chromedp.SetValue(chromedp.CSS("#f-goal"), k.Goal))
	b.openDetails("#f-title")
	b.write("#f-title", k.Title)
	b.click(`form[action="/tasks"] button[data-once]`)
	b.until("the task's page", `/^\/tasks\/task_/.test(location.pathname) && document.querySelector('a[href^="/runs/run_"]')`)
	return eval[string](b, `document.querySelector('a[href^="/runs/run_"]').getAttribute("href").match(/run_[0-9a-z]+/)[0]`)
}

// openDetails opens the details elements around what a selector finds.
func (b *tab) openDetails(css string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(() => { for (let d = document.querySelector(%q)?.closest("details:not([open])"); d; d = d.parentElement.closest("details:not([open])")) d.open = true; return true })()`, css))
}

// withoutScript turns JavaScript off for all pages that the tab will load.
func (b *tab) withoutScript() {
	b.t.Helper()
	b.do("turn scripts off", func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return chromedp.Void{}, err
	})
}

// shot takes pictures of the page in both themes and at two widths, where SIGNALBOX_SHOTS names a folder.
func (b *tab) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("SIGNALBOX_SHOTS")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			b.do("set the stage", chromedp.EmulateViewport(width, 900), media(theme))
			ctx, cancel := context.WithTimeout(b.ctx, tabPatience)
			png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
			cancel()
			if err != nil {
				b.t.Fatalf("picture of %s: %v", name, err)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, theme, width)), png, 0o644); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	b.do("clear the stage", chromedp.EmulateViewport(1280, 900), media(""))
}

func media(theme string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-reduced-motion", Value: "reduce"}, {Name: "prefers-color-scheme", Value: theme},
		}})
		return chromedp.Void{}, err
	}
}

// ids are the numbers of the timeline's rows in the order in which they stand there.
func (b *tab) rows() []int {
	b.t.Helper()
	return eval[[]int](b, `[...document.querySelectorAll("#timeline-rows > li.tl-row")].map(li => Number(li.id.replace(/^e/, "")))`)
}

// gapless fails where the rows are not 1, 2, 3, …
func (b *tab) gapless(rows []int) {
	b.t.Helper()
	for i, id := range rows {
		if id != i+1 {
			b.t.Errorf("%s: the timeline's rows are %v", b.name, rows)
			return
		}
	}
}
