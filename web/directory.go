package web

import "time"

// AdminPageData is the way to everything that an administrator looks after.
type AdminPageData struct {
	Shell
	Places []AdminPlace
}

// AdminPlace is one page of it and what is there now.
type AdminPlace struct {
	Name, URL, Text string
	Count           string
}

// PeoplePageData lists who has rights here.
type PeoplePageData struct {
	Shell
	Query string
	Rows  []PersonRow
	Pager Pager
}

// PersonRow is one person.
type PersonRow struct {
	ID, Name, Email string
	Roles           []string
	Provider        string
	Groups          []string
	SignedIn        time.Time
	Disabled        bool
}

// PersonPageData says what one person may do, why, and what not.
type PersonPageData struct {
	Shell
	Person PersonRow
	Rights []Right
	Gates  []PersonGate
	// More says that more gates are open than are listed.
	More bool
	// DismissKey is the key of the form that takes back what a link gave; empty where none did.
	DismissKey string
}

// Right is a role, whether the person holds it, where it comes from or who could give it, and what it is good for.
type Right struct {
	Role string
	Held bool
	From string
	Lets string
}

// PersonGate is an open gate as this person stands before it.
type PersonGate struct {
	ID, Title, Kind, Role string
	MayApprove, MayReject bool
	// Told is the sentence that they would read where approving is refused.
	Told string
}

// ProvidersPageData lists where people sign in, and which groups give which roles here.
type ProvidersPageData struct {
	Shell
	Tenant string
	Rows   []ProviderMapping
}

// ProviderMapping is one provider.
type ProviderMapping struct {
	Name, Issuer, GroupsClaim string
	Dev                       bool
	Groups                    []GroupRoles
}

// GroupRoles are the roles that a group gives.
type GroupRoles struct {
	Group string
	Roles []string
}

// AllTokensPageData lists the tokens of everybody.
type AllTokensPageData struct {
	Shell
	Rows  []TokenRow
	Pager Pager
}

// CredentialsPageData lists workers' credentials and the tokens by which workers get them, and makes such a token.
type CredentialsPageData struct {
	Shell
	Enrolments     []EnrolmentRow
	Rows           []CredentialRow
	Pager          Pager
	Created        *CreatedToken // only in the answer to the creating post; served no-store
	Name           string
	Phases         []Option
	Errors         map[string]string
	IdempotencyKey string
	Server         string
}

// EnrolmentRow is one enrolment token without its secret.
type EnrolmentRow struct {
	ID, Name, By                    string
	Phases                          []string
	Created, Expires, Used, Revoked time.Time
	Worker                          string
	RevokeKey                       string
}

// CredentialRow is one worker's credential without its secret.
type CredentialRow struct {
	ID, Name                   string
	Phases                     []string
	Created, LastUsed, Revoked time.Time
	RevokeKey                  string
}

// RoleLets says what a role is good for.
func RoleLets(role string) string {
	switch role {
	case "viewer":
		return "Sees tasks, runs, gates, repositories and workers."
	case "requester":
		return "Submits tasks, starts runs again, cancels and resumes them."
	case "approver":
		return "Decides gates that ask for this role, and merges pull requests of the built-in forge; approves nothing that they asked for or had a part in."
	case "admin":
		return "Registers repositories, pauses queues, drains workers, gives workers their credentials and sees these pages; asks for work as a requester does. Approves nothing by this role."
	case "breakglass":
		return "Is the right to bypass a gate in an emergency. Approves nothing by this role."
	}
	return ""
}
