package web

import "time"

// RepositoriesPageData lists registered repositories and holds the form to add one.
type RepositoriesPageData struct {
	Shell
	Rows           []RepositoryRow
	MayAdd         bool
	WhyNot         string
	Forges         []Option
	Form           RepositoryForm
	Errors         map[string]string
	IdempotencyKey string
}

// RepositoryForm is what was typed.
type RepositoryForm struct {
	Name          string
	Remote        string
	DefaultBranch string
	Verify        string // one command a line
}

// RepositoryRow is one registered repository.
type RepositoryRow struct {
	ID            string
	Name          string
	Forge         string
	Remote        string
	DefaultBranch string
	Verify        []string
	Tasks         int
	LastRunID     string
	LastRunState  string
	LastRunAt     time.Time
	Added         time.Time
	// Findings are what was found at Checked; the zero time: nobody looked yet. CheckKey is empty for who may not look again.
	Findings []FindingRow
	Checked  time.Time
	CheckKey string
}

// TokensPageData lists API tokens and creates one; the secret is shown once.
type TokensPageData struct {
	Shell
	Rows           []TokenRow
	Created        *CreatedToken // only in the answer to the creating post; served no-store
	Scopes         []Option
	Name           string
	Days           int
	MaxDays        int
	Errors         map[string]string
	IdempotencyKey string
}

// CreatedToken is a secret that is shown now and never again.
type CreatedToken struct {
	Name    string
	Secret  string
	Expires time.Time
}

// TokenRow is one token without its secret.
type TokenRow struct {
	ID        string
	Name      string
	Owner     string
	Prefix    string
	Scopes    []string
	Created   time.Time
	Expires   time.Time
	LastUsed  time.Time
	Revoked   time.Time
	RevokeKey string // idempotency key of its revoke form
}

// APIReferencePageData is the readable form of the OpenAPI document.
type APIReferencePageData struct {
	Shell
	Title   string
	Version string
	Intro   string
	Groups  []APIGroup
	Schemas []APISchema
	SpecURL string
}

// APIGroup is the operations of one tag.
type APIGroup struct {
	Name       string
	Text       string
	Operations []APIOperation
}

// APIOperation is one method on one path.
type APIOperation struct {
	ID         string
	Method     string
	Path       string
	Summary    string
	Text       string
	Auth       string
	Parameters []APIField
	Body       string // name of the schema; empty where it has none
	Raw        bool   // the body is bytes without a schema
	BodyFields []APIField
	Responses  []APIResponse
}

// APIField is a parameter or property.
type APIField struct {
	Name     string
	In       string // path, query, header, body
	Type     string
	Required bool
	Text     string
}

// APIResponse is one possible answer.
type APIResponse struct {
	Status string
	Text   string
	Schema string
}

// APISchema is a named object.
type APISchema struct {
	Name   string
	Text   string
	Fields []APIField
}
