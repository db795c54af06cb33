package handlers

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/sessions"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/typeid"
)

// Times of a browser session (S5).
const (
	sessionIdle     = 2 * time.Hour
	sessionAbsolute = 12 * time.Hour
)

// sessionNameLen is the length of a cookie that we made.
const sessionNameLen = 43

// valueSession is the one value of a gorilla session: the row behind the cookie.
const valueSession = "session"

// valueHash is what the database knows of the request's cookie: the hash of the session's row, or where there is none the hash
// under which a new one would lie.
const valueHash = "hash"

// valueEnded is what a gorilla session holds after it was deleted, for the logout at its provider.
const valueEnded = "ended"

// sessionStore is a gorilla Store over the database. The cookie is a random name for a row, the row knows only its
// hash, so that nobody who reads the database can use a session, and a deleted row ends it at once (S2).
type sessionStore struct {
	db *db.Store
	// keys: the first makes cookies, all of them know theirs again.
	keys   [][]byte
	cookie string
	secure bool
}

var _ sessions.Store = (*sessionStore)(nil)

func newSessionStore(store *db.Store, keys [][]byte, secure bool) *sessionStore {
	// Only a loopback address without TLS may go without the prefix and Secure (D-23).
	name := "sid"
	if secure {
		name = "__Host-sid"
	}
	return &sessionStore{db: store, keys: keys, cookie: name, secure: secure}
}

// hashUnder is what the database knows of a cookie. It is keyed, so that taking a key away signs out whoever signed in under it.
func hashUnder(key []byte, value string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(value))
	return mac.Sum(nil)
}

// Get returns the request's session, reading the row at most once per request.
func (s *sessionStore) Get(r *http.Request, name string) (*sessions.Session, error) {
	return sessions.GetRegistry(r).Get(s, name)
}

// New reads the row behind the cookie. Without a usable one the session is new and holds nothing.
func (s *sessionStore) New(r *http.Request, name string) (*sessions.Session, error) {
	session := sessions.NewSession(s, name)
	session.IsNew = true
	session.Options = &sessions.Options{Path: "/", HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode}
	c, err := r.Cookie(name)
	if err != nil || len(c.Value) != sessionNameLen {
		return session, nil
	}
	session.Values[valueHash] = hashUnder(s.keys[0], c.Value)
	for _, key := range s.keys {
		hash := hashUnder(key, c.Value)
		row, err := s.db.Session(r.Context(), hash, sessionIdle)
		switch {
		case err == nil:
			session.ID, session.IsNew = c.Value, false
			session.Values[valueSession], session.Values[valueHash] = row, hash
			return session, nil
		case fault.KindOf(err) != fault.NotFound:
			return session, err
		}
	}
	return session, nil
}

// Save writes a session that was just signed in, under a fresh name, and deletes the row that the browser had before
// in the same transaction: no name that existed before the login is worth anything after it (O12). With a negative
// MaxAge it deletes the row and the cookie.
func (s *sessionStore) Save(r *http.Request, w http.ResponseWriter, session *sessions.Session) error {
	old, _ := session.Values[valueHash].([]byte)
	if session.Options.MaxAge < 0 {
		// Behind a cookie that is nobody's login any more there is nothing to end.
		if !session.IsNew {
			ended, err := s.db.EndSession(r.Context(), old, auditOf(r, act{action: "session.end", object: "user", id: typeid.Format(typeid.User, who(r).user)}))
			if err != nil {
				return err
			}
			session.Values[valueEnded] = ended
		}
		http.SetCookie(w, sessions.NewCookie(session.Name(), "", session.Options))
		return nil
	}
	row, ok := session.Values[valueSession].(db.Session)
	if !ok || row.User == uuid.Nil {
		return errors.New("save session: nobody is signed in")
	}
	secret := db.NewSecret()
	hash := hashUnder(s.keys[0], secret)
	if err := s.db.StartSession(r.Context(), row, hash, old, sessionIdle, sessionAbsolute); err != nil {
		return err
	}
	session.ID, session.Values[valueHash] = secret, hash
	http.SetCookie(w, sessions.NewCookie(session.Name(), secret, session.Options))
	return nil
}

// current returns the session row of the request's cookie, if somebody is signed in.
func (s *server) current(r *http.Request) (db.Session, bool, error) {
	session, err := s.sessions.Get(r, s.sessions.cookie)
	if err != nil {
		return db.Session{}, false, err
	}
	row, ok := session.Values[valueSession].(db.Session)
	return row, ok, nil
}
