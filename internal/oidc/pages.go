package oidc

import (
	"bytes"
	"context"
	"html/template"
	"net/http"
	"strings"
)

// pages are the provider's own few pages: forms and links that work without JavaScript, of which there is none.
type pages struct {
	people      []Person
	store       *storage
	callback    func(context.Context, string) string
	formTargets []string
}

type loginData struct {
	ID      string
	Problem string
	People  []Person
}

func (p *pages) getLogin(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	if _, err := p.store.AuthRequestByID(r.Context(), id); err != nil {
		p.render(w, http.StatusNotFound, expiredPage(), nil)
		return
	}
	p.render(w, http.StatusOK, loginPage(), loginData{ID: id, People: p.people})
}

func (p *pages) postLogin(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	id, subject := r.PostFormValue("id"), r.PostFormValue("person")
	if _, err := p.store.AuthRequestByID(r.Context(), id); err != nil {
		p.render(w, http.StatusNotFound, expiredPage(), nil)
		return
	}
	if err := p.store.signIn(id, subject); err != nil {
		p.render(w, http.StatusUnprocessableEntity, loginPage(), loginData{
			ID: id, People: p.people, Problem: "Nobody was signed in: choose one of the people below.",
		})
		return
	}
	http.Redirect(w, r, p.callback(r.Context(), id), http.StatusSeeOther)
}

func (p *pages) getSignedOut(w http.ResponseWriter, _ *http.Request) {
	p.render(w, http.StatusOK, signedOutPage(), nil)
}

func (p *pages) getStyle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(style))
}

func (p *pages) render(w http.ResponseWriter, status int, t *template.Template, data any) {
	var page bytes.Buffer
	if err := t.Execute(&page, data); err != nil {
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self' "+strings.Join(p.formTargets, " "))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes())
}

func layout(title, body string) *template.Template {
	return template.Must(template.New(title).Parse(`<!doctype html>
<html lang="en-GB">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>` + title + ` – Signalbox sample people</title>
<link rel="stylesheet" href="/login.css">
</head>
<body>
<main>
` + body + `
</main>
</body>
</html>
`))
}

func loginPage() *template.Template {
	return layout("Sign in", `<h1>Sign in to Signalbox</h1>
<p>These are sample people of your own machine. There is no password; nobody else can reach this page.</p>
{{with .Problem}}<p role="alert" class="problem">{{.}}</p>{{end}}
<form method="post" action="/login">
<input type="hidden" name="id" value="{{.ID}}">
<ul>
{{range .People}}<li>
<button name="person" value="{{.Subject}}" aria-describedby="about-{{.Subject}}">Sign in as {{.Name}}</button>
<span id="about-{{.Subject}}">{{.About}}</span>
</li>
{{end}}</ul>
</form>`)
}

func expiredPage() *template.Template {
	return layout("Login not found", `<h1>This login has run out</h1>
<p>Nobody was signed in: the login is older than ten minutes, was finished already, or began before a restart. Go back to Signalbox and choose “Sign in” again.</p>`)
}

func signedOutPage() *template.Template {
	return layout("Signed out", `<h1>Signed out</h1>
<p>You are signed out of the sample provider. You may close this page.</p>`)
}

const style = `:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0; background: Canvas; color: CanvasText; }
main { max-width: 36rem; margin: 10vh auto 2rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; }
ul { list-style: none; padding: 0; margin: 1.5rem 0; }
li { display: flex; flex-wrap: wrap; gap: .25rem 1rem; align-items: baseline; padding: .75rem 0; border-top: 1px solid GrayText; }
button { font: inherit; min-width: 15rem; min-height: 2.75rem; padding: .5rem 1rem; text-align: left; cursor: pointer; }
li span { flex: 1 1 14rem; }
.problem { border-left: .25rem solid #b3261e; padding-left: .75rem; }
`
