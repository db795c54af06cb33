package handlers

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// cliLogin is what the command line asks a signed-in person for.
type cliLogin struct {
	port             int
	state, challenge string
	name             string
}

// readCLILogin accepts only a port of the person's own machine and a challenge of the right form; nothing else of the
// target can be chosen by whoever made the link.
func readCLILogin(v url.Values) (cliLogin, error) {
	bad := fault.New(fault.Invalid, "Nobody was signed in: this address was not made by signalbox login. Run the command again.")
	port, err := strconv.Atoi(v.Get("port"))
	if err != nil || port < 1024 || port > 65535 {
		return cliLogin{}, bad
	}
	challenge, err := base64.RawURLEncoding.DecodeString(v.Get("challenge"))
	if err != nil || len(challenge) != 32 {
		return cliLogin{}, bad
	}
	state := v.Get("state")
	if len(state) < 16 || len(state) > 100 || strings.Trim(state, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return cliLogin{}, bad
	}
	return cliLogin{port: port, state: state, challenge: v.Get("challenge"), name: text(v.Get("name"), 100)}, nil
}

func (c cliLogin) origin() string { return "http://127.0.0.1:" + strconv.Itoa(c.port) }

// getCLILogin asks the person to confirm.
func (s *server) getCLILogin(w http.ResponseWriter, r *http.Request) error {
	c, err := readCLILogin(r.URL.Query())
	if err != nil {
		return err
	}
	// The answer to the form leads to the waiting command; browsers hold redirects after a form to this list.
	w.Header().Set("Content-Security-Policy", strings.Replace(contentPolicy, "form-action 'self'", "form-action 'self' "+c.origin(), 1))
	return s.render(w, r, http.StatusOK, web.CLILoginPage(web.CLILoginPageData{
		Shell: s.shell(r), Machine: c.name, Port: c.port, State: c.state, Challenge: c.challenge,
	}))
}

// postCLILogin gives the command line a one-time code that is worth nothing without its verifier.
func (s *server) postCLILogin(w http.ResponseWriter, r *http.Request) error {
	values, err := form(r)
	if err != nil {
		return err
	}
	c, err := readCLILogin(values)
	if err != nil {
		return err
	}
	p, code := who(r), db.NewSecret()
	if err := s.store.BeginCLILogin(r.Context(), code, c.challenge, p.user, p.tenant, p.authTime, cliCodeLife, auditOf(r, act{action: "login.command_line", object: "user", id: typeid.Format(typeid.User, p.user), reason: c.name})); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return see(w, r, c.origin()+"/callback?"+url.Values{"code": {code}, "state": {c.state}}.Encode())
}
