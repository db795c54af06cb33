package oidc

import (
	"net/url"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// client is the one client of the provider: the product itself.
type client struct {
	id, secret string
	issuer     string
	redirects  []string
}

func (c *client) GetID() string                       { return c.id }
func (c *client) RedirectURIs() []string              { return c.redirects }
func (c *client) PostLogoutRedirectURIs() []string    { return logoutURIs(c.redirects) }
func (c *client) ApplicationType() op.ApplicationType { return op.ApplicationTypeWeb }
func (c *client) AuthMethod() oidc.AuthMethod         { return oidc.AuthMethodBasic }
func (c *client) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}
func (c *client) GrantTypes() []oidc.GrantType        { return []oidc.GrantType{oidc.GrantTypeCode} }
func (c *client) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeBearer }
func (c *client) IDTokenLifetime() time.Duration      { return tokenLifetime }
func (c *client) ClockSkew() time.Duration            { return 0 }
func (c *client) IsScopeAllowed(scope string) bool    { return scope == "groups" }

// DevMode allows the loopback http addresses that this provider exists for.
func (c *client) DevMode() bool { return true }

// IDTokenUserinfoClaimsAssertion puts name, mail and groups into the ID token itself.
func (c *client) IDTokenUserinfoClaimsAssertion() bool { return true }

func (c *client) LoginURL(id string) string {
	return c.issuer + "/login?" + url.Values{"id": {id}}.Encode()
}

func (c *client) RestrictAdditionalIdTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}

func (c *client) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}
