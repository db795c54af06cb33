package bench_test

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/typeid"
)

// visit is one look at a page over HTTP on this machine.
type visit struct {
	first time.Duration // until its first byte
	bar   time.Duration // until the bytes of what is looked for
	whole time.Duration
	bytes int
	zip   int // bytes, compressed
}

func look(b *testing.B, client *http.Client, address, for_ string) (v visit) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, address, nil)
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	part := make([]byte, 16<<10)
	for {
		n, err := resp.Body.Read(part)
		if n > 0 && v.first == 0 {
			v.first = time.Since(began)
		}
		body.Write(part[:n])
		if v.bar == 0 && for_ != "" && bytes.Contains(body.Bytes(), []byte(for_)) {
			v.bar = time.Since(began)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	v.whole, v.bytes = time.Since(began), body.Len()
	if resp.StatusCode != http.StatusOK || for_ != "" && v.bar == 0 {
		b.Fatalf("%s: %d without %q: %.300s", address, resp.StatusCode, for_, body.String())
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(body.Bytes()); err != nil {
		b.Fatal(err)
	}
	if err := z.Close(); err != nil {
		b.Fatal(err)
	}
	v.zip = zipped.Len()
	return v
}

// looks prints what n looks at a page took.
func looks(f *figure, client *http.Client, n int, name, address, for_ string) {
	f.b.Helper()
	var first, bar, whole []time.Duration
	var last visit
	look(f.b, client, address, for_)
	for range n {
		last = look(f.b, client, address, for_)
		first, bar, whole = append(first, last.first), append(bar, last.bar), append(whole, last.whole)
	}
	ms := func(d []time.Duration, q float64) float64 { return float64(quantile(d, q).Microseconds()) / 1000 }
	text := fmt.Sprintf("%-32s first byte p50 %6.1f ms, p95 %6.1f ms; whole p50 %6.1f ms, p95 %6.1f ms; %d bytes, %d compressed", name, ms(first, 0.5), ms(first, 0.95), ms(whole, 0.5), ms(whole, 0.95), last.bytes, last.zip)
	if for_ != "" {
		text += fmt.Sprintf("; buttons p50 %.1f ms", ms(bar, 0.5))
	}
	f.line("%s", text)
	progress("%s", text)
}

// person is a client that is signed in as the requester.
func (p *product) person() *http.Client {
	p.b.Helper()
	secret := db.NewSecret()
	mac := hmac.New(sha256.New, sessionKey)
	mac.Write([]byte(secret))
	p.must(p.world.Store.StartSession(p.b.Context(), db.Session{User: p.world.Requester.ID, Tenant: p.world.Tenant, Subject: "bench", AuthTime: time.Now()}, mac.Sum(nil), nil, time.Hour, time.Hour), "sign in")
	return &http.Client{Transport: signedIn{secret}}
}

type signedIn struct{ secret string }

func (s signedIn) RoundTrip(req *http.Request) (*http.Response, error) {
	req.AddCookie(&http.Cookie{Name: "sid", Value: s.secret})
	return http.DefaultTransport.RoundTrip(req)
}

// BenchmarkPages prints what lists and a run's page take with a million events in the database, a hundred thousand of them of that run
// (U13), and what a gate's page takes with a patch of 20,000 lines.
func BenchmarkPages(b *testing.B) {
	runs, own, all, times, lines := 2000, 100_000, 1_000_000, 60, 400
	if testing.Short() {
		runs, own, all, times, lines = 50, 500, 2000, 3, 20
	}
	p := start(b)
	f := p.figure()
	ctx := b.Context()
	ref, err := p.world.Run(ctx, drive.Ordinary())
	p.must(err, "submit")
	p.hurried(func() {
		p.copyRun(ref.Run, runs)
		copied := map[string]string{"seq": "2 + n", "event_id": "'bench-' || n", "at": "run_events.at + n * interval '1 millisecond'"}
		p.insert(copies{"run_events", "run_events.run_id = $3 AND seq = 2", copied}, 1, own-2, ref.Run)
		p.exec(`UPDATE runs SET version = $2 WHERE id = $1`, ref.Run, own)
		copied["seq"] = fmt.Sprintf("1 + n / %d", runs)
		copied["run_id"] = fmt.Sprintf(`('01900000-0000-7000-8000-' || lpad(to_hex(n %% %d + 1), 12, '0'))::uuid`, runs)
		p.insert(copies{"run_events", "run_events.run_id = $3 AND seq = 2", copied}, runs, runs+all-own, ref.Run)
	})
	p.exec(`VACUUM ANALYZE`)
	var events int
	p.must(p.root.QueryRow(ctx, `SELECT count(*) FROM run_events`).Scan(&events), "count")
	f.line("%d runs, %d events, %d of them of one run; a client at a time, %d looks each, over a connection that is kept", runs+1, events, own, times)
	client, url := p.person(), "http://"+p.address
	page := url + "/runs/" + typeid.Format(typeid.Run, ref.Run)
	for _, l := range []struct{ name, address string }{
		{"my turn", url + "/inbox"}, {"runs", url + "/runs"}, {"runs, a word searched for", url + "/runs?q=body"}, {"tasks", url + "/tasks"}, {"new task", url + "/tasks/new"}, {"workers and queues", url + "/workers"},
		{"run of 100,000 events", page}, {"… from its middle", page + fmt.Sprintf("?from=%d", own/2)}, {"… around an event", page + fmt.Sprintf("?at=%d", own/2)}, {"… failed ones alone", page + "?show=failed"}, {"… raw", page + "?level=raw"},
	} {
		looks(f, client, times, l.name, l.address, "")
	}
	b.Run("patch", func(b *testing.B) { bigPatch(b, f, lines, times) })
	f.print()
}

// bigPatch is the page of a gate with fifty new files of so many lines, made by a worker and its agent.
func bigPatch(b *testing.B, f *figure, lines, times int) {
	r := rig.New(b, rig.Options{Timing: db.Timing{LeaseTTL: time.Minute}, Patience: 3 * time.Minute, Policy: "schema: 1\nversion: large-1\nlimits: {diff_lines: 50000, patch_bytes: 8388608}\n"})
	repo := r.Repository("acme/large", rig.Shop())
	script := fmt.Sprintf(`for f in $(seq 50); do seq -f "func line%%.0f() error { return nil } // of file $f" %d > generated$f.go; done`, lines)
	_, id := r.Person("rita").Submit(rig.Task{Repository: repo, Title: "A large patch", Goal: rig.Recipe("Much.", rig.Act{Do: "sh", New: script})})
	gate := r.AwaitGate(id)
	f.line("a patch of %d lines in 50 files", 50*lines)
	ana := r.Person("ana")
	looks(f, ana.Browser.HTTP, times, "patch gate", r.URL+"/gates/"+gate, `value="approve"`)
	looks(f, ana.Browser.HTTP, times, "… side by side", r.URL+"/gates/"+gate+"?view=split", `value="approve"`)
	looks(f, ana.Browser.HTTP, times, "one file of it", r.URL+"/gates/"+gate+"/files/50", "")
}
