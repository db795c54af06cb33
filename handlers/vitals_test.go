package handlers_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// U11: what a page was like is counted by its pattern, without the address and without the person; what no browser measures is
// refused as a whole.
func TestVitalsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	told := func(path, lcp, inp, cls string) url.Values {
		return url.Values{"path": {path}, "lcp": {lcp}, "inp": {inp}, "cls": {cls}}
	}
	b.post(t, "/vitals", told("/runs/run_01m8m1aqhhfh1vgchmwcf2qjxb", "0.75", "0.04", "0")).want(t, http.StatusNoContent)
	want := []string{"/runs/{id} cls 0", "/runs/{id} inp 0.04", "/runs/{id} lcp 0.75"}
	if got := slices.Sorted(strings.Lines(w.vitals.String())); strings.Join(got, "") != strings.Join(want, "\n")+"\n" {
		t.Errorf("counted: %q", got)
	}
	for _, bad := range []url.Values{
		told("/nowhere", "1", "1", "1"), told("", "1", "1", "1"), told("https://elsewhere.example/runs", "1", "1", "1"), told("/vitals", "1", "1", "1"),
		told("/runs", "", "1", "1"), told("/runs", "NaN", "1", "1"), told("/runs", "1", "-1", "1"), told("/runs", "1", "Inf", "1"), told("/runs", "1", "1", "100.5"), told("/runs", "601", "1", "1"),
		{"path": {"/runs"}, "lcp": {"1"}},
	} {
		b.post(t, "/vitals", bad).want(t, http.StatusUnprocessableEntity)
	}
	b.post(t, "/vitals", told("/runs", "1", "1", "1"), "Sec-Fetch-Site", "cross-site").want(t, http.StatusForbidden)
	w.browser().post(t, "/vitals", told("/runs", "1", "1", "1")).want(t, http.StatusUnauthorized)
	if n := strings.Count(w.vitals.String(), "\n"); n != 3 {
		t.Errorf("%d were counted, want 3", n)
	}
}
