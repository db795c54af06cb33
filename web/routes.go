package web

import (
	"net/url"
	"strconv"
	"strings"
)

// Routes of the pages. Links and form actions come only from these functions.
//
//	GET  /                        redirects to /inbox
//	GET  /inbox                   InboxPage
//	GET  /login                   LoginPage          ?return_to=PATH
//	GET  /login/{provider}        starts the OpenID Connect login ?return_to=PATH
//	POST /logout
//	POST /preferences             theme=system|light|dark or keys=on|off, return_to=PATH
//	POST /hints/dismiss           hint=repository|worker|task|gate, return_to=PATH
//	GET  /tasks                   TasksPage          ?q= &state= &repository= &mine=1 &before= | &after=
//	GET  /tasks/new               NewTaskPage        ?from=TASK
//	POST /tasks                   repository, goal, title, mode, risk, base_ref, scope, exclude, plan_gate=on, auto_pr=on, idempotency_key
//	POST /tasks/preview           the members of POST /tasks; the same form with TaskPreviewPart anew, or that part alone
//	GET  /tasks/{id}              TaskPage
//	POST /tasks/{id}/runs         idempotency_key    "Run again"
//	POST /tasks/{id}/cancel       reason, idempotency_key
//	GET  /runs                    RunsPage           ?q= &state= &repository= &before= | &after=
//	POST /views                   list=runs|tasks, name, query (the filters of the list's address)
//	POST /views/delete            list, name
//	GET  /runs/cancel             BulkCancelPage     ?run=RUN, repeated | ?all=1 with the filters of the list
//	POST /runs/cancel             run, repeated, reason, count (above 50), idempotency_key
//	GET  /runs/{id}               RunPage            ?from=SEQ (window that begins there) | ?at=SEQ (window around it) &level=summary|detailed|raw
//	                                                 &show=failed|human|policy|cost
//	GET  /runs/{id}/stream        server-sent events ?after=SEQ (RunLive fragments) &rows=none &level=
//	GET  /runs/{id}/cancel        CancelPage
//	POST /runs/{id}/cancel        reason, pull=close (with its branch), queued=1 (only while nobody works on it), idempotency_key
//	GET  /runs/{id}/stop          StopPage           a run that is being cancelled and does not stop
//	POST /runs/{id}/stop          reason, idempotency_key
//	GET  /runs/{id}/logs          LogsPage: what was printed, by attempts
//	GET  /runs/{id}/logs/{lease}  LogPage: what a phase printed ?at=N | N-M (around these lines) | ?from=N (from there on) | ?all=1
//	                              &q= (search) &hit=K (hits from the K-th on) &t=utc|local &wrap=1
//	GET  /runs/{id}/logs/{lease}/stream  server-sent events ?after=LINES (LogLive fragments) &t=
//	GET  /runs/{id}/logs/{lease}/raw     the whole log, as a download
//	GET  /runs/{id}/steps/{step}  LogPage: what one step printed, with the same members, and the same two below it
//	GET  /runs/{id}/patch         the newest stored patch, as a download; ?revision=N
//	GET  /runs/{id}/export        the run's evidence as JSON, as a download
//	GET  /runs/{id}/diagnostics   events, versions, steps and tails of logs as JSON, without secrets, as a download
//	GET  /artifacts/{id}          an artifact, always as a download
//	GET  /gates/{id}              GatePage           ?view=split &w=1 (white space left out) &since=N (compared with revision N)
//	                              &q= &ext= &status= (files of the patch)
//	GET  /gates/{id}/files/{n}    GateFilePage       one file of the patch; ?view= &w=
//	GET  /f/gates/{id}/files/{n}  the same file as a fragment
//	POST /gates/{id}/files/{n}/viewed  digest, viewed=yes|no; ?view= &w=; FileTicked
//	GET  /gates/{id}/stream       server-sent events ?revision=N (GateLive fragment)
//	POST /gates/{id}/decisions    gate_id, revision, digest, idempotency_key, verdict=approve|request_changes|reject, text,
//	                              resolution=retry|adopt and adopt_url (reconcile gates only)
//	POST /gates/{id}/reopen       idempotency_key    "Ask again"
//	POST /gates/{id}/withdraw     idempotency_key
//	POST /drafts/{key}            text; what is written and not sent yet, kept by app.js
//	POST /drafts/{key}/discard
//	GET  /pulls/{id}              PullPage           pull request of the local forge; ?view=split &w=1 &lines= &q= &ext= &status=
//	GET  /f/pulls/{id}/files/{n}/lines  lines around its changes, as a fragment
//	POST /pulls/{id}/merge        head, idempotency_key
//	POST /pulls/{id}/close        branch=delete, idempotency_key
//	GET  /repositories            RepositoriesPage
//	POST /repositories            name, forge, remote, default_branch, verify (one command a line), idempotency_key
//	POST /repositories/{id}/check idempotency_key
//	GET  /policies                PoliciesPage
//	GET  /policies/new            PolicyEditorPage
//	GET  /policies/diff           PolicyPage: from, to
//	GET  /policies/versions/{v}   PolicyPage
//	POST /policies                document, reason, idempotency_key
//	POST /policies/check          document, reason; htmx: PolicyChecked
//	POST /policies/simulate       document, reason
//	POST /policies/versions/{v}/confirm, /withdraw  idempotency_key
//	GET  /workers                 WorkersPage
//	POST /workers/queues/pause    queue, reason, idempotency_key
//	POST /workers/queues/resume   queue, idempotency_key
//	POST /workers/providers/resume provider, idempotency_key
//	POST /workers/{id}/drain      idempotency_key
//	GET  /sessions                SessionsPage
//	POST /sessions/others/end     idempotency_key
//	POST /sessions/{id}/end       idempotency_key
//	POST /sessions/people/{id}/end idempotency_key
//	GET  /tokens                  TokensPage
//	POST /tokens                  name, scopes (repeated), days, idempotency_key
//	POST /tokens/{id}/revoke      idempotency_key
//	GET  /admin                   AdminPage
//	GET  /admin/people            PeoplePage         ?q= &before=
//	GET  /admin/people/{id}       PersonPage
//	POST /admin/people/{id}/dismiss      idempotency_key
//	GET  /become-admin/{link}     leads to /become-admin and keeps the link in a cookie
//	GET  /become-admin            BecomeAdminPage
//	POST /become-admin            idempotency_key
//	GET  /admin/providers         ProvidersPage
//	GET  /admin/tokens            AllTokensPage      ?before=
//	POST /admin/tokens/{id}/revoke       idempotency_key
//	GET  /admin/budgets           BudgetsPage
//	GET  /admin/retention         RetentionPage
//	GET  /admin/workers           CredentialsPage    ?before=
//	POST /admin/workers           name, phases (repeated), idempotency_key
//	POST /admin/enrolments/{id}/revoke   idempotency_key
//	POST /admin/credentials/{id}/revoke  idempotency_key
//	GET  /audit                   AuditPage          ?who= &action= &object= &result= &since= &until= &zone= &before=NUMBER
//	GET  /audit/{number}          AuditRowPage       ?zone=
//	POST /audit/export            format=csv|jsonl and the filters of the list
//	GET  /docs/api                APIReferencePage
//	GET  /help/keys               KeysPage
//	GET  /help/states             StatesPage
//	GET  /dev/gallery             GalleryPage, in dev mode only
const (
	HomeURL         = "/"
	InboxURL        = "/inbox"
	InboxTurnsURL   = "/inbox/turns"
	LoginURL        = "/login"
	LogoutURL       = "/logout"
	PreferencesURL  = "/preferences"
	KeysURL         = "/help/keys"
	StatesURL       = "/help/states"
	TasksURL        = "/tasks"
	NewTaskURL      = "/tasks/new"
	TaskPreviewURL  = "/tasks/preview"
	RunsURL         = "/runs"
	HintDismissURL  = "/hints/dismiss"
	ViewsURL        = "/views"
	ViewDeleteURL   = "/views/delete"
	RepositoriesURL = "/repositories"
	WorkersURL      = "/workers"
	SessionsURL     = "/sessions"
	TokensURL       = "/tokens"
	AdminURL        = "/admin"
	AuditURL        = "/audit"
	AuditExportURL  = "/audit/export"
	APIReferenceURL = "/docs/api"
	GalleryURL      = "/dev/gallery"
)

func sub(base, id string, rest ...string) string {
	u := base + "/" + url.PathEscape(id)
	for _, part := range rest {
		u += "/" + url.PathEscape(part)
	}
	return u
}

// Pages of an administrator.
const (
	PeopleURL         = AdminURL + "/people"
	AdminProvidersURL = AdminURL + "/providers"
	AdminTokensURL    = AdminURL + "/tokens"
	CredentialsURL    = AdminURL + "/workers"
	BudgetsURL        = AdminURL + "/budgets"
	RetentionURL      = AdminURL + "/retention"
)

// BecomeAdminURL is where a one-time link leads to; AdminLinkURL is the link's address.
const BecomeAdminURL = "/become-admin"

// AdminLinkURL is the address of a one-time link that makes an administrator.
func AdminLinkURL(secret string) string { return sub(BecomeAdminURL, secret) }

// PersonDismissURL takes the POST that takes back what a link gave.
func PersonDismissURL(id string) string { return sub(PeopleURL, id, "dismiss") }

// RepositoryCheckURL takes the POST that looks again whether a repository can be worked on.
func RepositoryCheckURL(id string) string { return sub(RepositoriesURL, id, "check") }

// PersonURL explains one person's rights.
func PersonURL(id string) string { return sub(PeopleURL, id) }

// AdminTokenRevokeURL takes the POST that revokes anybody's token.
func AdminTokenRevokeURL(id string) string { return sub(AdminTokensURL, id, "revoke") }

// EnrolmentRevokeURL takes the POST that withdraws an enrolment token.
func EnrolmentRevokeURL(id string) string { return sub(AdminURL+"/enrolments", id, "revoke") }

// CredentialRevokeURL takes the POST that revokes a worker's credential.
func CredentialRevokeURL(id string) string { return sub(AdminURL+"/credentials", id, "revoke") }

// TaskURL is the page of a task.
func TaskURL(id string) string { return sub("/tasks", id) }

// TaskRunsURL takes the POST that starts another run of a task.
func TaskRunsURL(id string) string { return sub("/tasks", id, "runs") }

// TaskCancelURL takes the POST that cancels a task.
func TaskCancelURL(id string) string { return sub("/tasks", id, "cancel") }

// TaskFromURL is the new-task form filled from an earlier task.
func TaskFromURL(id string) string { return NewTaskURL + "?from=" + url.QueryEscape(id) }

// RunURL is the page of a run.
func RunURL(id string) string { return sub("/runs", id) }

// RunEventURL is the permalink of one event: the server renders the window around it and the browser marks it.
func RunEventURL(id string, seq int64) string {
	n := strconv.FormatInt(seq, 10)
	return RunURL(id) + "?at=" + n + "#e" + n
}

// RunWindowURL is the run page with the timeline from an event on, at a level and with what is shown, each empty for the
// usual one.
func RunWindowURL(id string, from int64, level, show string) string {
	u := RunURL(id) + "?from=" + strconv.FormatInt(from, 10)
	if level != "" && level != LevelSummary {
		u += "&level=" + url.QueryEscape(level)
	}
	if show != "" {
		u += "&show=" + url.QueryEscape(show)
	}
	return u + "#timeline"
}

// RunStreamURL is the event stream of a run page that was rendered with events up to after. A page that does not show the
// newest rows asks for none: its state stays live, and nothing is appended behind a gap.
func RunStreamURL(id string, after int64, rows bool, level string) string {
	u := sub("/runs", id, "stream") + "?after=" + strconv.FormatInt(after, 10)
	if !rows {
		u += "&rows=none"
	} else if level == LevelRaw {
		u += "&level=" + LevelRaw
	}
	return u
}

// RunsCancelURL is the confirmation page for several runs, and takes its POST.
const RunsCancelURL = "/runs/cancel"

// RunCancelURL is the confirmation page, and takes its POST.
func RunCancelURL(id string) string { return sub("/runs", id, "cancel") }

// RunStopURL is the page that asks before a run is ended without its worker, and takes its POST.
func RunStopURL(id string) string { return sub("/runs", id, "stop") }

// RunExportURL downloads a run's evidence as one document.
func RunExportURL(id string) string { return sub("/runs", id, "export") }

// RunDiagnosticsURL downloads what is needed to look into a run elsewhere.
func RunDiagnosticsURL(id string) string { return sub("/runs", id, "diagnostics") }

// RunResumeURL takes the POST that looks at a run that stands still and lets it go on.
func RunResumeURL(id string) string { return sub("/runs", id, "resume") }

// RunPatchURL downloads a run's stored patch.
func RunPatchURL(id string) string { return sub("/runs", id, "patch") }

// StepURL is the page of one step's log.
func StepURL(run, step string) string { return sub("/runs", run, "steps", step) }

// LogsURL lists a run's logs.
func LogsURL(run string) string { return sub("/runs", run, "logs") }

// LogURL is the page of what a phase printed, under a lease.
func LogURL(run, lease string) string { return sub("/runs", run, "logs", lease) }

// ArtifactURL downloads an artifact.
func ArtifactURL(id string) string { return sub("/artifacts", id) }

// GateURL is the page of a gate.
func GateURL(id string) string { return sub("/gates", id) }

// InboxStreamURL is the event stream of a page of My turn that shows these gates.
func InboxStreamURL(gates []string) string {
	return InboxURL + "/stream?rows=" + strings.Join(gates, ".")
}

// GateStreamURL is the event stream of a gate page that shows a revision.
func GateStreamURL(id string, revision int) string {
	return sub("/gates", id, "stream") + "?revision=" + strconv.Itoa(revision)
}

// GateDecisionsURL takes the POST of a decision.
func GateDecisionsURL(id string) string { return sub("/gates", id, "decisions") }

// GateQuickURL shows all of a gate's plan or patch with Approve at its end.
func GateQuickURL(id string) string { return sub("/gates", id, "quick") }

// GateQuickFragmentURL is the same for a row of "My turn".
func GateQuickFragmentURL(id string) string { return "/f" + sub("/gates", id, "quick") }

// GateReopenURL takes the POST of "Ask again".
func GateReopenURL(id string) string { return sub("/gates", id, "reopen") }

// GateTurnURL takes the POST that puts a gate off, claims it or passes it on.
func GateTurnURL(id string) string { return sub("/gates", id, "turn") }

// GateWithdrawURL takes the POST that withdraws an approval nobody has acted on.
func GateWithdrawURL(id string) string { return sub("/gates", id, "withdraw") }

// PullURL is the page of a local pull request.
func PullURL(id string) string { return sub("/pulls", id) }

// PullCloseURL takes the POST that closes a pull request without merging it.
func PullCloseURL(id string) string { return sub("/pulls", id, "close") }

// PullMergeURL takes the POST that merges a local pull request.
func PullMergeURL(id string) string { return sub("/pulls", id, "merge") }

// TokenRevokeURL takes the POST that revokes a token.
func TokenRevokeURL(id string) string { return sub("/tokens", id, "revoke") }

// LoginProviderURL starts the login with a provider and comes back to a path of this server.
func LoginProviderURL(provider, returnTo string) string {
	u := sub("/login", provider)
	if returnTo != "" {
		u += "?return_to=" + url.QueryEscape(returnTo)
	}
	return u
}

// ExternalURL returns an address only if it is plain http or https, else "": pages then show it as text, not as a link.
func ExternalURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil {
		return ""
	}
	return u.String()
}

// StateHelpURL is what the page about states says of one of them.
func StateHelpURL(state string) string { return StatesURL + "#state-" + url.PathEscape(state) }
