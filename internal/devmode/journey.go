package devmode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"signalbox/internal/egress"
	"signalbox/internal/wire"
)

// Journey is what one whole journey showed.
type Journey struct {
	Run       string
	States    []string
	Isolation []string
	Branch    string
	Commit    string
	Pull      string
	Gate      string
	// ToGate and Whole are measured from the submission.
	ToGate, Whole time.Duration
}

// Walk submits the sample task as the requester, approves it as an approver, and follows the run to its end, over HTTP
// and by the forms that a browser without JavaScript sends (D-23). It fails where the run does not succeed, where any
// lease worked without isolation, and where the branch in the repository is not the commit that was reported. say gets
// a line for each thing that happens.
func (d *Dev) Walk(ctx context.Context, say func(format string, args ...any)) (Journey, error) {
	w := &walk{dev: d, say: say}
	err := w.walk(ctx)
	return w.journey, err
}

type walk struct {
	dev     *Dev
	say     func(format string, args ...any)
	api     *wire.ClientWithResponses
	began   time.Time
	seen    int64
	journey Journey
}

func (w *walk) walk(ctx context.Context) error {
	if err := registerSamples(ctx, w.dev.url); err != nil {
		return err
	}
	w.say("registered %d sample repositories", len(samples()))
	w.began = time.Now()
	page, err := submitSample(ctx, w.dev.url)
	if err != nil {
		return err
	}
	if w.journey.Run = runIn(page); w.journey.Run == "" {
		return fmt.Errorf("the task's page %s names no run: %s", page.URL, page.Alert())
	}
	w.say("submitted as Rita Requester: %s", w.journey.Run)
	if w.api, err = readerClient(ctx, w.dev.url); err != nil {
		return err
	}
	if err := w.follow(ctx, func(r *wire.Run) bool { return r.GateId != "" }); err != nil {
		return err
	}
	w.journey.ToGate = time.Since(w.began)
	if err := w.refuseRequester(ctx); err != nil {
		return err
	}
	if err := w.approve(ctx); err != nil {
		return err
	}
	if err := w.follow(ctx, func(r *wire.Run) bool { return r.Terminal }); err != nil {
		return err
	}
	w.journey.Whole = time.Since(w.began)
	return w.conclude(ctx)
}

var runLink = regexp.MustCompile(`/runs/(run_[0-9a-z]+)`)

func runIn(p Page) string {
	for _, text := range []string{p.URL.Path, p.Body} {
		if m := runLink.FindStringSubmatch(text); m != nil {
			return m[1]
		}
	}
	return ""
}

var tokenText = regexp.MustCompile(`sbt_[0-9A-Za-z]+`)

// readerClient makes an API token that may only read, by the page that makes tokens.
func readerClient(ctx context.Context, base string) (*wire.ClientWithResponses, error) {
	b, err := NewBrowser(base)
	if err != nil {
		return nil, err
	}
	if err := b.SignIn(ctx, "rita"); err != nil {
		return nil, err
	}
	page, err := b.Submit(ctx, "/tokens", "/tokens", url.Values{"name": {"self-test"}, "scopes": {"read"}}, Button{})
	if err != nil {
		return nil, fmt.Errorf("make an API token: %w", err)
	}
	token := tokenText.FindString(page.Body)
	if token == "" {
		return nil, fmt.Errorf("make an API token: answered %d: %s", page.Status, page.Alert())
	}
	client, err := egress.Origin{Purpose: "server", URL: base}.Client()
	if err != nil {
		return nil, err
	}
	return wire.NewClientWithResponses(base+"/api/v1", wire.WithHTTPClient(client), wire.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}))
}

// follow reads events and the run until it is where it should be; the end of the run is the end of following.
func (w *walk) follow(ctx context.Context, there func(*wire.Run) bool) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := w.api.GetRunWithResponse(ctx, w.journey.Run)
		if err != nil {
			return fmt.Errorf("read the run: %w", err)
		}
		if answer.JSON200 == nil {
			return fmt.Errorf("read the run: answered %s: %s", answer.Status(), bytes.TrimSpace(answer.Body))
		}
		r := answer.JSON200
		if err := w.events(ctx); err != nil {
			return err
		}
		if there(r) {
			w.journey.Gate = r.GateId
			return nil
		}
		if r.Terminal {
			return w.ended(r)
		}
		if err := w.dev.worker.broken(w.dev.folder.path("worker.log")); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the run stands at %s: %w", r.State, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func (w *walk) events(ctx context.Context) error {
	answer, err := w.api.ListRunEventsWithResponse(ctx, w.journey.Run, &wire.ListRunEventsParams{After: &w.seen})
	if err != nil {
		return fmt.Errorf("read the run's events: %w", err)
	}
	if answer.JSON200 == nil {
		return fmt.Errorf("read the run's events: answered %s: %s", answer.Status(), bytes.TrimSpace(answer.Body))
	}
	for _, ev := range answer.JSON200.Items {
		w.seen = ev.Seq
		if n := len(w.journey.States); n == 0 || w.journey.States[n-1] != string(ev.To) {
			w.journey.States = append(w.journey.States, string(ev.To))
			w.say("%7.2fs  %-22s %s", time.Since(w.began).Seconds(), ev.To, ev.Sentence)
		}
		isolations(ev.Payload, func(tier string) {
			if !slices.Contains(w.journey.Isolation, tier) {
				w.journey.Isolation = append(w.journey.Isolation, tier)
			}
		})
	}
	return nil
}

// isolations finds what leases said of their sandboxes, wherever in the payload it stands.
func isolations(v any, found func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if tier, ok := inner.(string); ok && (key == "isolation" || key == "tier") && tier != "" {
				found(tier)
			}
			isolations(inner, found)
		}
	case []any:
		for _, inner := range v {
			isolations(inner, found)
		}
	}
}

func (w *walk) ended(r *wire.Run) error {
	why := r.Sentence
	if r.Failure != nil {
		why = fmt.Sprintf("%s, %s: %s", r.Failure.Category, r.Failure.ReasonCode, r.Failure.Summary)
	}
	return fmt.Errorf("the run ended as %s: %s", r.State, why)
}

// refuseRequester tries what must not work: the one who asked approves.
func (w *walk) refuseRequester(ctx context.Context) error {
	page, sent, err := w.decide(ctx, "rita")
	if err != nil {
		return err
	}
	if sent && page.Status < 400 {
		return errors.New("the requester's approval was accepted")
	}
	w.say("         %-22s the requester cannot approve", "")
	return nil
}

func (w *walk) approve(ctx context.Context) error {
	page, sent, err := w.decide(ctx, "ana")
	if err != nil {
		return err
	}
	if !sent || page.Status != http.StatusOK {
		return fmt.Errorf("the approval was not accepted (%d): %s", page.Status, page.Alert())
	}
	w.say("approved as Ana Approver")
	return nil
}

// decide presses Approve on the gate's page as a person; sent is false where the page offers no such button.
func (w *walk) decide(ctx context.Context, person string) (page Page, sent bool, err error) {
	b, err := NewBrowser(w.dev.url)
	if err != nil {
		return Page{}, false, err
	}
	if err := b.SignIn(ctx, person); err != nil {
		return Page{}, false, err
	}
	page, err = b.Get(ctx, "/gates/"+url.PathEscape(w.journey.Gate))
	if err != nil {
		return Page{}, false, fmt.Errorf("open the gate as %s: %w", person, err)
	}
	form, button, ok := page.FormWith("verdict", "approve")
	if !ok {
		return page, false, nil
	}
	page, err = b.Send(ctx, form, button)
	return page, true, err
}

// conclude checks the end against what is really there.
func (w *walk) conclude(ctx context.Context) error {
	answer, err := w.api.GetRunWithResponse(ctx, w.journey.Run)
	if err != nil {
		return fmt.Errorf("read the run: %w", err)
	}
	r := answer.JSON200
	if r == nil {
		return fmt.Errorf("read the run: answered %s", answer.Status())
	}
	if r.State != wire.RunStateSUCCEEDED {
		return w.ended(r)
	}
	if r.PullRequest == nil {
		return errors.New("the run succeeded without a pull request")
	}
	w.journey.Branch, w.journey.Commit, w.journey.Pull = r.PullRequest.Branch, r.PullRequest.Sha, r.PullRequest.Url
	if len(w.journey.Isolation) == 0 {
		return errors.New("no lease recorded how it was isolated")
	}
	if slices.Contains(w.journey.Isolation, string(wire.Process)) {
		return errors.New("a lease worked in the sandbox process, which isolates nothing")
	}
	bare := filepath.Join(w.dev.folder.path("forge"), samples()[0].cloneURL())
	out, err := exec.CommandContext(ctx, "git", "--git-dir", bare, "rev-parse", "--verify", "refs/heads/"+w.journey.Branch).Output()
	if err != nil {
		return fmt.Errorf("look for the branch %s in the repository: %w", w.journey.Branch, err)
	}
	if at := strings.TrimSpace(string(out)); at != w.journey.Commit {
		return fmt.Errorf("the branch %s is at %s and the pull request says %s", w.journey.Branch, at, w.journey.Commit)
	}
	return nil
}

// Print writes the journey for a person or a log.
func (j Journey) Print(say func(format string, args ...any)) {
	say("run           %s", j.Run)
	say("states        %s", strings.Join(j.States, " → "))
	say("isolation     %s", strings.Join(j.Isolation, ", "))
	say("branch        %s", j.Branch)
	say("commit        %s", j.Commit)
	say("pull request  %s", j.Pull)
	say("times         %.1f s to the gate, %.1f s to the end", j.ToGate.Seconds(), j.Whole.Seconds())
}
