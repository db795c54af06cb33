package devmode

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"signalbox/internal/argv"
)

// Waiting is what waits for the reader.
type Waiting struct {
	// Gate is the address of the page to decide on; "" where nothing waits.
	Gate string
}

// Sample registers the sample repositories as the admin and submits the sample task as the requester, unless a start
// before this one did, and waits until it stands at its gate. The ways are the pages and forms that everybody has; the
// product has to be served by now.
func (d *Dev) Sample(ctx context.Context) (Waiting, error) {
	if !d.memory.Sampled {
		if err := registerSamples(ctx, d.url); err != nil {
			return Waiting{}, err
		}
		if _, err := submitSample(ctx, d.url); err != nil {
			return Waiting{}, err
		}
		d.memory.Sampled = true
		if err := d.folder.write("memory.json", d.memory); err != nil {
			return Waiting{}, err
		}
		return d.awaitGate(ctx)
	}
	gate, err := openGate(ctx, d.url)
	return Waiting{Gate: gate}, err
}

// registerSamples is safe to repeat: the key of each form is fixed, so the second time is answered like the first.
func registerSamples(ctx context.Context, base string) error {
	b, err := NewBrowser(base)
	if err != nil {
		return err
	}
	if err := b.SignIn(ctx, "adam"); err != nil {
		return err
	}
	for _, s := range samples() {
		var commands []string
		for _, c := range s.checks {
			commands = append(commands, argv.Format(c.argv))
		}
		page, err := b.Submit(ctx, "/repositories", "/repositories", url.Values{
			"name": {s.name}, "remote": {s.cloneURL()}, "default_branch": {"main"}, "verify": {strings.Join(commands, "\n")},
			"idempotency_key": {"dev-sample-repository-" + s.tree},
		}, Button{})
		if err != nil {
			return fmt.Errorf("register %s: %w", s.name, err)
		}
		if page.Status != http.StatusOK {
			return fmt.Errorf("register %s: answered %d: %s", s.name, page.Status, page.Alert())
		}
	}
	return nil
}

// submitSample asks for the sample change and answers the page that the form led to.
func submitSample(ctx context.Context, base string) (Page, error) {
	b, err := NewBrowser(base)
	if err != nil {
		return Page{}, err
	}
	if err := b.SignIn(ctx, "rita"); err != nil {
		return Page{}, err
	}
	form, err := b.Get(ctx, "/tasks/new")
	if err != nil {
		return Page{}, err
	}
	s := samples()[0]
	repository := form.Options("repository")[s.name]
	if repository == "" {
		return Page{}, fmt.Errorf("submit the sample task: the form (%d) does not offer %s: %s", form.Status, s.name, form.Alert())
	}
	page, err := b.Submit(ctx, "/tasks/new", "/tasks", url.Values{
		"repository": {repository}, "title": {sampleTaskTitle}, "goal": {sampleTaskGoal}, "scope": {"bin/**"},
		"idempotency_key": {"dev-sample-task"},
	}, Button{})
	if err != nil {
		return Page{}, fmt.Errorf("submit the sample task: %w", err)
	}
	if page.Status != http.StatusOK || !strings.HasPrefix(page.URL.Path, "/tasks/task_") && !strings.HasPrefix(page.URL.Path, "/runs/run_") {
		return Page{}, fmt.Errorf("submit the sample task: it ended at %s with %d: %s", page.URL.Path, page.Status, page.Alert())
	}
	return page, nil
}

// openGate is the address of a gate that the approver can decide now, "" for none.
func openGate(ctx context.Context, base string) (string, error) {
	b, err := NewBrowser(base)
	if err != nil {
		return "", err
	}
	if err := b.SignIn(ctx, "ana"); err != nil {
		return "", err
	}
	return b.gateInInbox(ctx)
}

// gateInInbox looks into the first list of My turn only; decided ones further down are links too.
func (b *Browser) gateInInbox(ctx context.Context) (string, error) {
	page, err := b.Get(ctx, "/inbox")
	if err != nil {
		return "", fmt.Errorf("look into the inbox: %w", err)
	}
	return page.LinkIn("mine", "/gates/gate_"), nil
}

// awaitGate asks the approver's inbox until something is in it, the worker does not stay up, or ctx ends.
func (d *Dev) awaitGate(ctx context.Context) (Waiting, error) {
	b, err := NewBrowser(d.url)
	if err != nil {
		return Waiting{}, err
	}
	if err := b.SignIn(ctx, "ana"); err != nil {
		return Waiting{}, err
	}
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		gate, err := b.gateInInbox(ctx)
		if err != nil || gate != "" {
			return Waiting{Gate: gate}, err
		}
		if err := d.worker.broken(d.folder.path("worker.log")); err != nil {
			return Waiting{}, err
		}
		select {
		case <-ctx.Done():
			return Waiting{}, fmt.Errorf("wait for the sample task to reach its gate: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}
