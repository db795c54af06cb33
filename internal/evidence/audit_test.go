package evidence_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"signalbox/internal/evidence"
)

func anyAuditRow(t *rapid.T) evidence.AuditRow {
	// Few letters, among them those of the encoding itself: so fields run into each other where anything could.
	text := rapid.StringOfN(rapid.RuneFrom([]rune("a\x00\x01\x02{}\"é")), 0, 6, -1)
	draw := func(name string) string { return text.Draw(t, name) }
	return evidence.AuditRow{
		Tenant: uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "tenant")), Seq: rapid.Int64().Draw(t, "seq"), ID: rapid.Int64().Draw(t, "id"),
		At: rapid.Int64().Draw(t, "at"), Xid: draw("xid"), ActorKind: draw("kind"), ActorID: draw("actor"), ActorName: draw("name"), Channel: draw("channel"),
		RemoteAddr: draw("addr"), RequestID: draw("request"), Action: draw("action"), ObjectType: draw("type"), ObjectID: draw("object"),
		Result: draw("result"), Reason: draw("reason"), Detail: draw("detail"),
	}
}

// R-ATT-4: the canonical bytes of an audit row say which row it is: they are read back to the same row, so no two rows share them.
func TestAuditBodyIsInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyAuditRow(t), anyAuditRow(t)
		back, err := evidence.ParseAuditBody(evidence.AuditBody(a))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(a, back); d != "" {
			t.Fatal(d)
		}
		if a != b && bytes.Equal(evidence.AuditBody(a), evidence.AuditBody(b)) {
			t.Fatal("two rows have the same bytes")
		}
	})
	// A byte that moves from the end of a field to the beginning of the next is another row.
	x, y := evidence.AuditRow{Action: "gate.approve", ObjectType: "gate"}, evidence.AuditRow{Action: "gate.approveg", ObjectType: "ate"}
	if bytes.Equal(evidence.AuditBody(x), evidence.AuditBody(y)) {
		t.Error("a byte moved over the border of two fields and the bytes are the same")
	}
	// Stored hashes must stay comparable for ever; this one was computed by another program from the written format.
	r := evidence.AuditRow{Tenant: uuid.MustParse("01920000-0000-7000-8000-000000000001"), Seq: 1, ID: 7, At: 1, Xid: "9", ActorKind: "human", ActorID: "u",
		ActorName: "é", Action: "a.b", ObjectType: "o", ObjectID: "i", Result: "recorded", Detail: "{}"}
	if got := evidence.Hex(evidence.Hash(nil, evidence.AuditBody(r))); got != goldenAudit {
		t.Errorf("the encoding of audit rows changed: %s", got)
	}
}

const goldenAudit = "b520d6b13bc885fa8fb36d7efd6e0f98c46a708c951988d70904a04aaf9693e4"

func FuzzParseAuditBody(f *testing.F) {
	f.Add(evidence.AuditBody(evidence.AuditRow{Seq: 1, Action: "gate.approve", Detail: "{}"}))
	f.Add([]byte("signalbox audit v1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := evidence.ParseAuditBody(b)
		if err == nil && !bytes.Equal(evidence.AuditBody(r), b) {
			t.Error("two encodings of one row")
		}
	})
}

func signer(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// R-ATT-4: a checkpoint survives its line, and no field of it can be changed without its signature noticing.
func TestCheckpointIsBoundToItsKey(t *testing.T) {
	t.Parallel()
	key, other := signer(1), signer(2)
	tenant := uuid.MustParse("0190f3c0-0000-7000-8000-000000000001")
	c := evidence.Sign(key, tenant, 12, evidence.Hash(nil, []byte("x")), time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC))
	line, err := c.Line()
	if err != nil || bytes.Count(line, []byte("\n")) != 1 || !bytes.HasSuffix(line, []byte("\n")) {
		t.Fatalf("%q, %v", line, err)
	}
	back, err := evidence.ParseCheckpoint(line)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c, back); d != "" {
		t.Error(d)
	}
	if !back.Genuine([]ed25519.PublicKey{public(other), public(key)}) || back.Genuine([]ed25519.PublicKey{public(other)}) || back.Genuine(nil) {
		t.Error("the signature is taken for that of another key, or not for its own")
	}
	for name, change := range map[string]func(*evidence.Checkpoint){
		"tenant": func(c *evidence.Checkpoint) { c.Tenant[0]++ }, "number": func(c *evidence.Checkpoint) { c.Seq-- },
		"head": func(c *evidence.Checkpoint) { c.Head = evidence.Hash(nil, []byte("y")) }, "time": func(c *evidence.Checkpoint) { c.At = c.At.Add(time.Microsecond) },
		"key":       func(c *evidence.Checkpoint) { c.Key = evidence.KeyID(public(other)) },
		"signature": func(c *evidence.Checkpoint) { c.Signature = bytes.Clone(c.Signature); c.Signature[0] ^= 1 },
		"none":      func(c *evidence.Checkpoint) { c.Signature = nil },
	} {
		b := back
		change(&b)
		if b.Genuine([]ed25519.PublicKey{public(key), public(other)}) {
			t.Errorf("%s was changed and the signature holds", name)
		}
	}
	for _, bad := range []string{"", "{}", "null", string(line[:len(line)-10]), strings.Replace(string(line), `"v":1`, `"v":2`, 1), strings.Replace(string(line), `"v"`, `"x":1,"v"`, 1),
		string(line) + string(line)} {
		if _, err := evidence.ParseCheckpoint([]byte(bad)); err == nil {
			t.Errorf("taken for a checkpoint: %q", bad)
		}
	}
}

func TestKeysAreReadStrictly(t *testing.T) {
	t.Parallel()
	text := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	key, err := evidence.SigningKey(text)
	if err != nil {
		t.Fatal(err)
	}
	back, err := evidence.PublicKey(base64.StdEncoding.EncodeToString(public(key)))
	if err != nil || !back.Equal(public(key)) {
		t.Errorf("%v, %v", back, err)
	}
	for _, bad := range []string{"", "x", text[:20], text + text} {
		if _, err := evidence.SigningKey(bad); err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
		if _, err := evidence.PublicKey(bad); err == nil {
			t.Errorf("%q is a public key", bad)
		}
	}
}

// R-ATT-4: sparse checkpoints name the first number that none of them vouches for.
func TestAuditChainAgainstSparseCheckpoints(t *testing.T) {
	t.Parallel()
	tenant, key := uuid.New(), signer(1)
	chain := func(n int, edit int64) (rows []evidence.AuditRow, hashes [][]byte) {
		var prev []byte
		for seq := int64(1); seq <= int64(n); seq++ {
			r := evidence.AuditRow{Tenant: tenant, Seq: seq, ID: seq, Action: "a", Detail: "{}"}
			if seq == edit {
				r.Reason = "another"
			}
			prev = evidence.Hash(prev, evidence.AuditBody(r))
			rows, hashes = append(rows, r), append(hashes, prev)
		}
		return rows, hashes
	}
	rows, hashes := chain(20, 0)
	var points []evidence.Checkpoint
	for _, at := range []int64{5, 10, 20} {
		points = append(points, evidence.Sign(key, tenant, at, hashes[at-1], time.Unix(at, 0)))
	}
	check := func(rows []evidence.AuditRow, hashes [][]byte) (vouched int64, err error) {
		c := evidence.NewAuditChain(tenant, points)
		for i, r := range rows {
			if err := c.Next(r, hashes[i]); err != nil {
				return c.Vouched(), err
			}
		}
		if len(rows) == 0 {
			return 0, c.End(0, nil)
		}
		return c.Vouched(), c.End(rows[len(rows)-1].Seq, hashes[len(hashes)-1])
	}
	if v, err := check(rows, hashes); err != nil || v != 20 {
		t.Errorf("an unharmed log: %v, vouched for %d", err, v)
	}
	found := 0
	for edit := int64(1); edit <= 20; edit++ {
		want := map[bool]int64{true: 1}[edit <= 5] + map[bool]int64{true: 6}[edit > 5 && edit <= 10] + map[bool]int64{true: 11}[edit > 10]
		_, err := check(chain(20, edit))
		if broken, ok := errors.AsType[*evidence.BrokenAuditError](err); !ok || broken.Seq != want {
			t.Errorf("number %d replaced and chained anew: %v, want number %d", edit, err, want)
			continue
		}
		found++
	}
	for keep := range 20 {
		_, err := check(rows[:keep], hashes[:keep])
		if broken, ok := errors.AsType[*evidence.BrokenAuditError](err); !ok || broken.Seq != int64(keep)+1 {
			t.Errorf("all behind %d removed: %v", keep, err)
			continue
		}
		found++
	}
	t.Logf("%d of 40 found", found)
	if got := fmt.Sprint(&evidence.BrokenAuditError{Tenant: tenant, Seq: 3, Why: "x"}); got != "number 3: x" {
		t.Error(got)
	}
}

// FuzzParseCheckpoint: what is read of a checkpoint is what its line says again.
func FuzzParseCheckpoint(f *testing.F) {
	line, err := evidence.Sign(signer(1), uuid.MustParse("0190f3c0-0000-7000-8000-000000000001"), 12, evidence.Hash(nil, []byte("x")), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)).Line()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{"v":1}`))
	f.Add(append(bytes.Clone(line), line...))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := evidence.ParseCheckpoint(b)
		if err != nil {
			return
		}
		line, err := c.Line()
		if err != nil {
			return // a time that JSON has no form for
		}
		again, err := evidence.ParseCheckpoint(line)
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%q is %+v, and written and read again %+v: %v", b, c, again, err)
		}
	})
}
