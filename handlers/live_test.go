package handlers_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/wire"
)

// watch is one person's stream of a run from its present state on.
func (w *world) watch(t *testing.T, b *browser, run string) <-chan message {
	t.Helper()
	live, _ := b.listen(t, "/runs/"+run+"/stream?after="+strconv.FormatInt(w.version(t, run), 10))
	return live
}

func (w *world) version(t *testing.T, run string) int64 {
	t.Helper()
	return into[wire.Run](t, w.cli(t, rita).call(t, http.MethodGet, "/runs/"+run, nil)).Version
}

// The viewers of one run share what is read and rendered, and none is shown what is another's: what only one may press, whose turn it
// is, and the word "you". No message holds a form or a key of one.
func TestViewersShareNothingOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := []struct {
		idPerson
		has, lacks map[string]string // by act: what the panel must, and must not, say
	}{
		{rita, map[string]string{"start": "Cancel run…", "cancel": "Requested by you", "gate": "Open the gate"}, map[string]string{"cancel": "Force stop", "gate": "Review patch"}},
		{ana, map[string]string{"cancel": "Requested by Rita", "gate": "Review patch"}, map[string]string{"start": "Cancel run…", "cancel": "by you", "gate": "Open the gate"}},
		{vera, map[string]string{"cancel": "Requested by Rita", "gate": "Open the gate"}, map[string]string{"start": "Cancel run…", "cancel": "by you", "gate": "Review patch"}},
		{adam, map[string]string{"start": "Cancel run…", "cancel": "Force stop", "gate": "Open the gate"}, map[string]string{"cancel": "by you", "gate": "Review patch"}},
	}
	browsers := make([]*browser, len(people))
	for i, p := range people {
		browsers[i] = w.signedIn(t, p.idPerson)
	}
	k := w.worker(t, "one")
	// all are shown the same event at the same time, each with two streams.
	all := func(act, run string, do func()) {
		t.Helper()
		var watching sync.WaitGroup
		live := make([]<-chan message, len(people)*2)
		for i := range live {
			live[i] = w.watch(t, browsers[i%len(people)], run)
		}
		do()
		version := w.version(t, run)
		for i, l := range live {
			p := people[i%len(people)]
			watching.Go(func() {
				for m := range l {
					if strings.Contains(m.data, "<form") || strings.Contains(m.data, "idempotency_key") {
						t.Errorf("%s, %s: a message holds a form: %s", act, p.name, m.data)
					}
					if m.id != strconv.FormatInt(version, 10) {
						continue
					}
					if has := p.has[act]; !strings.Contains(m.data, has) {
						t.Errorf("%s: %s is not shown %q", act, p.name, has)
					}
					if lacks := p.lacks[act]; lacks != "" && strings.Contains(m.data, lacks) {
						t.Errorf("%s: %s is shown %q", act, p.name, lacks)
					}
					return
				}
				t.Errorf("%s: the stream of %s ended", act, p.name)
			})
		}
		watching.Wait()
	}
	browsers[0].submit(t, "Replace one word.")
	l := k.claim(t, "execute")
	all("start", l.as.RunId, func() { l.do(t, wire.RunCommand{Command: wire.CmdStart}) })
	all("cancel", l.as.RunId, func() {
		w.cli(t, rita).call(t, http.MethodPost, "/runs/"+l.as.RunId+"/cancel", wire.Reason{Reason: "enough"}).want(t, http.StatusOK)
	})
	browsers[0].submit(t, "Replace another word.")
	made := k.claim(t, "execute")
	made.plan(t)
	made.handIn(t, diff("a.txt", "two"))
	all("gate", made.as.RunId, func() { k.claim(t, "verify").verify(t) })
}

// T1: that a run is watched does not open it to another tenant.
func TestWatchedRunsStayTheirTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	live := w.watch(t, b, l.as.RunId)
	user := w.user(t, idPerson{sub: "olga", name: "Olga Other", groups: []string{"viewers"}})
	secret := db.NewSecret()
	mac := hmac.New(sha256.New, bytes.Repeat([]byte("k"), 32))
	mac.Write([]byte(secret))
	must(t, w.store.StartSession(t.Context(), db.Session{User: user.User, Tenant: w.tenant(t, "other", user.User), Subject: "olga", AuthTime: time.Now()}, mac.Sum(nil), nil, time.Hour, time.Hour))
	cookie := "sid=" + secret
	w.browser().get(t, "/inbox", "Cookie", cookie).want(t, http.StatusOK)
	stranger := func() {
		w.browser().get(t, "/runs/"+l.as.RunId+"/stream?after=0", "Cookie", cookie).want(t, http.StatusNotFound)
	}
	stranger()
	l.do(t, wire.RunCommand{Command: wire.CmdStart})
	upTo(t, live, w.version(t, l.as.RunId))
	stranger()
}

// B9: a session that ended gets nothing more of a stream that it had opened, not even the next event.
func TestEndedSessionsGetNothingMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, other := w.signedIn(t, rita), w.signedIn(t, ana)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	gone, stays := w.watch(t, b, l.as.RunId), w.watch(t, other, l.as.RunId)
	cookies := b.Jar
	b.Jar = w.browser().Jar // the browser forgets nothing: only the server knows that the session is over
	for _, c := range cookies.Cookies(got(http.NewRequestWithContext(t.Context(), http.MethodGet, w.url, nil))(t).URL) {
		b.post(t, "/logout", nil, "Cookie", c.String()).want(t, http.StatusSeeOther)
	}
	l.do(t, wire.RunCommand{Command: wire.CmdStart})
	m, _ := upTo(t, stays, w.version(t, l.as.RunId))
	if !strings.Contains(m.data, "prepares a sandbox") {
		t.Errorf("who is signed in is sent %s", m.data)
	}
	for m := range gone {
		if strings.Contains(m.data, "prepares a sandbox") {
			t.Fatalf("a session that ended is sent %s", m.data)
		}
		if m.event == "reauth" {
			return
		}
	}
	t.Error("the stream of a session that ended says nothing of it")
}
