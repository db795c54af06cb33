package e2e_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// inSight says what keeps the button that approves from being pressed where the page begins; "" where nothing does.
const inSight = `(() => {
	document.querySelector('.strip-dev')?.remove(); // a company's installation has none
	const b = document.querySelector('button[name=verdict][value=approve]');
	if (!b) return "there is no such button";
	const r = b.getBoundingClientRect();
	if (r.top < 0 || r.bottom > innerHeight) return "it reaches from " + r.top + " to " + r.bottom + " of " + innerHeight;
	const top = document.elementFromPoint((r.left + r.right) / 2, (r.top + r.bottom) / 2);
	return b.contains(top) ? "" : "it is covered by " + (top && top.outerHTML.slice(0, 150));
})()`

// U1: whoever follows a link to a gate has the buttons on the first screen, on a small laptop and on a phone.
func TestDecisionIsOnTheFirstScreen(t *testing.T) {
	t.Parallel()
	url, names := goldenPages(t)
	ctx, cancel := chromedp.NewContext(shared.browser(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	seen := 0
	for _, name := range names {
		// On these two the button comes after what is to be read: what changed meanwhile, and a whole patch in a list.
		if !strings.HasPrefix(name, "gate_") || name == "gate_stale" || name == "gate_quick" {
			continue
		}
		for _, size := range [][2]int64{{1280, 720}, {390, 844}} {
			if err := chromedp.Do(ctx, chromedp.EmulateViewport(size[0], size[1]), chromedp.Navigate(url+"/"+name)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			why, err := chromedp.Run(ctx, chromedp.Evaluate[string](inSight))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(why, "there is no") {
				continue // a gate that is over, or that is not for this person
			}
			if seen++; why != "" {
				t.Errorf("%s at %d x %d: the button that approves: %s", name, size[0], size[1], why)
			}
		}
	}
	if seen < 6 {
		t.Errorf("only %d gates have the button", seen)
	}
}
