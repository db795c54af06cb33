package evidence_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"signalbox/internal/evidence"
)

func anyEvent(t *rapid.T) evidence.Event {
	id := func(name string) uuid.UUID {
		return uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name))
	}
	text := rapid.StringN(0, 8, 40)
	return evidence.Event{
		Tenant: id("tenant"), Run: id("run"),
		Seq: rapid.Int64().Draw(t, "seq"), Schema: rapid.Int16().Draw(t, "schema"),
		Kind: text.Draw(t, "kind"), Actor: evidence.Actor{Kind: text.Draw(t, "actor"), ID: text.Draw(t, "id")},
		At:      time.UnixMicro(rapid.Int64Range(-1<<50, 1<<52).Draw(t, "at")).UTC(),
		Payload: rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "payload"),
	}
}

// R-TRN-9 and D-9: a body holds who, what and when, and reads back exactly.
func TestBodyRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent(t)
		body := evidence.Body(e)
		back, err := evidence.ParseBody(body)
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Payload) == 0 {
			e.Payload, back.Payload = nil, nil
		}
		if diff := cmp.Diff(e, back); diff != "" {
			t.Fatal(diff)
		}
		if !bytes.Equal(evidence.Body(back), body) {
			t.Fatal("two encodings of one event")
		}
	})
}

// Different events have different bytes, also where fields flow together.
func TestBodyIsInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyEvent(t), anyEvent(t)
		if cmp.Equal(a, b) != bytes.Equal(evidence.Body(a), evidence.Body(b)) {
			t.Fatalf("%+v and %+v", a, b)
		}
	})
	a := evidence.Event{Kind: "ab", Actor: evidence.Actor{Kind: "c"}}
	b := evidence.Event{Kind: "a", Actor: evidence.Actor{Kind: "bc"}}
	if bytes.Equal(evidence.Body(a), evidence.Body(b)) {
		t.Error("fields flow together")
	}
}

func TestBodyKeepsMicroseconds(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("x", 3600))
	e, err := evidence.ParseBody(evidence.Body(evidence.Event{At: at}))
	if err != nil || !e.At.Equal(evidence.Instant(at)) || e.At.Nanosecond() != 123456000 || e.At.Location() != time.UTC {
		t.Errorf("%v %v", e.At, err)
	}
}

func chainOf(tenant, run uuid.UUID, n int) ([]evidence.Link, []byte) {
	var links []evidence.Link
	var prev []byte
	for i := range n {
		b := evidence.Body(evidence.Event{
			Tenant: tenant, Run: run, Seq: int64(i + 1), Schema: 1, Kind: fmt.Sprintf("kind_%d", i),
			Actor: evidence.Actor{Kind: "worker", ID: "w"}, At: time.UnixMicro(int64(i) * 1e6), Payload: fmt.Appendf(nil, `{"n":%d}`, i),
		})
		prev = evidence.Hash(prev, b)
		links = append(links, evidence.Link{Body: b, Hash: prev})
	}
	return links, prev
}

// R-ATT-4: any change of the record is found and named.
func TestVerify(t *testing.T) {
	t.Parallel()
	tenant, run, other := uuid.New(), uuid.New(), uuid.New()
	links, head := chainOf(tenant, run, 6)
	events, err := evidence.Verify(tenant, run, links, head)
	if err != nil || len(events) != 6 || events[5].Kind != "kind_5" {
		t.Fatalf("%v %d", err, len(events))
	}
	clone := func() []evidence.Link {
		out := make([]evidence.Link, len(links))
		for i, l := range links {
			out[i] = evidence.Link{Body: bytes.Clone(l.Body), Hash: bytes.Clone(l.Hash)}
		}
		return out
	}
	rehash := func(ls []evidence.Link) []evidence.Link {
		var prev []byte
		for i := range ls {
			prev = evidence.Hash(prev, ls[i].Body)
			ls[i].Hash = prev
		}
		return ls
	}
	for _, tc := range []struct {
		name   string
		change func() ([]evidence.Link, []byte)
		seq    int64
	}{
		{"hash altered", func() ([]evidence.Link, []byte) { c := clone(); c[2].Hash[5] ^= 1; return c, head }, 3},
		{"hash missing", func() ([]evidence.Link, []byte) { c := clone(); c[2].Hash = nil; return c, head }, 3},
		{"event missing", func() ([]evidence.Link, []byte) { return slices.Delete(clone(), 2, 3), head }, 3},
		{"events swapped", func() ([]evidence.Link, []byte) { c := clone(); c[1], c[2] = c[2], c[1]; return c, head }, 2},
		{"first missing", func() ([]evidence.Link, []byte) { return clone()[1:], head }, 1},
		{"tail missing", func() ([]evidence.Link, []byte) { return clone()[:4], head }, 5},
		{"all missing", func() ([]evidence.Link, []byte) { return nil, head }, 1},
		{"rewritten with new hashes", func() ([]evidence.Link, []byte) {
			c := clone()
			c[3].Body = evidence.Body(evidence.Event{Tenant: tenant, Run: run, Seq: 4, Kind: "forged"})
			return rehash(c), head
		}, 7},
		{"gap with new hashes", func() ([]evidence.Link, []byte) { return rehash(slices.Delete(clone(), 2, 3)), nil }, 3},
		{"foreign tenant", func() ([]evidence.Link, []byte) {
			c := clone()
			c[3].Body = evidence.Body(evidence.Event{Tenant: other, Run: run, Seq: 4})
			return rehash(c), nil
		}, 4},
		{"foreign run", func() ([]evidence.Link, []byte) {
			c := clone()
			c[3].Body = evidence.Body(evidence.Event{Tenant: tenant, Run: other, Seq: 4})
			return rehash(c), nil
		}, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ls, h := tc.change()
			_, err := evidence.Verify(tenant, run, ls, h)
			be, ok := errors.AsType[*evidence.BrokenError](err)
			if !ok || be.Seq != tc.seq || be.Run != run || !strings.Contains(err.Error(), run.String()) {
				t.Errorf("got %v, want event %d", err, tc.seq)
			}
		})
	}
	// Every single bit of a body.
	for i := range links {
		for at := range links[i].Body {
			c := clone()
			c[i].Body[at] ^= 1 << (at % 8)
			if _, err := evidence.Verify(tenant, run, c, head); err == nil {
				t.Fatalf("a changed bit in byte %d of event %d was not found", at, i+1)
			}
		}
	}
}

// D-15: whatever a person decides about is in the digest.
func TestRevisionDigest(t *testing.T) {
	t.Parallel()
	base := evidence.Revision{
		Kind: "patch", Repository: uuid.MustParse("0190f3c0-0000-7000-8000-000000000001"), Base: "abc",
		Content: []byte("diff"), ResultTree: "tree", VerificationDigest: "vvv",
	}
	seen := map[string]string{evidence.RevisionDigest(base): "base"}
	for name, change := range map[string]func(*evidence.Revision){
		"kind":         func(r *evidence.Revision) { r.Kind = "plan" },
		"repository":   func(r *evidence.Revision) { r.Repository[15] = 2 },
		"base":         func(r *evidence.Revision) { r.Base = "abd" },
		"content":      func(r *evidence.Revision) { r.Content = []byte("difg") },
		"tree":         func(r *evidence.Revision) { r.ResultTree = "tref" },
		"verification": func(r *evidence.Revision) { r.VerificationDigest = "vvw" },
		"flow 1":       func(r *evidence.Revision) { r.Base, r.Content = "abcd", []byte("iff") },
		"flow 2":       func(r *evidence.Revision) { r.ResultTree, r.VerificationDigest = "treev", "vv" },
		"empty":        func(r *evidence.Revision) { *r = evidence.Revision{} },
	} {
		r := base
		change(&r)
		d := evidence.RevisionDigest(r)
		if first, twice := seen[d]; twice {
			t.Errorf("%s has the digest of %s", name, first)
		}
		seen[d] = name
	}
	// Stored digests must stay comparable for ever.
	if got, want := evidence.RevisionDigest(base), goldenRevision; got != want {
		t.Errorf("the encoding of revisions changed: %s", got)
	}
	if got, want := evidence.Hex(evidence.Hash(nil, evidence.Body(evidence.Event{Seq: 1, Kind: "run_created", At: time.UnixMicro(1), Payload: []byte("{}")}))), goldenEvent; got != want {
		t.Errorf("the encoding of events changed: %s", got)
	}
}

// Computed once by another program from the written format.
const (
	goldenRevision = "897a36ef536e3edaba0ae73de6bb6a0c585c7fa93556e8086998b33bb028df6e"
	goldenEvent    = "8f81c3588bbcf678defc4fe020a93fefdacf90a00ab72a4405726a98232f240d"
)

func FuzzParseBody(f *testing.F) {
	f.Add(evidence.Body(evidence.Event{Seq: 1, Kind: "run_created", Payload: []byte("{}")}))
	f.Add([]byte("signalbox event v1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := evidence.ParseBody(b)
		if err == nil && !bytes.Equal(evidence.Body(e), b) {
			t.Error("two encodings of one event")
		}
	})
}
