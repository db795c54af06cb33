package bench_test

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// figure are the lines of one benchmark, printed together at its end.
type figure struct {
	b      *testing.B
	lines  []string
	before string
	began  time.Time
}

func newFigure(b *testing.B) *figure {
	return &figure{b: b, before: load(), began: time.Now()}
}

func (p *product) figure() *figure { return newFigure(p.b) }

func (f *figure) line(format string, args ...any) {
	f.lines = append(f.lines, fmt.Sprintf(format, args...))
}

func (f *figure) print() {
	fmt.Printf("\n%s, commit %s, load average before: %s; after: %s; %.0f s\n", f.b.Name(), commit(), f.before, load(), time.Since(f.began).Seconds())
	for _, l := range f.lines {
		fmt.Println(l)
	}
	fmt.Println()
}

// progress says on standard error how far a benchmark is.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
