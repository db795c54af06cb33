package run_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"signalbox/internal/run"
)

var update = flag.Bool("update", false, "write sample logs that do not exist yet, and the docs")

const logs = "testdata/logs"

// logLine is one line of a sample log: an event as the log holds it, or at the end
// the run that it must give.
type logLine struct {
	Schema int             `json:"schema"`
	Event  json.RawMessage `json:"event,omitempty"`
	Run    json.RawMessage `json:"run,omitempty"`
}

// sample keeps the flow's log under the test's name. A log that exists is never
// written again: it stands for what an older version recorded (D-4).
func sample(f *flow) {
	f.t.Helper()
	if !*update {
		return
	}
	path := filepath.Join(logs, strings.NewReplacer("Test", "", "/", "-", " ", "_").Replace(f.t.Name())+".jsonl")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, ev := range f.log {
		raw, err := run.Encode(ev)
		if err != nil {
			f.t.Fatal(err)
		}
		if err := enc.Encode(logLine{Schema: run.Schema, Event: raw}); err != nil {
			f.t.Fatal(err)
		}
	}
	end, err := json.Marshal(f.run)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := enc.Encode(logLine{Schema: run.Schema, Run: end}); err != nil {
		f.t.Fatal(err)
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// TestSampleLogs: R-TRN-3, D-4. Every log that an older version recorded still
// replays to the run that it gave then; columns that came later may be added.
func TestSampleLogs(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(logs, "*.jsonl"))
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d sample logs, %v", len(paths), err)
	}
	kinds := map[run.Kind]bool{}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			events, want := readLog(t, path)
			for _, ev := range events {
				kinds[ev.Kind()] = true
			}
			r, err := run.Replay(events)
			if err != nil {
				t.Fatal(err)
			}
			if !includes(want, asMap(t, r)) {
				got, _ := json.Marshal(r)
				wanted, _ := json.Marshal(want)
				t.Errorf("replay gives\n%s\nwant at least\n%s", got, wanted)
			}
		})
	}
	for _, k := range run.Kinds() {
		if !kinds[k] {
			t.Errorf("no sample log holds a %s", k)
		}
	}
}

func readLog(t *testing.T, path string) ([]run.Event, map[string]any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var events []run.Event
	var want map[string]any
	s := bufio.NewScanner(bytes.NewReader(data))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var l logLine
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if l.Run != nil {
			if err := json.Unmarshal(l.Run, &want); err != nil {
				t.Fatal(err)
			}
			continue
		}
		ev, err := run.Decode(l.Schema, l.Event)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, ev)
	}
	if want == nil || len(events) == 0 {
		t.Fatalf("%s has %d events and end %v", path, len(events), want)
	}
	return events, want
}

func asMap(t *testing.T, v any) map[string]any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// includes reports whether got has everything that want has.
func includes(want, got map[string]any) bool {
	for k, w := range want {
		wm, isMap := w.(map[string]any)
		gm, _ := got[k].(map[string]any)
		if isMap && !includes(wm, gm) || !isMap && !reflect.DeepEqual(w, got[k]) {
			return false
		}
	}
	return true
}
