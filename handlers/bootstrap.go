package handlers

import (
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// AdminLinkLife is how long a one-time link that makes an administrator can be used.
const AdminLinkLife = 15 * time.Minute

// adminLinkCookie carries a link from its address over the login to the form, so that it stands in no address on the way.
func (s *server) adminLinkCookie() string {
	if s.secure() {
		return "__Host-admin-link"
	}
	return "admin-link"
}

var errNoAdminLink = fault.New(fault.Gone, "Nothing was changed: no link was opened in this browser, or it is too old. Open the link that signalbox admin link printed.").WithCode("admin_link")

// getAdminLink keeps the link in a cookie and leads to the page that uses it.
func (s *server) getAdminLink(w http.ResponseWriter, r *http.Request) error {
	secret := chi.URLParam(r, "link")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if !db.WellFormed(secret) {
		return errNoAdminLink
	}
	s.setLoginCookie(w, s.adminLinkCookie(), secret, AdminLinkLife)
	return see(w, r, web.BecomeAdminURL)
}

// adminLink is the link that this browser opened.
func (s *server) adminLink(r *http.Request) (string, error) {
	c, err := r.Cookie(s.adminLinkCookie())
	if err != nil || !db.WellFormed(c.Value) {
		return "", errNoAdminLink
	}
	return c.Value, nil
}

// getBecomeAdmin asks whoever opened a link whether they want to be an administrator; nobody signed in signs in first.
func (s *server) getBecomeAdmin(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	secret, err := s.adminLink(r)
	if err != nil {
		return err
	}
	expires, err := s.store.AdminLink(r.Context(), secret)
	if err != nil {
		return err
	}
	if who(r).kind != person {
		return see(w, r, web.LoginURL+"?return_to="+url.QueryEscape(web.BecomeAdminURL))
	}
	return s.render(w, r, http.StatusOK, web.BecomeAdminPage(web.BecomeAdminPageData{Shell: s.shell(r), Expires: expires, IdempotencyKey: db.NewSecret()}))
}

// postBecomeAdmin uses the link. Whoever is signed in may, with a role or without one.
func (s *server) postBecomeAdmin(w http.ResponseWriter, r *http.Request) error {
	secret, err := s.adminLink(r)
	if err != nil {
		return err
	}
	p := who(r)
	if p.kind != person {
		return fault.New(fault.Unauthenticated, "Nothing was done: this needs a login.").WithCode("login_needed")
	}
	_, in, err := s.formRequest(r, act{action: "admin.appoint", object: "user", id: typeid.Format(typeid.User, p.user)})
	if err != nil {
		return err
	}
	if err := s.store.UseAdminLink(r.Context(), in, secret, p.user); err != nil {
		return err
	}
	s.setLoginCookie(w, s.adminLinkCookie(), "", -time.Second)
	return see(w, r, web.AdminURL+"?done=admin-appointed")
}

// postDismiss takes back what a link gave somebody.
func (s *server) postDismiss(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.User)
	if err != nil {
		return err
	}
	_, in, err := s.formRequest(r, act{action: "admin.dismiss", object: "user"})
	if err != nil {
		return err
	}
	if err := s.store.DismissAdministrator(r.Context(), in, id); err != nil {
		return err
	}
	return see(w, r, web.PersonURL(typeid.Format(typeid.User, id))+"?done=admin-dismissed")
}

// noRole says to somebody who is signed in and has no role at all what can be done; empty for everybody else.
func (s *server) noRole(r *http.Request) string {
	p := who(r)
	if p.kind != person || len(p.roles) > 0 {
		return ""
	}
	words := "You are signed in as " + p.name + ", and none of your groups at your identity provider gives a role here. Ask to be put into one that does, then sign out and in again: groups are read at each sign-in."
	has, err := s.store.HasAdministrator(r.Context())
	if err != nil {
		s.note(r, err)
		return words
	}
	if !has {
		words += " This installation has no administrator yet: whoever runs the server makes the first one with signalbox admin link."
	}
	return words
}
