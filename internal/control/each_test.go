package control

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"
)

// An item whose handling panics hides none behind it: each is reached, and the look is no failure.
func TestAPanicHidesNobody(t *testing.T) {
	t.Parallel()
	items := make([]uuid.UUID, 3)
	for n := range items {
		items[n] = uuid.UUID{byte(n + 1)}
	}
	list := func(_ context.Context, after uuid.UUID, _ int) (rest []uuid.UUID, err error) {
		return slices.DeleteFunc(slices.Clone(items), func(i uuid.UUID) bool { return bytes.Compare(i[:], after[:]) <= 0 }), nil
	}
	var v visitor
	var reached []uuid.UUID
	done, err := each(t.Context(), &v, nil, list, func(i uuid.UUID) uuid.UUID { return i }, func(_ context.Context, i uuid.UUID) (bool, error) {
		if i == items[1] {
			panic("a bad row")
		}
		reached = append(reached, i)
		return true, nil
	})
	if err != nil || done != 2 || !slices.Equal(reached, []uuid.UUID{items[0], items[2]}) {
		t.Errorf("%d handled, %v, reached %v", done, err, reached)
	}
	if v.pauses[items[1]].failures != 1 {
		t.Error("the item is not left alone")
	}
}
