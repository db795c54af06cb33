package fault_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/internal/fault"
)

func TestUnknownErrorsNeverLeak(t *testing.T) {
	t.Parallel()
	secret := errors.New("pq: password=hunter2 at 10.0.0.1")
	for _, err := range []error{
		secret,
		fmt.Errorf("load run: %w", secret),
		fault.Wrap(fault.Internal, secret, "pq: password=hunter2"),
		fault.Wrap(fault.Conflict, secret, "The gate has moved on, so nothing was approved."),
		fmt.Errorf("x: %w", fault.Wrap(fault.Unavailable, secret, "The forge does not answer.")),
	} {
		if got := fault.Sentence(err); got == "" || strings.Contains(got, "hunter2") {
			t.Errorf("sentence of %v leaks or is empty: %q", err, got)
		}
	}
	if got := fault.Sentence(nil); got != "" {
		t.Errorf("nil has a sentence: %q", got)
	}
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	for _, k := range fault.Kinds() {
		err := fmt.Errorf("apply: %w", fault.New(k, "No."))
		if got := fault.KindOf(err); got != k {
			t.Errorf("kind %v came back as %v", k, got)
		}
		if !errors.Is(err, &fault.Error{Kind: k}) {
			t.Errorf("errors.Is does not match kind %v", k)
		}
	}
	if got := fault.KindOf(errors.New("x")); got != fault.Internal {
		t.Errorf("unclassified is %v", got)
	}
	if got := fault.KindOf(fmt.Errorf("q: %w", context.DeadlineExceeded)); got != fault.Unavailable {
		t.Errorf("deadline is %v", got)
	}
	var zero fault.Kind
	if zero != fault.Internal {
		t.Error("the zero kind must be Internal")
	}
}

func TestKindNamesAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range fault.Kinds() {
		if seen[k.String()] {
			t.Errorf("two kinds are called %q", k)
		}
		seen[k.String()] = true
	}
}

func TestWithCopies(t *testing.T) {
	t.Parallel()
	base := fault.Newf(fault.Conflict, "Run %s moved on.", "run_1")
	e := base.WithCode("stale").WithField("digest").WithStop().WithRetryAfter(time.Second)
	if base.Code != "" || base.Stop || base.Field != "" || base.RetryAfter != 0 {
		t.Errorf("With… changed its receiver: %+v", base)
	}
	got, ok := fault.Find(fmt.Errorf("a: %w", e))
	if !ok || !got.Stop || got.Code != "stale" || got.Field != "digest" || got.RetryAfter != time.Second {
		t.Errorf("fields were lost: %+v", got)
	}
	if errors.Is(e, &fault.Error{Kind: fault.Conflict, Code: "other"}) {
		t.Error("another code must not match")
	}
	if !errors.Is(fault.Wrap(fault.Gone, context.Canceled, "Gone."), context.Canceled) {
		t.Error("cause is not unwrapped")
	}
}
