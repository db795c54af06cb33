package e2e_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"signalbox/static"
)

//go:embed testdata/axe.min.js
var axe string

// golden are the pages in all their states, as the page tests hold them.
const golden = "../../web/testdata/golden"

var staticName = regexp.MustCompile(`/static/([a-z-]+(?:\.min)?\.(?:css|js|svg))`)

// goldenPages serves them with the real style sheet, without scripts: what a script would load is not there.
func goldenPages(t *testing.T) (url string, names []string) {
	t.Helper()
	files, err := filepath.Glob(golden + "/*.html")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d pages: %v", len(files), err)
	}
	mux := http.NewServeMux()
	mux.Handle(static.Prefix, static.Handler())
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".html")
		names = append(names, name)
		page := staticName.ReplaceAllStringFunc(string(body), func(path string) string { return static.URL(strings.TrimPrefix(path, static.Prefix)) })
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Security-Policy", "script-src 'none'")
			_, _ = w.Write([]byte(page))
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, names
}

// finding is what axe found wrong.
type finding struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML    string `json:"html"`
		Failure string `json:"failureSummary"`
	} `json:"nodes"`
}

const (
	// axeAll are the rules of goal U14, with the size of targets, which axe leaves off.
	axeAll = `{runOnly: {type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}, rules: {"target-size": {enabled: true}}, resultTypes: ["violations"]}`
	// axeColours are those that a theme can break.
	axeColours = `{runOnly: {type: "rule", values: ["color-contrast", "link-in-text-block"]}, resultTypes: ["violations"]}`
)

// U14, U18: every page, in every state that the page tests know, breaks no rule of axe in light and in dark, and is not wider than a
// screen of 320 pixels.
func TestEveryPageIsAccessible(t *testing.T) {
	t.Parallel()
	url, names := goldenPages(t)
	browser := shared.browser(t)
	const tabs = 2
	t.Run("pages", func(t *testing.T) {
		for part := range tabs {
			t.Run(fmt.Sprint("part", part), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
				t.Cleanup(cancel)
				if err := chromedp.Do(ctx); err != nil {
					t.Fatalf("open a tab: %v", err)
				}
				for n := part; n < len(names); n += tabs {
					accessible(ctx, t, url, names[n])
				}
			})
		}
	})
}

func accessible(ctx context.Context, t *testing.T, url, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, tabPatience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900), media("light"), chromedp.Navigate(url+"/"+name)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](axe+"; true")); err != nil {
		t.Fatalf("%s: load axe: %v", name, err)
	}
	judge := func(theme, options string) {
		t.Helper()
		if err := chromedp.Do(ctx, media(theme)); err != nil {
			t.Fatal(err)
		}
		answer, err := chromedp.Run(ctx, chromedp.Evaluate[string](`axe.run(document, `+options+`).then((r) => JSON.stringify(r.violations))`, chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatalf("%s, %s: %v", name, theme, err)
		}
		var found []finding
		if err := json.Unmarshal([]byte(answer), &found); err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			t.Errorf("%s, %s: %s (%s), %d times: %.300s\n%.400s", name, theme, f.Help, f.ID, len(f.Nodes), f.Nodes[0].HTML, f.Nodes[0].Failure)
		}
	}
	judge("light", axeAll)
	judge("dark", axeColours)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(320, 900)); err != nil {
		t.Fatal(err)
	}
	wide, err := chromedp.Run(ctx, chromedp.Evaluate[string](tooWide))
	if err != nil {
		t.Fatal(err)
	}
	if wide != "" {
		t.Errorf("%s: at 320 pixels the page scrolls sideways: %s", name, wide)
	}
}

// tooWide names the first elements that reach beyond the screen, where the page scrolls sideways. What stands in a box that scrolls by
// itself may be as wide as it likes.
const tooWide = `(() => {
	const width = document.documentElement.clientWidth;
	if (document.documentElement.scrollWidth <= width) return "";
	const boxed = (e) => { for (let p = e.parentElement; p; p = p.parentElement) if (getComputedStyle(p).overflowX !== "visible") return true; return false; };
	const wide = [...document.body.querySelectorAll("*")].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > width + 0.5 && !boxed(e));
	return document.documentElement.scrollWidth + " wide; " + wide.slice(0, 4).map((e) => e.outerHTML.slice(0, 150)).join(" | ");
})()`
