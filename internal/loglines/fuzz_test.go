package loglines_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"signalbox/internal/loglines"
)

// FuzzScan: whatever bytes a log has and wherever it is cut into chunks, its lines are those of the whole.
func FuzzScan(f *testing.F) {
	for _, log := range []string{"", "\n", "a\n\nb", "one\r\ntwo\x00\n", strings.Repeat("é", 70) + "\nx\n", "\xff\xfe\n\xf0\x9f\n" + strings.Repeat("y", 300)} {
		f.Add([]byte(log), 3, 2)
	}
	f.Fuzz(func(t *testing.T, log []byte, size, from int) {
		size, from = 1+max(size, 0)%50, 1+max(from, 0)%20
		var want []string
		if len(log) > 0 {
			want = strings.Split(strings.TrimSuffix(string(log), "\n"), "\n")
		}
		want = want[min(from-1, len(want)):]
		n := 0
		whole, err := loglines.Scan(chunked(string(log), size).source, int64(from), most, func(l loglines.Line) bool {
			switch {
			case n >= len(want) || l.No != int64(from+n):
				t.Fatalf("line %d of %d from %d on: %q", l.No, len(want), from, l.Text)
			case !l.Cut && l.Text != want[n]:
				t.Fatalf("line %d is %q, want %q", l.No, l.Text, want[n])
			// The beginning ends between characters.
			case l.Cut && (len(want[n]) <= most.Line || !strings.HasPrefix(want[n], l.Text) || len(l.Text) <= most.Line-utf8.UTFMax):
				t.Fatalf("line %d begins with %q, want the beginning of %q", l.No, l.Text, want[n])
			}
			n++
			return true
		})
		if err != nil || !whole || n != len(want) {
			t.Errorf("%d lines in chunks of %d from line %d, want %d: %v, %v", n, size, from, len(want), whole, err)
		}
	})
}
