package artifact_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/uuid"

	"signalbox/internal/artifact"
	"signalbox/internal/fault"
)

func open(t *testing.T) (*artifact.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "blobs")
	s, err := artifact.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// R-RCV-5 and D-30: the address is computed from tenant and content.
func TestPutAndGet(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	tenant := uuid.New()
	for _, content := range [][]byte{{}, []byte("hello"), bytes.Repeat([]byte("0123456789"), 300_000)} {
		b, err := s.Put(t.Context(), tenant, bytes.NewReader(content), 10<<20)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		want := hex.EncodeToString(sum[:])
		if b.SHA256 != want || b.Size != int64(len(content)) || b.Key != "tenants/"+tenant.String()+"/sha256/"+want {
			t.Errorf("%+v", b)
		}
		got, err := s.Read(t.Context(), tenant, b.SHA256, 10<<20)
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		r, err := s.GetKey(t.Context(), tenant, b.Key)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) || r.Close() != nil {
			t.Errorf("by key: %d bytes, %v", len(got), err)
		}
	}
	before := files(t, dir)
	if _, err := s.Put(t.Context(), tenant, strings.NewReader("hello"), 5); err != nil {
		t.Errorf("the same content again, exactly at the limit: %v", err)
	}
	if after := files(t, dir); len(after) != len(before) {
		t.Errorf("the same content twice is %d files, was %d", len(after), len(before))
	}
}

func TestPutLimits(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	tenant := uuid.New()
	_, err := s.Put(t.Context(), tenant, io.LimitReader(zeros{}, 1<<40), 2<<20)
	if f, ok := fault.Find(err); !ok || f.Kind != fault.TooLarge || f.Code != artifact.CodeTooLarge {
		t.Errorf("too large: %v", err)
	}
	if _, err := s.Put(t.Context(), tenant, iotest.ErrReader(errors.New("line cut")), 10); err == nil {
		t.Error("a broken upload was stored")
	}
	if _, err := s.Put(t.Context(), uuid.Nil, strings.NewReader("x"), 10); err == nil {
		t.Error("content without a tenant was stored")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(ctx, tenant, strings.NewReader("x"), 10); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if left := files(t, dir); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	b, err := s.Put(t.Context(), tenant, strings.NewReader("12345"), 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), tenant, b.SHA256, 4); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("read over the limit: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Neither another tenant nor a path that climbs reaches content.
func TestAddresses(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	tenant, other := uuid.New(), uuid.New()
	b, err := s.Put(t.Context(), tenant, strings.NewReader("mine"), 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), other, b.SHA256); fault.KindOf(err) != fault.Gone {
		t.Errorf("another tenant: %v", err)
	}
	for _, key := range []string{
		b.Key[1:], "secret", "../secret", "tenants/" + other.String() + "/sha256/" + b.SHA256, b.Key + "/../../../../secret",
		"tenants/" + tenant.String() + "/sha256/../../../secret", "tenants/" + tenant.String() + "/sha256/", "", "/", b.Key + "\x00",
		strings.ToUpper(b.Key), "tenants/" + tenant.String() + "/sha256/" + strings.ToUpper(b.SHA256),
	} {
		if _, err := s.GetKey(t.Context(), tenant, key); fault.KindOf(err) != fault.NotFound {
			t.Errorf("key %q: %v", key, err)
		}
	}
	for _, sum := range []string{"", "abc", "..", strings.Repeat("z", 64), b.SHA256 + "0", strings.ToUpper(b.SHA256), "../" + b.SHA256} {
		if _, err := s.Get(t.Context(), tenant, sum); fault.KindOf(err) != fault.NotFound {
			t.Errorf("sum %q: %v", sum, err)
		}
	}
}

// A changed byte never reads as the stored content; storing it again
// repairs it.
func TestDamage(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	tenant := uuid.New()
	content := bytes.Repeat([]byte("evidence "), 100_000)
	b, err := s.Put(t.Context(), tenant, bytes.NewReader(content), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, b.Key)
	for what, damage := range map[string][]byte{
		"byte": append(bytes.Clone(content[:5]), append([]byte{'X'}, content[6:]...)...),
		"cut":  content[:len(content)-1], "more": append(bytes.Clone(content), 'x'), "empty": {},
	} {
		if err := os.WriteFile(name, damage, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := s.Read(t.Context(), tenant, b.SHA256, 2<<20)
		if f, ok := fault.Find(err); !ok || f.Code != artifact.CodeDamaged || fault.Sentence(err) != fault.Generic {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.Put(t.Context(), tenant, bytes.NewReader(content), 1<<20); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Read(t.Context(), tenant, b.SHA256, 1<<20); err != nil || !bytes.Equal(got, content) {
		t.Errorf("after storing it again: %v", err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), tenant, b.SHA256); fault.KindOf(err) != fault.Gone {
		t.Errorf("missing: %v", err)
	}
}

func TestConcurrentPuts(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	tenant := uuid.New()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			b, err := s.Put(t.Context(), tenant, strings.NewReader("same"), 10)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := s.Read(t.Context(), tenant, b.SHA256, 10); err != nil || string(got) != "same" {
				t.Errorf("%q %v", got, err)
			}
		})
	}
	wg.Wait()
	if n := len(files(t, dir)); n != 1 {
		t.Errorf("%d files", n)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"", "s3://bucket", "file://host/x", "file:relative", "/plain/path", "file:///x?metadata=skip", "mem://", "%zz"} {
		if s, err := artifact.Open(t.Context(), u); err == nil {
			t.Errorf("%q was opened", u)
			_ = s.Close()
		}
	}
}
