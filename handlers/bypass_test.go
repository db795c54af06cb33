package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"signalbox/db"
	"signalbox/internal/typeid"
)

// bea holds the emergency role and nothing else.
var bea = idPerson{sub: "bea", name: "Bea Breaker", groups: []string{"breakers"}}

const emergency = "Production is down and nobody answers."

// bypassForm is the form of the page with what somebody types into it.
func (b *browser) bypassForm(t testing.TB, gate string) url.Values {
	t.Helper()
	form := fields(b.get(t, "/gates/"+gate+"/bypass").want(t, http.StatusOK).page(t).Find("form[action$='/bypass']"))
	form.Set("reason", emergency)
	form.Set("ticket", "INC-4412")
	form.Set("repository", "acme/api")
	return form
}

func (w *world) breakers(t testing.TB) *browser {
	t.Helper()
	w.sql(t.(*testing.T), `INSERT INTO group_roles (tenant_id, provider_id, group_name, role) VALUES ('`+db.DefaultTenant.String()+`', '`+w.provider.String()+`', 'breakers', 'breakglass')`)
	return w.signedIn(t, bea)
}

// A27: somebody with the emergency role opens a gate without the people it asks for: on a page of its own, with a reason, a ticket and
// the repository's name, once, bound to what they saw. It is told to those who may review it, stays on the run and on the pull
// request, is in the audit, and is reviewed by somebody else.
func TestBreakGlass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.breakers(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	k := w.worker(t, "one")
	gate, runID := w.waiting(t, k)
	path := "/gates/" + gate + "/bypass"

	// Nobody else may, whatever they are; and no token ever.
	form := b.bypassForm(t, gate)
	for _, p := range []idPerson{vera, rita, ana, adam} {
		w.signedIn(t, p).post(t, path, form).want(t, http.StatusForbidden)
	}
	if text := w.signedIn(t, ana).get(t, path).page(t).Find("main").Text(); !strings.Contains(text, "This asks for the role breakglass, which is granted by membership in the group breakers at test") {
		t.Errorf("who lacks the role reads: %s", text)
	}
	if a := b.post(t, "/gates/"+gate+"/decisions", b.gateVerdict(t, gate, form)); a.StatusCode != http.StatusForbidden {
		t.Errorf("the role approves: %d", a.StatusCode)
	}

	// What is typed is held to the rules, and kept.
	hidden := strings.NewReplacer("\u200b", "⟦U+200B⟧") // as pages show what nobody would see
	for _, x := range [][2]string{{"reason", "Down."}, {"reason", strings.Repeat("\u200b", 30)}, {"reason", "a" + strings.Repeat(" ", 30) + "b"}, {"ticket", " "}, {"ticket", "\u2060"}, {"repository", "acme/apl"}} {
		field, bad := x[0], x[1]
		wrong := url.Values{}
		for k, v := range form {
			wrong[k] = v
		}
		wrong.Set(field, bad)
		page := b.post(t, path, wrong).want(t, http.StatusUnprocessableEntity).page(t)
		if page.Find("#e-"+field).Text() == "" || page.Find("#f-reason").Text() != hidden.Replace(wrong.Get("reason")) {
			t.Errorf("%s %q: says %q, keeps %q", field, bad, page.Find("#e-"+field).Text(), page.Find("#f-reason").Text())
		}
	}
	stale := b.bypassForm(t, gate)
	stale.Set("digest", strings.Repeat("0", 64))
	b.post(t, path, stale).want(t, http.StatusConflict)
	if n := w.count(t, `SELECT count(*) FROM bypass_reviews`) + w.count(t, `SELECT count(*) FROM audit_log WHERE action = 'gate.bypass'`); n != 0 {
		t.Fatalf("%d traces of what was refused", n)
	}

	for range 2 { // a form that is sent twice does one thing
		b.post(t, path, form).want(t, http.StatusSeeOther)
	}
	words := "The patch gate was bypassed by Bea Breaker: “" + emergency + "” (INC-4412)."
	for _, at := range []string{"/runs/" + runID, "/gates/" + gate, path} {
		if text := w.signedIn(t, vera).get(t, at).page(t).Find("main").Text(); !strings.Contains(text, words) || !strings.Contains(text, "Its review is due") {
			t.Errorf("%s does not say what was bypassed: %.600s", at, text)
		}
	}
	w.signedIn(t, ana).post(t, path, form).want(t, http.StatusForbidden)
	b.post(t, path, b.changed(form)).want(t, http.StatusConflict)

	// It is told to those who may review it, and to nobody else.
	for _, x := range []struct {
		who  idPerson
		told bool
	}{{ana, true}, {adam, true}, {vera, false}, {bea, false}} {
		page := w.signedIn(t, x.who).get(t, "/inbox").page(t)
		if got := strings.Contains(page.Find("#bypasses").Parent().Text(), words); got != x.told {
			t.Errorf("%s is told: %v", x.who.name, got)
		}
		if quiet := strings.Contains(page.Find("main").Text(), "Nothing needs you."); quiet == x.told {
			t.Errorf("%s is told: %v, and that nothing needs them: %v", x.who.name, x.told, quiet)
		}
	}

	// The pull request says so for good.
	l := k.claim(t, "publish")
	l.facts(t)
	pull := l.open(t)
	due := got(w.store.Bypasses(t.Context(), db.DefaultTenant, db.BypassFilter{}))(t)[0].Due
	if text := w.signedIn(t, vera).get(t, "/pulls/"+pull.Id).page(t).Find("main").Text(); !strings.Contains(text, words+" Review due at "+due.Format("15:04")+" UTC on "+due.Format("2 January 2006")+": ") {
		t.Errorf("the pull request does not say what was bypassed, and until when it is reviewed: %.600s", text)
	}

	// Somebody else reviews it, once, with what they found.
	review := url.Values{"idempotency_key": {db.NewSecret()}, "note": {"The rollback was right."}}
	b.post(t, path+"/review", review).want(t, http.StatusForbidden)
	both := w.signedIn(t, idPerson{sub: "bea", name: bea.name, groups: []string{"breakers", "approvers"}})
	both.post(t, path+"/review", review).want(t, http.StatusForbidden)
	asked := w.signedIn(t, idPerson{sub: rita.sub, name: rita.name, groups: []string{"requesters", "approvers"}})
	asked.post(t, path+"/review", review).want(t, http.StatusForbidden)
	inbox, waits := asked.get(t, "/inbox").page(t), w.signedIn(t, ana).get(t, "/inbox").page(t).Find("nav .count").Length()
	if n := asked.get(t, path).page(t).Find("form[action$='/review']").Length() + inbox.Find("#bypasses").Length() + inbox.Find("nav .count").Length(); n != 0 || waits == 0 {
		t.Errorf("whoever asked for the work is asked to review how it got through (%d), and who may is told in %d places", n, waits)
	}
	empty := url.Values{"idempotency_key": {db.NewSecret()}, "note": {" "}}
	w.signedIn(t, ana).post(t, path+"/review", empty).want(t, http.StatusUnprocessableEntity)
	w.signedIn(t, ana).post(t, path+"/review", review).want(t, http.StatusSeeOther)
	w.signedIn(t, ben).post(t, path+"/review", review).want(t, http.StatusConflict)
	if text := w.signedIn(t, vera).get(t, "/runs/"+runID).page(t).Find("main").Text(); !strings.Contains(text, words) || !strings.Contains(strings.Join(strings.Fields(text), " "), "Reviewed by Ana Approver") || !strings.Contains(text, "The rollback was right.") {
		t.Errorf("after the review: %.600s", text)
	}
	if page := w.signedIn(t, ben).get(t, "/inbox").page(t); page.Find("#bypasses").Length() != 0 {
		t.Error("a reviewed bypass is still somebody's turn")
	}
	for action, want := range map[string]int{"gate.bypass": 1, "gate.bypass_review": 1} {
		if n := w.count(t, `SELECT count(*) FROM audit_log WHERE action = $1`, action); n != want {
			t.Errorf("%d audit lines %s", n, action)
		}
	}
}

// A27: a bypass and an approval at the same moment: one of them opens the gate, and whoever comes later is told.
func TestBreakGlassRacesApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, other := w.breakers(t), w.signedIn(t, ana)
	k := w.worker(t, "one")
	for range 3 {
		w.signedIn(t, rita).submit(t, "Replace one word.")
		gate, _ := w.waiting(t, k)
		form, approval := b.bypassForm(t, gate), other.gateForm(t, gate)
		approval.Set("verdict", "approve")
		start := make(chan struct{})
		var bypassed, approved int
		var wg sync.WaitGroup
		wg.Go(func() { <-start; bypassed = b.post(t, "/gates/"+gate+"/bypass", form).StatusCode })
		wg.Go(func() { <-start; approved = other.post(t, "/gates/"+gate+"/decisions", approval).StatusCode })
		close(start)
		wg.Wait()
		n := w.count(t, `SELECT count(*) FROM bypass_reviews WHERE gate_id = $1`, got(typeid.Parse(typeid.Gate, gate))(t))
		// An approval that comes after a bypass is kept and starts nothing (A5).
		if bypassed == http.StatusSeeOther && n != 1 || bypassed != http.StatusSeeOther && (bypassed != http.StatusConflict || approved != http.StatusSeeOther || n != 0) {
			t.Errorf("bypass %d, approval %d, %d reviews", bypassed, approved, n)
		}
	}
}

// A27, A24: whoever proved long ago who they are proves it again before they see the form; what was typed is not carried out, and is
// there again when they come back, and gone when it was sent.
func TestBreakGlassAsksWhoItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.breakers(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	gate, _ := w.waiting(t, w.worker(t, "one"))
	form := b.bypassForm(t, gate)
	w.sql(t, `UPDATE sessions SET auth_time = now() - interval '16 minutes'`)
	page := b.post(t, "/gates/"+gate+"/bypass", form).want(t, http.StatusForbidden).page(t)
	if page.Find(`a[href^="/login/confirm"]`).Length() != 1 || b.get(t, "/gates/"+gate+"/bypass").page(t).Find("form[action$='/bypass']").Length() != 0 {
		t.Errorf("an old login is not sent to confirm: %.400s", page.Find("main").Text())
	}
	if n := w.count(t, `SELECT count(*) FROM bypass_reviews`); n != 0 {
		t.Error("it was bypassed")
	}
	if text := page.Find("main").Text(); !strings.Contains(text, "What you typed is kept.") {
		t.Errorf("it does not say that what was typed is kept: %.600s", text)
	}
	w.idp.signInAs(bea)
	to := b.get(t, page.Find(`a[href^="/login/confirm"]`).AttrOr("href", "")).want(t, http.StatusFound).Header.Get("Location")
	back := b.get(t, b.get(t, to).want(t, http.StatusFound).Header.Get("Location")).want(t, http.StatusSeeOther).Header.Get("Location")
	again := b.get(t, back).want(t, http.StatusOK)
	if !strings.Contains(again.body, "It is you. Nothing is bypassed yet; what you typed is kept.") {
		t.Errorf("back at %s it does not say how to go on", back)
	}
	page = again.page(t)
	kept := fields(page.Find("form[action$='/bypass']"))
	for name, there := range map[string]string{"reason": page.Find("#f-reason").Text(), "ticket": page.Find("#f-ticket").AttrOr("value", ""), "repository": page.Find("#f-repository").AttrOr("value", "")} {
		if kept.Set(name, there); there != form.Get(name) {
			t.Errorf("%s: the form has %q, and %q was typed", name, kept.Get(name), form.Get(name))
		}
	}
	b.post(t, "/gates/"+gate+"/bypass", kept).want(t, http.StatusSeeOther)
	if n := w.count(t, `SELECT count(*) FROM drafts`); n != 0 {
		t.Errorf("%d drafts of what was sent", n)
	}
}

// A27: what no person can override, nobody bypasses.
func TestBreakGlassKeepsHardGuards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.breakers(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	gate, _ := w.waiting(t, w.worker(t, "one"))
	form := b.bypassForm(t, gate)
	got(w.store.SavePolicy(t.Context(), db.DefaultTenant, "version: two\npaths:\n  forbidden: [a.txt]\n"))(t)
	a := b.post(t, "/gates/"+gate+"/bypass", form).want(t, http.StatusForbidden)
	if !strings.Contains(a.body, "No person can override this") || w.count(t, `SELECT count(*) FROM bypass_reviews`) != 0 {
		t.Errorf("a forbidden path: %.400s", a.page(t).Find("main").Text())
	}
}

// A27: somebody was asked and said no: where the policy lets a rejection block, nobody goes around it.
func TestBreakGlassKeepsARejection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.breakers(t)
	got(w.store.SavePolicy(t.Context(), db.DefaultTenant, "version: blocks\ngates:\n  patch: {when: always}\n  any_reject_blocks: true\n"))(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	gate, _ := w.waiting(t, w.worker(t, "one"))
	no := w.signedIn(t, ana)
	verdict := no.gateForm(t, gate)
	verdict.Set("verdict", "reject")
	verdict.Set("text", "This drops the table.")
	no.post(t, "/gates/"+gate+"/decisions", verdict).want(t, http.StatusSeeOther)
	a := b.post(t, "/gates/"+gate+"/bypass", b.bypassForm(t, gate)).want(t, http.StatusForbidden)
	if !strings.Contains(a.body, "a rejection stands until whoever gave it approves") || w.count(t, `SELECT count(*) FROM bypass_reviews`) != 0 {
		t.Errorf("a rejected gate: %.400s", a.page(t).Find("main").Text())
	}
}

// changed is the form as another request.
func (b *browser) changed(form url.Values) url.Values {
	out := url.Values{}
	for k, v := range form {
		out[k] = v
	}
	out.Set("idempotency_key", db.NewSecret())
	return out
}

// gateVerdict is the approval that somebody without the buttons would post.
func (b *browser) gateVerdict(t testing.TB, gate string, form url.Values) url.Values {
	t.Helper()
	return url.Values{"idempotency_key": {db.NewSecret()}, "revision": {form.Get("revision")}, "digest": {form.Get("digest")}, "verdict": {"approve"}, "gate_id": {gate}}
}
