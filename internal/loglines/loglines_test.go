package loglines_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/loglines"
)

// stored cuts a log into chunks of a size and serves them as the database does.
type stored struct {
	parts []loglines.Part
	read  int // chunks that were read
}

func chunked(log string, size int) *stored {
	s := &stored{}
	var ends int64
	for piece := range slices.Chunk([]byte(log), size) {
		n := bytes.Count(piece, []byte("\n"))
		ends += int64(n)
		s.parts = append(s.parts, loglines.Part{ID: int64(len(s.parts) + 7), Ends: ends, Lines: n, Data: piece})
	}
	return s
}

func (s *stored) source(after loglines.Place, limit int32) ([]loglines.Part, error) {
	i := slices.IndexFunc(s.parts, func(p loglines.Part) bool { return p.Ends > after.Line || p.Ends == after.Line && p.ID > after.ID })
	if i < 0 {
		return nil, nil
	}
	parts := s.parts[i:min(i+int(limit), len(s.parts))]
	s.read += len(parts)
	return parts, nil
}

var most = loglines.Limits{Line: 100, Bytes: 1 << 30}

func lines(t *testing.T, s *stored, from int64, n int, l loglines.Limits) (all []string, whole bool) {
	t.Helper()
	whole, err := loglines.Scan(s.source, from, l, func(x loglines.Line) bool {
		text := fmt.Sprint(x.No, " ", x.Text)
		if x.Cut {
			text += "…"
		}
		all = append(all, text)
		return len(all) < n
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, whole
}

// From every line on, however the log is cut into chunks, the lines are those that a split of the whole gives.
func TestLinesAreTheLogs(t *testing.T) {
	t.Parallel()
	for _, log := range []string{"", "a", "a\n", "\n", "\n\n\nx", "one\ntwo\n\nfour ü\nfive", strings.Repeat("é", 70) + "\n" + strings.Repeat("x", 300) + "\nlast\n", "a\n" + strings.Repeat("y", 400)} {
		var want []string
		if log != "" {
			for i, l := range strings.Split(strings.TrimSuffix(log, "\n"), "\n") {
				text := fmt.Sprint(i+1, " ", l)
				if len(l) > most.Line {
					text = fmt.Sprint(i+1, " ", l[:most.Line], "…")
				}
				want = append(want, text)
			}
		}
		for _, size := range []int{1, 2, 3, 7, 64, 1000} {
			for from := 1; from <= len(want)+1; from++ {
				got, whole := lines(t, chunked(log, size), int64(from), 1000, most)
				if !whole || !slices.Equal(got, want[from-1:]) {
					t.Errorf("%.20q in chunks of %d from %d: %q, want %q", log, size, from, got, want[from-1:])
				}
			}
		}
	}
}

// A window costs the chunks that it shows, wherever it lies and however long the log or one of its lines is.
func TestAWindowReadsWhatItShows(t *testing.T) {
	t.Parallel()
	long := chunked(strings.Repeat(strings.Repeat("x", 99)+"\n", 20_000)+strings.Repeat("y", 5<<20)+"\n"+strings.Repeat("short\n", 20_000), 1000)
	for _, from := range []int64{1, 9_999, 20_001, 30_000, 39_990} {
		long.read = 0
		got, _ := lines(t, long, from, 11, most)
		if len(got) == 0 || !strings.HasPrefix(got[0], fmt.Sprint(from, " ")) || long.read > 3*4 {
			t.Errorf("from %d: %d lines, %d chunks read", from, len(got), long.read)
		}
	}
	if got, _ := lines(t, long, 20_001, 3, most); len(got) != 3 || !strings.HasSuffix(got[0], "y…") || got[1] != "20002 short" {
		t.Errorf("the lines around the overlong one are %q", got)
	}
}

// The limit of bytes ends a scan and is told.
func TestTheLimitIsTold(t *testing.T) {
	t.Parallel()
	s := chunked(strings.Repeat("abcdefg\n", 1000), 80)
	got, whole := lines(t, s, 1, 10_000, loglines.Limits{Line: 100, Bytes: 900})
	if whole || len(got) == 0 || len(got) == 1000 {
		t.Errorf("%d lines, whole %t", len(got), whole)
	}
}

// A character that the limit would split is left out.
func TestCutsBetweenCharacters(t *testing.T) {
	t.Parallel()
	got, _ := lines(t, chunked("aé\n", 9), 1, 9, loglines.Limits{Line: 2, Bytes: 100})
	if !slices.Equal(got, []string{"1 a…"}) {
		t.Errorf("%q", got)
	}
}
