package checkpoint_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"signalbox/internal/checkpoint"
	"signalbox/internal/evidence"
)

var (
	key    = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	forger = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32))
	keys   = []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}
)

func open(t *testing.T) checkpoint.Folder {
	t.Helper()
	f, err := checkpoint.Open(filepath.Join(t.TempDir(), "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func point(k ed25519.PrivateKey, tenant uuid.UUID, n int64) evidence.Checkpoint {
	return evidence.Sign(k, tenant, n, evidence.Hash(nil, []byte{byte(n)}), time.Unix(n, 0))
}

// R-ATT-4: what was kept is read back, also behind what a crash left of a line; what nobody signed is named and counts for nothing.
func TestFolderKeepsCheckpoints(t *testing.T) {
	t.Parallel()
	f, one, two := open(t), uuid.New(), uuid.New()
	if _, ok, err := f.Last(one, keys); ok || err != nil {
		t.Fatalf("an empty folder has a checkpoint, or %v", err)
	}
	var want []evidence.Checkpoint
	for n := int64(1); n <= 40; n++ {
		if err := f.Append(point(key, one, n)); err != nil {
			t.Fatal(err)
		}
		want = append(want, point(key, one, n))
	}
	if err := f.Append(point(key, two, 7)); err != nil {
		t.Fatal(err)
	}
	if last, ok, err := f.Last(one, keys); !ok || err != nil || last.Seq != 40 {
		t.Errorf("the last is %d, %v", last.Seq, err)
	}
	name := filepath.Join(string(f), one.String()+".jsonl")
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// A line that a crash cut short.
	if err := os.WriteFile(name, append(raw, raw[:50]...), 0o640); err != nil {
		t.Fatal(err)
	}
	if last, ok, err := f.Last(one, keys); !ok || err != nil || last.Seq != 40 {
		t.Errorf("behind half a line the last is %d, %v", last.Seq, err)
	}
	if err := f.Append(point(key, one, 41)); err != nil {
		t.Fatal(err)
	}
	want = append(want, point(key, one, 41))
	all, problems, err := f.Read(keys)
	if err != nil || len(problems) != 0 || len(all) != 42 {
		t.Fatalf("%d checkpoints, problems %v, %v", len(all), problems, err)
	}
	mine := all[:0:0]
	for _, c := range all {
		if c.Tenant == one {
			mine = append(mine, c)
		}
	}
	if d := cmp.Diff(want, mine); d != "" {
		t.Error(d)
	}

	if err := f.Append(point(forger, one, 90)); err != nil {
		t.Fatal(err)
	}
	if last, ok, err := f.Last(one, keys); ok {
		t.Errorf("behind a forged checkpoint the last is %d", last.Seq)
	} else if foreign, is := errors.AsType[*checkpoint.ForeignError](err); !is || foreign.Checkpoint.Seq != 90 {
		t.Errorf("a forged checkpoint: %v", err)
	}
	foreign, err := point(key, two, 8).Line()
	if err != nil {
		t.Fatal(err)
	}
	raw, err = os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(append(raw, foreign...), "rubbish\n"...), 0o640); err != nil {
		t.Fatal(err)
	}
	all, problems, err = f.Read(keys)
	if err != nil || len(all) != 42 || len(problems) != 3 {
		t.Fatalf("%d checkpoints, problems %v, %v", len(all), problems, err)
	}
	for i, why := range []string{"does not hold", "another tenant", "no checkpoint"} {
		if problems[i].Line != 42+i || !strings.Contains(problems[i].Why, why) {
			t.Errorf("problem %+v, want line %d: %s", problems[i], 42+i, why)
		}
	}
	if _, _, err := checkpoint.Folder(filepath.Join(string(f), "none")).Read(keys); err == nil {
		t.Error("a folder that is not there has no checkpoints, and nobody is told")
	}
}

func TestFolderIsTriedAtTheStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := checkpoint.Open(filepath.Join(file, "x")); err == nil {
		t.Error("a folder was opened below a file")
	}
}
