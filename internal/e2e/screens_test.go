package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// screens is where the pictures of the key pages are kept, and the words that stand beside them.
const screens = "../../docs/screens"

// keyPages are those of which pictures are kept: each with a state, its cause and what comes next.
var keyPages = []string{
	"inbox", "inbox_empty", "inbox_group", "gate_plan", "gate_patch", "gate_split", "gate_stale", "gate_budget", "gate_reconcile", "gate_expired", "run_waiting", "run_queued",
	"run_failed", "run_cancelling", "run_succeeded", "cancel", "cancel_bulk", "runs", "log_hits", "log_live", "task", "task_new_invalid", "tasks_empty", "workers", "error_409", "login_failed",
}

var (
	screenThemes = []string{"light", "dark"}
	screenSizes  = []struct{ width, height int64 }{{1280, 900}, {390, 844}}
)

// screenPlaces are the parts of pages that their pictures are about, where that is not the top.
var screenPlaces = map[string]string{"gate_split": "#file-1"}

func screenFile(name, theme string, width int64) string {
	return fmt.Sprintf("%s-%s-%d.webp", name, theme, width)
}

// TestScreens holds the folder against the list, each picture with its words; with SIGNALBOX_SCREENS=1, which `make screens` sets, it
// takes the pictures anew.
func TestScreens(t *testing.T) {
	t.Parallel()
	words, err := os.ReadFile(filepath.Join(screens, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("SIGNALBOX_SCREENS") != "" {
		takeScreens(t)
	}
	for _, name := range keyPages {
		if !strings.Contains(string(words), "("+screenFile(name, "light", 1280)+")") {
			t.Errorf("docs/screens/README.md does not show %s", name)
		}
		for _, theme := range screenThemes {
			for _, size := range screenSizes {
				if _, err := os.Stat(filepath.Join(screens, screenFile(name, theme, size.width))); err != nil {
					t.Errorf("a picture is missing (make screens takes them): %v", err)
				}
			}
		}
	}
}

func takeScreens(t *testing.T) {
	t.Helper()
	url, _ := goldenPages(t)
	ctx, cancel := chromedp.NewContext(shared.browser(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	for _, name := range keyPages {
		for _, theme := range screenThemes {
			for _, size := range screenSizes {
				if err := chromedp.Do(ctx, chromedp.EmulateViewport(size.width, size.height), media(theme), chromedp.Navigate(url+"/"+name+screenPlaces[name])); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				// The page's own script says so as soon as its stream is open; here there is none.
				if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](liveChip)); err != nil {
					t.Fatal(err)
				}
				picture, err := chromedp.Run(ctx, capture)
				if err != nil {
					t.Fatalf("picture of %s: %v", name, err)
				}
				if err := os.WriteFile(filepath.Join(screens, screenFile(name, theme, size.width)), picture, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// capture is what the screen shows, small enough to be kept with the source.
func capture(ctx context.Context, target *chromedp.Target) ([]byte, error) {
	quality := int64(70)
	shot, err := cdp.Call(ctx, target, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: &quality})
	if err != nil {
		return nil, err
	}
	return shot.Data, nil
}

const liveChip = `(() => {
	const chip = document.getElementById("live"), over = /succeeded|failed/.test(location.pathname);
	if (!chip) return true;
	chip.dataset.live = over ? "done" : "live";
	chip.querySelector(".live-text").textContent = over ? "Finished" : "Live";
	return true;
})()`
