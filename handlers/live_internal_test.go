package handlers

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/web"
)

// A viewer gets a look that began when it asked or later, and shares it with all who may have the same one.
func TestLooksAreShared(t *testing.T) {
	t.Parallel()
	var l liveRun
	now := time.Now()
	first := l.since(now)
	if l.since(now.Add(time.Hour)) != first {
		t.Error("a look that has not begun is not good enough for who asks later")
	}
	first.began = now.Add(time.Second)
	if l.since(now) != first || l.since(first.began) != first {
		t.Error("a look that began later is not shared")
	}
	second := l.since(first.began.Add(1))
	if second == first {
		t.Error("a look that began before may have missed what was asked for")
	}
	if second.before != first || l.since(now) != second {
		t.Error("the newest look is not the one that is shared")
	}
}

// Runs are watched by tenant, and forgotten when the last viewer has gone.
func TestWatchedRunsAreForgotten(t *testing.T) {
	t.Parallel()
	var all liveRuns
	key := liveKey{uuid.New(), uuid.New()}
	a, leaveA := all.enter(key)
	b, leaveB := all.enter(key)
	other, leaveOther := all.enter(liveKey{uuid.New(), key.run})
	if a != b || a == other {
		t.Error("viewers of one tenant share a run, and those of two do not")
	}
	leaveA()
	if c, leaveC := all.enter(key); c != b {
		t.Error("a run that is watched was forgotten")
	} else {
		leaveC()
	}
	leaveB()
	leaveOther()
	if len(all.runs) != 0 {
		t.Errorf("%d runs are kept that nobody watches", len(all.runs))
	}
}

// Parts and ladder are numbered anew only where they are others than before; a run that has none yet has told nothing.
func TestPartsAreNumbered(t *testing.T) {
	t.Parallel()
	var l liveRun
	at := func(steps ...web.StepView) int {
		parts, _ := l.count(&runLook{parts: web.RunParts{Steps: steps}})
		return parts
	}
	if n := at(); n != 0 {
		t.Errorf("nothing at all is number %d", n)
	}
	if one, again, two := at(web.StepView{ID: "a"}), at(web.StepView{ID: "a"}), at(web.StepView{ID: "a", State: "ok"}); one != 1 || again != 1 || two != 2 {
		t.Errorf("numbered %d, %d, %d", one, again, two)
	}
}

// A stage of a look that was broken off is a failure for all who share it; none takes what is half made for the whole.
func TestBrokenLookIsNobodys(t *testing.T) {
	t.Parallel()
	s, k := &server{}, &liveLook{of: &liveRun{}} // without a store each stage panics
	for name, stage := range map[string]func(*liveLook) error{"first": s.readFirst, "closer": s.readCloser, "around": s.readAround} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the one who reads does not meet the panic", name)
				}
			}()
			t.Error(stage(k))
		}()
		if err := stage(k); !errors.Is(err, errLook) {
			t.Errorf("%s: the next one is told %v", name, err)
		}
	}
}
