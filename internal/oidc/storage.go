package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"slices"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	// loginLifetime is how long a login may take from the first redirect to the exchange of its code.
	loginLifetime = 10 * time.Minute
	tokenLifetime = time.Hour
	// maxPending bounds memory; the oldest login under way is forgotten beyond it.
	maxPending = 1000
)

var errNotFound = errors.New("not found or expired")

// storage is what the op package asks for. Requests and tokens live in memory and are dropped when they run out.
type storage struct {
	client *client
	key    *key
	people []Person

	mu       sync.Mutex
	requests map[string]*request
	codes    map[string]string // code → request id
	tokens   map[string]token
}

// request is a login under way. It is replaced, never changed, so that a reader may keep it without the lock.
type request struct {
	*oidc.AuthRequest
	id       string
	subject  string
	authTime time.Time
	created  time.Time
}

type token struct {
	subject string
	scopes  []string
	expires time.Time
}

func newStorage(o Options, k *key) *storage {
	return &storage{
		client: &client{id: o.ClientID, secret: o.ClientSecret, issuer: o.Issuer, redirects: slices.Clone(o.RedirectURIs)},
		key:    k, people: slices.Clone(o.People),
		requests: map[string]*request{}, codes: map[string]string{}, tokens: map[string]token{},
	}
}

func (r *request) GetID() string                      { return r.id }
func (r *request) GetACR() string                     { return "" }
func (r *request) GetAMR() []string                   { return nil }
func (r *request) GetAudience() []string              { return []string{r.ClientID} }
func (r *request) GetAuthTime() time.Time             { return r.authTime }
func (r *request) GetClientID() string                { return r.ClientID }
func (r *request) GetNonce() string                   { return r.Nonce }
func (r *request) GetRedirectURI() string             { return r.RedirectURI }
func (r *request) GetResponseType() oidc.ResponseType { return r.ResponseType }
func (r *request) GetResponseMode() oidc.ResponseMode { return r.ResponseMode }
func (r *request) GetScopes() []string                { return r.Scopes }
func (r *request) GetState() string                   { return r.State }
func (r *request) GetSubject() string                 { return r.subject }
func (r *request) Done() bool                         { return r.subject != "" }
func (r *request) GetCodeChallenge() *oidc.CodeChallenge {
	return &oidc.CodeChallenge{Challenge: r.CodeChallenge, Method: r.CodeChallengeMethod}
}

// signIn records on the login page who the person is.
func (s *storage) signIn(id, subject string) error {
	if _, ok := s.person(subject); !ok {
		return errNotFound
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.requests[id]
	if !ok || time.Since(r.created) > loginLifetime {
		return errNotFound
	}
	signed := *r
	signed.subject, signed.authTime = subject, time.Now()
	s.requests[id] = &signed
	return nil
}

func (s *storage) person(subject string) (Person, bool) {
	i := slices.IndexFunc(s.people, func(p Person) bool { return p.Subject == subject })
	if i < 0 {
		return Person{}, false
	}
	return s.people[i], true
}

// CreateAuthRequest begins a login. A request without PKCE is refused, because the product never sends one.
func (s *storage) CreateAuthRequest(_ context.Context, req *oidc.AuthRequest, _ string) (op.AuthRequest, error) {
	if req.CodeChallenge == "" || req.CodeChallengeMethod != oidc.CodeChallengeMethodS256 {
		return nil, oidc.ErrInvalidRequest().WithDescription("code_challenge with method S256 is required")
	}
	if slices.Contains(req.Prompt, oidc.PromptNone) {
		return nil, oidc.ErrLoginRequired()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	r := &request{AuthRequest: req, id: rand.Text(), created: time.Now()}
	s.requests[r.id] = r
	return r, nil
}

// sweep drops what has run out; s.mu is held.
func (s *storage) sweep() {
	var oldest *request
	for id, r := range s.requests {
		if time.Since(r.created) > loginLifetime {
			s.forget(id)
		} else if oldest == nil || r.created.Before(oldest.created) {
			oldest = r
		}
	}
	if len(s.requests) >= maxPending {
		s.forget(oldest.id)
	}
	for id, t := range s.tokens {
		if time.Now().After(t.expires) {
			delete(s.tokens, id)
		}
	}
}

func (s *storage) forget(id string) {
	delete(s.requests, id)
	for code, of := range s.codes {
		if of == id {
			delete(s.codes, code)
		}
	}
}

func (s *storage) AuthRequestByID(_ context.Context, id string) (op.AuthRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.requests[id]
	if !ok || time.Since(r.created) > loginLifetime {
		return nil, errNotFound
	}
	return r, nil
}

func (s *storage) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	s.mu.Lock()
	id, ok := s.codes[code]
	s.mu.Unlock()
	if !ok {
		return nil, errNotFound
	}
	return s.AuthRequestByID(ctx, id)
}

func (s *storage) SaveAuthCode(_ context.Context, id, code string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[code] = id
	return nil
}

func (s *storage) DeleteAuthRequest(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(id)
	return nil
}

func (s *storage) CreateAccessToken(_ context.Context, req op.TokenRequest) (string, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := token{subject: req.GetSubject(), scopes: req.GetScopes(), expires: time.Now().Add(tokenLifetime)}
	id := rand.Text()
	s.tokens[id] = t
	return id, t.expires, nil
}

// CreateAccessAndRefreshTokens is never wanted: the client has no refresh_token grant.
func (s *storage) CreateAccessAndRefreshTokens(context.Context, op.TokenRequest, string) (string, string, time.Time, error) {
	return "", "", time.Time{}, oidc.ErrUnsupportedGrantType()
}

func (s *storage) TokenRequestByRefreshToken(context.Context, string) (op.RefreshTokenRequest, error) {
	return nil, op.ErrInvalidRefreshToken
}

func (s *storage) GetRefreshTokenInfo(context.Context, string, string) (string, string, error) {
	return "", "", op.ErrInvalidRefreshToken
}

func (s *storage) TerminateSession(_ context.Context, subject, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.tokens {
		if t.subject == subject {
			delete(s.tokens, id)
		}
	}
	return nil
}

func (s *storage) RevokeToken(_ context.Context, id, _, _ string) *oidc.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, id)
	return nil
}

func (s *storage) SigningKey(context.Context) (op.SigningKey, error) { return s.key, nil }

func (s *storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

func (s *storage) KeySet(context.Context) ([]op.Key, error) {
	return []op.Key{publicKey{s.key}}, nil
}

func (s *storage) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	if id != s.client.id {
		return nil, errNotFound
	}
	return s.client, nil
}

func (s *storage) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	if id != s.client.id || subtle.ConstantTimeCompare([]byte(secret), []byte(s.client.secret)) != 1 {
		return errNotFound
	}
	return nil
}

func (s *storage) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return nil
}

// SetUserinfoFromRequest fills the ID token.
func (s *storage) SetUserinfoFromRequest(_ context.Context, info *oidc.UserInfo, req op.IDTokenRequest, scopes []string) error {
	return s.describe(info, req.GetSubject(), scopes)
}

// SetUserinfoFromToken fills the userinfo endpoint's answer.
func (s *storage) SetUserinfoFromToken(_ context.Context, info *oidc.UserInfo, tokenID, subject, _ string) error {
	s.mu.Lock()
	t, ok := s.tokens[tokenID]
	s.mu.Unlock()
	if !ok || t.subject != subject || time.Now().After(t.expires) {
		return errNotFound
	}
	return s.describe(info, subject, t.scopes)
}

// describe follows the scopes, but for the groups: the product needs them and few people know a scope for them.
func (s *storage) describe(info *oidc.UserInfo, subject string, scopes []string) error {
	p, ok := s.person(subject)
	if !ok {
		return errNotFound
	}
	info.Subject = p.Subject
	if slices.Contains(scopes, oidc.ScopeProfile) {
		info.Name, info.PreferredUsername = p.Name, p.Subject
	}
	if slices.Contains(scopes, oidc.ScopeEmail) {
		info.Email, info.EmailVerified = p.Email, true
	}
	info.AppendClaims("groups", p.Groups)
	return nil
}

func (s *storage) SetIntrospectionFromToken(context.Context, *oidc.IntrospectionResponse, string, string, string) error {
	return errNotFound
}

func (s *storage) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return nil, nil
}

func (s *storage) GetKeyByIDAndClientID(context.Context, string, string) (*jose.JSONWebKey, error) {
	return nil, errNotFound
}

func (s *storage) ValidateJWTProfileScopes(context.Context, string, []string) ([]string, error) {
	return nil, errNotFound
}

func (s *storage) Health(context.Context) error { return nil }
