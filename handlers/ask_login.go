package handlers

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"signalbox/internal/fault"
	"signalbox/web"
)

// askLogin answers a page that needs a person: a link that was opened goes to the login and back; a form that was sent
// says that nothing was done and loses no text (A25). The text is not stored: of a login that has ended nobody knows for
// certain whose it was. It stays on the page, or comes back on the answer's own page, and app.js holds it in the tab.
func (s *server) askLogin(w http.ResponseWriter, r *http.Request, err error) {
	fragment := r.Header.Get("HX-Request") != ""
	if r.Method == http.MethodGet && !fragment {
		to := web.LoginURL + "?return_to=" + url.QueryEscape(r.URL.RequestURI())
		if r.URL.Path == web.HomeURL {
			to = web.LoginURL
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	page := web.SessionEnded(currentPath(r), strings.HasSuffix(r.URL.Path, "/decisions"))
	if fragment {
		// The page and what was written on it stay; only the banner is filled.
		w.Header().Set("HX-Retarget", "#session-banner")
		w.Header().Set("HX-Reswap", "innerHTML")
	} else {
		data := web.ErrorPageData{
			Shell: s.shell(r), Status: http.StatusUnauthorized, RequestID: requestID(r),
			Sentence: "Nothing was done: your login has ended. Sign in again; go back to find your text.",
			Back:     &web.Link{Text: "Sign in", Href: web.LoginURL + "?why=ended"},
		}
		if texts, to := unsent(r); len(texts) > 0 {
			data.Sentence = "Nothing was done: your login has ended. Your text is below, not sent."
			data.Unsent, data.Back = texts, &web.Link{Text: "Sign in", Href: web.LoginURL + "?why=ended&return_to=" + url.QueryEscape(to)}
		}
		page = web.ErrorPage(data)
	}
	if renderErr := s.render(w, r, http.StatusUnauthorized, page); renderErr != nil {
		http.Error(w, fault.Sentence(err), http.StatusUnauthorized)
	}
}

// unsent reads what a person wrote into a form that nobody took, and the page that has the form.
func unsent(r *http.Request) (texts []web.Unsent, page string) {
	values, err := form(r)
	if err != nil {
		return nil, ""
	}
	page = web.HomeURL
	if gate, ok := strings.CutSuffix(r.URL.Path, "/decisions"); ok {
		page = returnPath(gate)
	} else if d, err := parseDraft(values.Get("draft")); err == nil && r.URL.Path == web.TasksURL {
		page = returnPath(d.page())
	}
	for _, f := range append(web.Texts(), commentTexts(values)...) {
		if text := values.Get(f.Value); strings.TrimSpace(text) != "" {
			texts = append(texts, web.Unsent{Name: f.Value, Label: f.Label, Text: text})
		}
	}
	return texts, page
}

// currentPath is the page that an htmx request was sent from, as a path of ours.
func currentPath(r *http.Request) string {
	u, err := url.Parse(r.Header.Get("HX-Current-URL"))
	if err != nil {
		return web.HomeURL
	}
	return returnPath(u.RequestURI())
}

// commentTexts are the fields of comments that a form brought.
func commentTexts(v url.Values) (fields []web.Option) {
	for step := range web.MaxSteps {
		if name := web.CommentField(step + 1); v.Get(name) != "" {
			fields = append(fields, web.Option{Value: name, Label: "Your comment on step " + strconv.Itoa(step+1)})
		}
	}
	return fields
}
