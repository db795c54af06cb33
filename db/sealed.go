package db

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"signalbox/internal/fault"
	"signalbox/internal/secret"
)

// Where a sealed value lies: it opens there and nowhere else, so that nobody who can write to the database sends it elsewhere:
// neither moved to another row, nor in its own one with another issuer.
func clientSecretPlace(provider uuid.UUID, issuer string) string {
	return "providers.client_secret/" + provider.String() + "/" + issuer
}
func idTokenPlace(hash []byte) string { return "sessions.id_token/" + hex.EncodeToString(hash) }

// clientSecret opens a provider's client secret; plain is what an older server left, and newer than what is sealed beside it: whoever
// seals empties it.
func (s *Store) clientSecret(provider uuid.UUID, issuer, plain, sealed string) (secret.Value, error) {
	if plain != "" {
		return secret.New(plain), nil
	}
	v, err := s.keys.Open(clientSecretPlace(provider, issuer), sealed)
	if err != nil {
		return secret.Value{}, fault.Wrap(fault.Unavailable, err, "Nobody can sign in with this provider now: its client secret does not open. An administrator finds the reason in the server's log.").WithCode("secret_key_missing")
	}
	return v, nil
}

// attemptRing is a ring whose one key only the browser of this login can make: the database holds neither half.
func attemptRing(state, browser string) (secret.Ring, error) {
	mac := hmac.New(sha256.New, []byte(browser))
	mac.Write([]byte("login attempt\n" + state))
	return secret.ParseRing("attempt:" + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

func sealAttempt(state, browser, what, text string) (string, error) {
	ring, err := attemptRing(state, browser)
	if err != nil {
		return "", err
	}
	return ring.Seal("login_states."+what, secret.New(text))
}

// openAttempt reads what sealAttempt stored; an attempt that an older server began is not known.
func openAttempt(state, browser, what, sealed string) (string, error) {
	ring, err := attemptRing(state, browser)
	if err != nil {
		return "", err
	}
	v, err := ring.Open("login_states."+what, sealed)
	if err != nil {
		return "", fault.Wrap(fault.NotFound, err, "This login attempt is not known.")
	}
	return v.Reveal(), nil
}

// Reseal seals what an older server left open and what lies under an older key, and answers how many values it sealed. Without
// a key it forgets the ID tokens that were left open and seals nothing. A value whose key is missing stays as it is and is told
// in the error, after all others.
func (s *Store) Reseal(ctx context.Context) (int, error) {
	newest := s.keys.Newest()
	if newest == "" {
		n, err := s.q.DropPlainIDTokens(ctx, s.pool)
		if err != nil {
			return 0, fmt.Errorf("drop ID tokens: %w", err)
		}
		return int(n), nil
	}
	secrets, err := s.resealClientSecrets(ctx, newest)
	tokens, err2 := s.resealIDTokens(ctx, newest)
	return secrets + tokens, errors.Join(err, err2)
}

// resealed opens and seals one value for its place; plain, where there is one, is newer.
func (s *Store) resealed(place, plain, sealed string) (string, error) {
	v := secret.New(plain)
	if plain == "" {
		var err error
		if v, err = s.keys.Open(place, sealed); err != nil {
			return "", fmt.Errorf("%s: %w", place, err)
		}
	}
	return s.keys.Seal(place, v)
}

func (s *Store) resealClientSecrets(ctx context.Context, newest string) (sealed int, err error) {
	rows, err := s.q.ListStaleClientSecrets(ctx, s.pool, newest)
	if err != nil {
		return 0, fmt.Errorf("list client secrets: %w", err)
	}
	var failed error
	for _, r := range rows {
		text, err := s.resealed(clientSecretPlace(r.ID, r.Issuer), r.ClientSecret, r.ClientSecretSealed)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		n, err := s.q.ResealClientSecret(ctx, s.pool, text, r.ID, r.ClientSecret, r.ClientSecretSealed)
		if err != nil {
			return sealed, fmt.Errorf("seal client secret: %w", err)
		}
		sealed += int(n)
	}
	return sealed, failed
}

func (s *Store) resealIDTokens(ctx context.Context, newest string) (sealed int, err error) {
	var failed error
	for after := []byte{}; ; {
		rows, err := s.q.ListStaleIDTokens(ctx, s.pool, newest, after)
		if err != nil {
			return sealed, fmt.Errorf("list ID tokens: %w", err)
		}
		if len(rows) == 0 {
			return sealed, failed
		}
		for _, r := range rows {
			after = r.IDHash
			text, err := s.resealed(idTokenPlace(r.IDHash), r.IDToken, r.IDTokenSealed)
			if err != nil {
				failed = err // one is told, there may be thousands
				continue
			}
			n, err := s.q.ResealIDToken(ctx, s.pool, text, r.IDHash, r.IDToken, r.IDTokenSealed)
			if err != nil {
				return sealed, fmt.Errorf("seal ID token: %w", err)
			}
			sealed += int(n)
		}
	}
}

// SecretKey is how many stored values one key opens; without a name those that lie open.
type SecretKey struct {
	Name    string
	Secrets int
}

// SecretKeys counts the stored values by the key that they lie under.
func (s *Store) SecretKeys(ctx context.Context) ([]SecretKey, error) {
	rows, err := s.q.CountSecretsByKey(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("count secrets: %w", err)
	}
	var all []SecretKey
	for _, r := range rows {
		all = append(all, SecretKey{r.Key, int(r.Secrets)})
	}
	return all, nil
}
