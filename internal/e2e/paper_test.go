package e2e_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// goldenTab opens a golden page.
func goldenTab(t *testing.T, name string) context.Context {
	t.Helper()
	url, _ := goldenPages(t)
	ctx, cancel := chromedp.NewContext(shared.browser(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	ctx, cancel = context.WithTimeout(ctx, tabPatience)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(390, 844), media("light"), chromedp.Navigate(url+"/"+name)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return ctx
}

// 2.6: on paper a run's page has neither navigation nor forms nor buttons, and what is closed on the screen can be read.
func TestRunOnPaper(t *testing.T) {
	t.Parallel()
	ctx := goldenTab(t, "run_waiting")
	const seen = `(() => {
		const see = (css) => [...document.querySelectorAll(css)].filter((e) => e.checkVisibility({contentVisibilityAuto: true})).length;
		return [see("nav, .masthead, .skip"), see("form, button, .button"), see("details:not([open]) > :not(summary)"), document.querySelectorAll("details:not([open]) > :not(summary)").length].join(" ");
	})()`
	print := func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
		return chromedp.Void{}, err
	}
	var navigation, forms, open, closed int
	count := func() {
		t.Helper()
		words, err := chromedp.Run(ctx, chromedp.Evaluate[string](seen))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := fmt.Sscan(words, &navigation, &forms, &open, &closed); n != 4 || err != nil {
			t.Fatalf("%q: %v", words, err)
		}
	}
	if count(); navigation == 0 || forms == 0 || open != 0 || closed < 3 {
		t.Fatalf("on the screen: %d parts of the navigation, %d of forms, %d of %d closed parts are seen", navigation, forms, open, closed)
	}
	if err := chromedp.Do(ctx, chromedp.Action[chromedp.Void](print)); err != nil {
		t.Fatal(err)
	}
	if count(); navigation != 0 || forms != 0 || open < 2 {
		t.Errorf("on paper: %d parts of the navigation, %d of forms, %d of %d closed parts are seen", navigation, forms, open, closed)
	}
}

// 2.8, U18: on a phone nothing in the lists scrolls sideways, neither the page nor a box in it, and each cell of a table says of which
// column it is; only those do not whose column has no name on a large screen either.
func TestListsOnAPhone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"workers", "runs", "runs_filtered", "tasks", "tokens"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := goldenTab(t, name)
			wide, err := chromedp.Run(ctx, chromedp.Evaluate[string](`[document.scrollingElement, ...document.querySelectorAll("main *")]
				.filter((e) => e.scrollWidth > e.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(e).overflowX) || e === document.scrollingElement && e.scrollWidth > e.clientWidth)
				.map((e) => e.scrollWidth + " in " + e.clientWidth + ": " + e.outerHTML.slice(0, 120)).join(" | ")`))
			if err != nil || wide != "" {
				t.Errorf("wider than the screen: %s (%v)", wide, err)
			}
			mute, err := chromedp.Run(ctx, chromedp.Evaluate[string](`[...document.querySelectorAll("main td")]
				.map((e) => ({ e, head: e.closest("table").tHead.rows[0].cells[e.cellIndex] })).filter(({ head }) => !head.querySelector(".visually-hidden"))
				.filter(({ e, head }) => getComputedStyle(e, "::before").content !== JSON.stringify(e.dataset.label) || e.dataset.label !== head.textContent)
				.map(({ e }) => e.outerHTML.slice(0, 120)).join(" | ")`))
			if err != nil || mute != "" {
				t.Errorf("cells that do not say of which column they are: %s (%v)", mute, err)
			}
		})
	}
}
