package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/coalesce"
)

func same(in int) int { return in }

// batches records what was carried out together, and doubles each number.
type batches struct {
	mu  sync.Mutex
	all [][]int
	now atomic.Int32
	top atomic.Int32
}

func (b *batches) do(_ context.Context, in []int) []coalesce.Result[int] {
	b.top.Store(max(b.top.Load(), b.now.Add(1)))
	defer b.now.Add(-1)
	time.Sleep(time.Millisecond) // of the bubble's clock: others arrive meanwhile
	b.mu.Lock()
	b.all = append(b.all, slices.Clone(in))
	b.mu.Unlock()
	out := make([]coalesce.Result[int], len(in))
	for i, n := range in {
		out[i].Out = 2 * n
		if n < 0 {
			out[i].Err = fmt.Errorf("%d is negative", n)
		}
	}
	return out
}

// Everybody gets the own answer, a lone call waits for nobody, and what arrives while a batch is on its way goes together.
func TestCallsBecomeBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b batches
		g := coalesce.New(coalesce.Options{Most: 40}, same, b.do)
		var wg sync.WaitGroup
		for n := range 100 {
			wg.Go(func() {
				if got, err := g.Do(t.Context(), n); got != 2*n || err != nil {
					t.Errorf("%d became %d, %v", n, got, err)
				}
			})
			if n == 0 {
				synctest.Wait()
			}
		}
		wg.Wait()
		var sizes []int
		for _, one := range b.all {
			sizes = append(sizes, len(one))
		}
		if want := []int{1, 40, 40, 19}; !slices.Equal(sizes, want) {
			t.Errorf("batches of %v, want %v", sizes, want)
		}
		if b.top.Load() != 1 {
			t.Errorf("%d batches were on their way at once", b.top.Load())
		}
		g.Close()
	})
}

// Two calls of one key are never on their way at once, also with several workers; the others are not held up by them.
func TestOneCallOfAKeyAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		under, most := map[int]int{}, 0
		g := coalesce.New(coalesce.Options{Workers: 3, Most: 10}, func(in int) int { return in % 5 }, func(_ context.Context, in []int) []coalesce.Result[int] {
			mu.Lock()
			for _, n := range in {
				under[n%5]++
				most = max(most, under[n%5])
			}
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			for _, n := range in {
				under[n%5]--
			}
			return make([]coalesce.Result[int], len(in))
		})
		var wg sync.WaitGroup
		for n := range 200 {
			wg.Go(func() {
				if _, err := g.Do(t.Context(), n); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most != 1 {
			t.Errorf("%d calls of one key at once", most)
		}
		g.Close()
	})
}

// One that fails fails alone.
func TestEachHasItsOwnError(t *testing.T) {
	t.Parallel()
	var b batches
	g := coalesce.New(coalesce.Options{}, same, b.do)
	defer g.Close()
	var wg sync.WaitGroup
	for _, n := range []int{-3, -2, -1, 0, 1, 2, 3} {
		wg.Go(func() {
			if _, err := g.Do(t.Context(), n); (err != nil) != (n < 0) {
				t.Errorf("%d: %v", n, err)
			}
		})
	}
	wg.Wait()
}

// A caller that has gone while it waited is not carried out; one whose batch is on its way does not hold up the others
// and does not break them off.
func TestCallerGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b batches
		g := coalesce.New(coalesce.Options{}, same, b.do)
		ctx, gone := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for n, c := range []context.Context{ctx, ctx, t.Context()} {
			wg.Go(func() {
				_, err := g.Do(c, n)
				if want := c == ctx; errors.Is(err, context.Canceled) != want {
					t.Errorf("call %d: %v", n, err)
				}
			})
			synctest.Wait()
		}
		gone()
		wg.Wait()
		g.Close()
		if len(b.all) != 2 || !slices.Equal(b.all[0], []int{0}) || !slices.Equal(b.all[1], []int{2}) {
			t.Errorf("carried out %v, want the first, which was on its way, and the third", b.all)
		}
	})
}

// Close answers what was accepted and refuses the rest; a full queue refuses at once.
func TestCloseAndFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b batches
		g := coalesce.New(coalesce.Options{Most: 2, Waiting: 3}, same, b.do)
		var wg sync.WaitGroup
		var done, full atomic.Int32
		for n := range 6 {
			wg.Go(func() {
				switch _, err := g.Do(t.Context(), n); {
				case err == nil:
					done.Add(1)
				case errors.Is(err, coalesce.ErrFull):
					full.Add(1)
				default:
					t.Errorf("call %d: %v", n, err)
				}
			})
			synctest.Wait()
		}
		wg.Go(g.Close)
		wg.Wait()
		if done.Load() != 4 || full.Load() != 2 {
			t.Errorf("%d done, %d refused, want 4 and 2", done.Load(), full.Load())
		}
		if _, err := g.Do(t.Context(), 1); !errors.Is(err, coalesce.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A batch that panics, or that leaves a call without answer, is an error to each of its callers and to nobody else: what
// waited for it goes on, also with the same key, and Close still ends.
func TestAPanicIsAnAnswer(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func() []coalesce.Result[int]{
		"panic":       func() []coalesce.Result[int] { panic("a bad row") },
		"few answers": func() []coalesce.Result[int] { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b batches
				g := coalesce.New(coalesce.Options{}, func(in int) int { return in % 100 }, func(ctx context.Context, in []int) []coalesce.Result[int] {
					if slices.Contains(in, 1) {
						return broken()
					}
					return b.do(ctx, in)
				})
				var wg sync.WaitGroup
				// The first is on its way while the others gather; 101 has the key of 1 and waits for its batch.
				for _, n := range []int{0, 1, 2, 101} {
					wg.Go(func() {
						_, err := g.Do(t.Context(), n)
						if _, panicked := errors.AsType[*coalesce.PanicError](err); panicked != (n == 1 || n == 2) {
							t.Errorf("call %d: %v", n, err)
						}
					})
					synctest.Wait()
				}
				wg.Wait()
				g.Close()
			})
		})
	}
}
