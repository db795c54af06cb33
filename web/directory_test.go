package web_test

import (
	"time"

	"signalbox/web"
)

func samplePeople() web.PeoplePageData {
	return web.PeoplePageData{Shell: shell(), Rows: []web.PersonRow{
		{ID: "user_1", Name: "Ana Approver", Email: "ana@example.test", Roles: []string{"approver", "viewer"}, Provider: "staff", Groups: []string{"approvers", "everyone"}, SignedIn: ago(time.Hour)},
		{ID: "user_2", Name: "Old Hand", Roles: []string{"admin"}, SignedIn: ago(900 * time.Hour), Disabled: true},
	}, Pager: web.Pager{Shown: 2, Older: "/admin/people?before=x", Tally: web.Tally{Matching: 64, All: 64, Most: 1000}}}
}

func samplePerson() web.PersonPageData {
	return web.PersonPageData{
		Shell: shell(), Person: samplePeople().Rows[0], More: true,
		Rights: []web.Right{
			{Role: "viewer", Held: true, From: "Group everyone at staff", Lets: web.RoleLets("viewer")},
			{Role: "requester", From: "Would come from group requesters at staff", Lets: web.RoleLets("requester")},
			{Role: "approver", Held: true, From: "The last sign-in; none of its groups gives this role any longer, so it ends with the next one", Lets: web.RoleLets("approver")},
		},
		Gates: []web.PersonGate{
			{ID: "gate_1", Title: "Replace the YAML library", Kind: "patch", Role: "approver", MayApprove: true, MayReject: true},
			{ID: "gate_2", Title: "Add a health check", Kind: "plan", Role: "approver", MayReject: true, Told: "Nothing was approved: you asked for this change, so another person must approve it."},
		},
	}
}

func sampleProviders() web.ProvidersPageData {
	return web.ProvidersPageData{Shell: shell(), Tenant: "default", Rows: []web.ProviderMapping{
		{Name: "staff", Issuer: "https://id.example.test", GroupsClaim: "groups", Groups: []web.GroupRoles{{Group: "approvers", Roles: []string{"approver"}}, {Group: "platform", Roles: []string{"admin", "requester"}}}},
		{Name: "dev", Issuer: "http://127.0.0.1:9", GroupsClaim: "groups", Dev: true},
	}}
}

func sampleAllTokens() web.AllTokensPageData {
	return web.AllTokensPageData{Shell: shell(), Rows: sampleTokens().Rows, Pager: web.Pager{Shown: 2, Tally: web.Tally{Matching: 2, All: 2, Most: 1000}}}
}

func sampleCredentials() web.CredentialsPageData {
	return web.CredentialsPageData{
		Shell: shell(), IdempotencyKey: "K1", Server: "https://signalbox.example.test",
		Phases:  []web.Option{{Value: "execute", Label: "execute", Selected: true}, {Value: "verify", Label: "verify"}},
		Created: &web.CreatedToken{Name: "build-3", Secret: "sbe_EXAMPLEexampleEXAMPLEexample", Expires: now.Add(24 * time.Hour)},
		Enrolments: []web.EnrolmentRow{
			{ID: "enr_1", Name: "build-3", By: "Adam Admin", Phases: []string{"execute"}, Created: ago(time.Second), Expires: now.Add(24 * time.Hour), RevokeKey: "K2"},
			{ID: "enr_2", Name: "build-2", By: "Adam Admin", Phases: []string{"verify"}, Created: ago(30 * time.Hour), Expires: ago(6 * time.Hour), Used: ago(29 * time.Hour), Worker: "wrk_2"},
			{ID: "enr_3", Name: "build-1", By: "Adam Admin", Phases: []string{"verify"}, Created: ago(50 * time.Hour), Expires: ago(26 * time.Hour), Revoked: ago(49 * time.Hour)},
			{ID: "enr_4", Name: "build-0", By: "Adam Admin", Phases: []string{"verify"}, Created: ago(80 * time.Hour), Expires: ago(56 * time.Hour)},
		},
		Rows: []web.CredentialRow{
			{ID: "wrk_2", Name: "build-2", Phases: []string{"verify"}, Created: ago(29 * time.Hour), LastUsed: ago(time.Minute), RevokeKey: "K3"},
			{ID: "wrk_1", Name: "old", Phases: []string{"execute", "publish"}, Created: ago(900 * time.Hour), Revoked: ago(700 * time.Hour)},
		},
		Pager: web.Pager{Shown: 2, Tally: web.Tally{Matching: 2, All: 2, Most: 1000}},
	}
}

func sampleAdmin() web.AdminPageData {
	d := web.AdminPageData{Shell: shell(), Places: []web.AdminPlace{{Name: "People", URL: web.PeopleURL, Count: "64", Text: "See what each may do."}, {Name: "Repositories", URL: web.RepositoriesURL, Text: "Register repositories."}}}
	d.Admin = true
	return d
}
