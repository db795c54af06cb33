package rig

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
)

// minted are the secrets that came to be while a product ran, by what they are.
type minted struct {
	mu  sync.Mutex
	all map[string]string
}

func (m *minted) add(what, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]string{}
	}
	name := what
	for n := 2; m.all[name] != "" && m.all[name] != value; n++ {
		name = fmt.Sprintf("%s %d", what, n)
	}
	if value != "" {
		m.all[name] = value
	}
}

// Minted are the secrets that the product was given or made: of the login provider, the server, its workers and the people
// who are signed in.
func (r *Rig) Minted() map[string]string {
	r.T.Helper()
	r.minted.add("session key", sessionKey)
	_, key, _ := strings.Cut(r.secretKeys, ":")
	r.minted.add("key for secrets", key)
	u, err := url.Parse(r.URL)
	r.must(err, "read the address")
	for name, p := range r.people {
		for _, c := range p.Browser.HTTP.Jar.Cookies(u) {
			r.minted.add("cookie "+c.Name+" of "+name, c.Value)
		}
	}
	r.minted.mu.Lock()
	defer r.minted.mu.Unlock()
	return maps.Clone(r.minted.all)
}

// Mint counts a secret that a test made.
func (r *Rig) Mint(what, value string) string {
	r.minted.add(what, value)
	return value
}

// watch notes what passes between provider, server and browsers.
func (m *minted) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"nonce", "state"} {
			m.add(name, r.URL.Query().Get(name))
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if form, err := url.ParseQuery(string(body)); err == nil {
			for _, name := range []string{"code", "code_verifier"} {
				m.add(name, form.Get(name))
			}
		}
		kept := &keeper{ResponseWriter: w}
		next.ServeHTTP(kept, r)
		var tokens map[string]any
		if json.Unmarshal(kept.body.Bytes(), &tokens) == nil {
			for _, name := range []string{"access_token", "id_token", "refresh_token"} {
				if text, ok := tokens[name].(string); ok {
					m.add(name, text)
				}
			}
		}
	})
}

type keeper struct {
	http.ResponseWriter
	body bytes.Buffer
}

func (k *keeper) Write(p []byte) (int, error) {
	k.body.Write(p)
	return k.ResponseWriter.Write(p)
}

// CommandLine signs somebody's command line in, as signalbox login does after the page was confirmed, and answers its token.
func (r *Rig) CommandLine(p *Person) string {
	r.T.Helper()
	var user uuid.UUID
	r.must(r.Owner.QueryRow(r.T.Context(), `SELECT user_id FROM identities WHERE subject = $1`, p.Subject).Scan(&user), "find "+p.Subject)
	verifier, token := r.Mint("verifier of a command line", db.NewSecret()), r.Mint("login of a command line", db.Mint(db.PrefixLogin))
	sum := sha256.Sum256([]byte(verifier))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	// The second code stays where it is: nobody takes it.
	var codes [2]string
	for i := range codes {
		codes[i] = r.Mint("code for a command line", db.NewSecret())
		r.must(r.Store.BeginCLILogin(r.T.Context(), codes[i], challenge, user, db.DefaultTenant, time.Now(), time.Minute, nil), "begin a command line's login")
	}
	_, err := r.Store.TakeCLILogin(r.T.Context(), codes[0], verifier, "laptop", token, time.Hour)
	r.must(err, "end a command line's login")
	return token
}
