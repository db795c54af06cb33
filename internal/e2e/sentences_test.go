package e2e_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// brokenSentences are those whose time stands in a box of its own among their words: a row of boxes breaks them in pieces.
const brokenSentences = `[...document.querySelectorAll("main time")].filter(e =>
	/flex|grid/.test(getComputedStyle(e.parentElement).display) && [...e.parentElement.childNodes].some(n => n.nodeType === 3 && n.data.trim())
).map(e => e.parentElement.className + ": " + e.parentElement.textContent.slice(0, 120)).join("\n")`

// 2.0: a sentence with a time in it is read as one, on every page.
func TestSentencesAreWhole(t *testing.T) {
	t.Parallel()
	url, names := goldenPages(t)
	ctx, cancel := chromedp.NewContext(shared.browser(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	for _, name := range names {
		if err := chromedp.Do(ctx, chromedp.Navigate(url+"/"+name)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		broken, err := chromedp.Run(ctx, chromedp.Evaluate[string](brokenSentences))
		if err != nil {
			t.Fatal(err)
		}
		if broken != "" {
			t.Errorf("%s is in pieces:\n%s", name, broken)
		}
	}
}
