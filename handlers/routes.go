package handlers

import (
	"fmt"
	"net/http"
	"strings"

	"signalbox/internal/policy"
	"signalbox/internal/wire"
)

// handler parses, makes one call, and renders.
type handler func(http.ResponseWriter, *http.Request) error

// access says who may call a route. The zero value is nobody and does not start.
type access struct {
	anyone bool
	kinds  []kind
	// roles of which a person needs one, also a person behind a token; none where every member may.
	roles []policy.Role
	// scope that an API token needs; without one tokens are refused.
	scope wire.Scope
}

// words describes the rule on the reference page.
func (a access) words() string {
	if a.anyone {
		return "No token needed."
	}
	words := "For " + kindList(a.kinds)
	if a.scope != "" {
		words = strings.Replace(words, kindWords(token), fmt.Sprintf("%s with the scope %s", kindWords(token), a.scope), 1)
	}
	var roles []string
	for _, r := range a.roles {
		roles = append(roles, string(r))
	}
	if len(roles) > 0 {
		words += "; a person needs the role " + strings.Join(roles, " or ")
	}
	return words + "."
}

// route is one method on one path.
type route struct {
	method, pattern string
	// operation is the contract's operation; method and pattern come from there.
	operation string
	access    access
	handler   handler
	// limit of the body in bytes.
	limit int64
	// effort says how its requests are counted; the zero value is an ordinary one.
	effort effort
}

// complete fills what follows from the contract and refuses what is not declared.
func (rt *route) complete(s *server) error {
	if rt.operation != "" {
		op, ok := s.doc.Operation(rt.operation)
		if !ok {
			return fmt.Errorf("route %s: the contract has no such operation", rt.operation)
		}
		rt.method, rt.pattern = op.Method, apiPrefix+"/v1"+op.Path
		if rt.limit == 0 {
			rt.limit = maxJSON
		}
		if open := op.Security != nil && len(*op.Security) == 0; open != rt.access.anyone {
			return fmt.Errorf("route %s: contract and access rule differ about needing a token", rt.operation)
		}
	}
	if rt.limit == 0 {
		rt.limit = maxForm
	}
	if !rt.access.anyone && len(rt.access.kinds) == 0 {
		return fmt.Errorf("route %s %s does not say who may call it", rt.method, rt.pattern)
	}
	if rt.handler == nil {
		return fmt.Errorf("route %s %s has no handler", rt.method, rt.pattern)
	}
	return nil
}

// routes is every address of the product, in the order in which a person meets it.
func (s *server) routes() []route {
	const get, post = http.MethodGet, http.MethodPost
	var (
		anyone    = access{anyone: true}
		member    = access{kinds: []kind{person}}
		requester = access{kinds: []kind{person}, roles: []policy.Role{policy.RoleRequester, policy.RoleAdmin}}
		decider   = access{kinds: []kind{person}}
		admin     = access{kinds: []kind{person}, roles: []policy.Role{policy.RoleAdmin}}

		reads    = access{kinds: []kind{person, token}, scope: wire.ScopeRead}
		evidence = access{kinds: []kind{person, token, worker}, scope: wire.ScopeRead}
		asks     = access{kinds: []kind{person, token}, scope: wire.ScopeTasks, roles: []policy.Role{policy.RoleRequester, policy.RoleAdmin}}
		// A preview tells names and costs, as reading does, to those who may ask for work.
		foresees  = access{kinds: []kind{person, token}, scope: wire.ScopeRead, roles: []policy.Role{policy.RoleRequester, policy.RoleAdmin}}
		registers = access{kinds: []kind{person, token}, scope: wire.ScopeRepositories, roles: []policy.Role{policy.RoleAdmin}}
		workers   = access{kinds: []kind{worker}}
		anyToken  = access{kinds: []kind{person, token, worker}, scope: wire.ScopeRead}
	)
	page := func(method, pattern string, a access, h handler) route {
		return route{method: method, pattern: pattern, access: a, handler: h}
	}
	op := func(operation string, a access, h handler) route {
		return route{operation: operation, access: a, handler: h}
	}
	return []route{
		// Coming in.
		page(get, "/", anyone, s.getHome),
		page(get, "/login", anyone, s.getLogin),
		entrance.of(page(get, "/login/confirm", anyone, s.getLoginConfirm)),
		entrance.of(page(get, "/login/{provider}", anyone, s.getLoginProvider)),
		entrance.of(page(get, "/auth/oidc/{provider}/callback", anyone, s.getLoginCallback)),
		page(get, "/become-admin", anyone, s.getBecomeAdmin),
		entrance.of(page(get, "/become-admin/{link}", anyone, s.getAdminLink)),
		entrance.of(page(post, "/become-admin", anyone, s.postBecomeAdmin)),
		{method: post, pattern: "/auth/oidc/{provider}/backchannel-logout", access: anyone, handler: s.postBackChannelLogout, limit: maxLogoutToken, effort: entrance},
		page(post, "/logout", anyone, s.postLogout),
		page(post, "/preferences", anyone, s.postPreferences),
		page(post, "/hints/dismiss", member, s.postHintDismiss),
		page(post, "/vitals", member, s.postVitals),
		page(get, "/cli-login", member, s.getCLILogin),
		page(post, "/cli-login", member, s.postCLILogin),
		page(get, "/docs/api", anyone, s.getAPIReference),
		page(get, "/help/keys", anyone, s.getKeys),
		page(get, "/help/states", anyone, s.getStates),
		page(get, "/dev/gallery", anyone, s.getGallery),
		page(get, specURL, anyone, s.getOpenAPI),
		page(get, "/healthz", anyone, s.getHealth),
		page(get, "/readyz", anyone, s.getReady),

		// My turn, and what is decided there.
		page(get, "/inbox", member, s.getInbox),
		page(get, "/inbox/stream", member, s.streamInbox),
		page(post, "/inbox/turns", decider, s.postTurns),
		page(get, "/gates/{id}", member, s.getGate),
		page(get, "/gates/{id}/stream", member, s.streamGate),
		page(get, "/gates/{id}/files/{n}", member, s.getGateFile),
		page(get, "/f/gates/{id}/files/{n}", member, s.getGateFileFragment),
		page(get, "/f/gates/{id}/files/{n}/lines", member, s.getGateLines),
		page(get, "/gates/{id}/quick", member, s.getQuick),
		page(get, "/f/gates/{id}/quick", member, s.getQuickFragment),
		page(post, "/gates/{id}/files/{n}/viewed", member, s.postViewed),
		page(post, "/gates/{id}/decisions", decider, s.postDecision),
		page(get, "/gates/{id}/bypass", member, s.getBypass),
		page(post, "/gates/{id}/bypass", access{kinds: []kind{person}, roles: []policy.Role{policy.RoleBreakglass}}, s.postBypass),
		page(post, "/gates/{id}/bypass/review", access{kinds: []kind{person}, roles: []policy.Role{policy.RoleApprover, policy.RoleAdmin}}, s.postBypassReview),
		page(post, "/gates/{id}/notes", decider, s.postNotes),
		page(post, "/gates/{id}/reopen", decider, s.postReopen),
		page(post, "/gates/{id}/withdraw", decider, s.postWithdraw),
		page(post, "/gates/{id}/turn", decider, s.postTurn),
		page(post, "/drafts/{key}", member, s.postDraft),
		page(post, "/drafts/{key}/discard", member, s.postDraftDiscard),

		// Tasks.
		page(get, "/tasks", member, s.getTasks),
		page(get, "/tasks/new", requester, s.getNewTask),
		page(post, "/tasks/preview", requester, s.postTaskPreview),
		page(post, "/tasks", requester, s.postTask),
		page(get, "/tasks/{id}", member, s.getTask),
		page(post, "/tasks/{id}/runs", requester, s.postTaskRun),
		page(post, "/tasks/{id}/cancel", requester, s.postTaskCancel),
		page(post, "/tasks/{id}/close", requester, s.postTaskClose),

		// Runs.
		page(get, "/runs", member, s.getRuns),
		page(post, "/views", member, s.postView),
		page(post, "/views/delete", member, s.postViewDelete),
		page(get, "/runs/cancel", requester, s.getRunsCancel),
		page(post, "/runs/cancel", requester, s.postRunsCancel),
		page(get, "/runs/{id}", member, s.getRun),
		page(get, "/runs/{id}/stream", member, s.streamRun),
		page(get, "/runs/{id}/cancel", requester, s.getRunCancel),
		page(post, "/runs/{id}/cancel", requester, s.postRunCancel),
		page(get, "/runs/{id}/stop", requester, s.getRunStop),
		page(post, "/runs/{id}/stop", requester, s.postRunStop),
		page(post, "/runs/{id}/resume", requester, s.postRunResume),
		page(get, "/runs/{id}/logs", member, s.getLogs),
		page(get, "/runs/{id}/logs/{lease}", member, s.getLog),
		page(get, "/runs/{id}/logs/{lease}/raw", member, s.getLogRaw),
		page(get, "/runs/{id}/logs/{lease}/stream", member, s.streamLog),
		page(get, "/runs/{id}/steps/{step}", member, s.getLog),
		page(get, "/runs/{id}/steps/{step}/raw", member, s.getLogRaw),
		page(get, "/runs/{id}/steps/{step}/stream", member, s.streamLog),
		page(get, "/runs/{id}/patch", member, s.getRunPatch),
		costly.of(page(get, "/runs/{id}/export", member, s.getRunExport)),
		costly.of(page(get, "/runs/{id}/diagnostics", member, s.getRunDiagnostics)),
		page(get, "/artifacts/{id}", member, s.getArtifact),

		// The built-in forge, and what an administrator looks after.
		page(get, "/pulls/{id}", member, s.getPull),
		page(get, "/f/pulls/{id}/files/{n}/lines", member, s.getPullLines),
		page(post, "/pulls/{id}/merge", access{kinds: []kind{person}, roles: []policy.Role{policy.RoleApprover}}, s.postMerge),
		page(post, "/pulls/{id}/close", access{kinds: []kind{person}, roles: []policy.Role{policy.RoleRequester, policy.RoleApprover, policy.RoleAdmin}}, s.postPullClose),
		page(get, "/repositories", member, s.getRepositories),
		page(post, "/repositories", admin, s.postRepository),
		page(post, "/repositories/{id}/check", admin, s.postRepositoryCheck),
		page(get, "/policies", member, s.getPolicies),
		page(get, "/policies/new", admin, s.getPolicyNew),
		page(get, "/policies/diff", member, s.getPolicyDiff),
		page(get, "/policies/versions/{version}", member, s.getPolicy),
		{method: post, pattern: "/policies", access: admin, handler: s.postPolicy, limit: maxPolicyForm},
		{method: post, pattern: "/policies/check", access: admin, handler: s.postPolicyCheck, limit: maxPolicyForm},
		{method: post, pattern: "/policies/simulate", access: admin, handler: s.postPolicySimulate, limit: maxPolicyForm, effort: costly},
		page(post, "/policies/versions/{version}/confirm", admin, s.postPolicyConfirm),
		page(post, "/policies/versions/{version}/withdraw", admin, s.postPolicyWithdraw),
		page(get, "/workers", member, s.getWorkers),
		page(post, "/workers/queues/pause", admin, s.postQueuePause),
		page(post, "/workers/queues/resume", admin, s.postQueueResume),
		page(post, "/workers/providers/resume", admin, s.postProviderResume),
		page(post, "/workers/{id}/drain", admin, s.postWorkerDrain),
		page(get, "/sessions", member, s.getSessions),
		page(post, "/sessions/others/end", member, s.postSessionsEnd),
		page(post, "/sessions/{id}/end", member, s.postSessionEnd),
		page(post, "/sessions/people/{id}/end", admin, s.postPersonEnd),
		page(get, "/tokens", member, s.getTokens),
		page(post, "/tokens", member, s.postToken),
		page(post, "/tokens/{id}/revoke", member, s.postTokenRevoke),
		page(get, "/admin", admin, s.getAdmin),
		page(get, "/admin/people", admin, s.getPeople),
		page(get, "/admin/people/{id}", admin, s.getPerson),
		page(post, "/admin/people/{id}/dismiss", admin, s.postDismiss),
		page(get, "/admin/providers", admin, s.getAdminProviders),
		page(get, "/admin/tokens", admin, s.getAdminTokens),
		page(post, "/admin/tokens/{id}/revoke", admin, s.postAdminTokenRevoke),
		page(get, "/admin/budgets", admin, s.getAdminBudgets),
		page(get, "/admin/retention", admin, s.getAdminRetention),
		page(get, "/admin/workers", admin, s.getCredentials),
		page(post, "/admin/workers", admin, s.postEnrolment),
		page(post, "/admin/enrolments/{id}/revoke", admin, s.postEnrolmentRevoke),
		page(post, "/admin/credentials/{id}/revoke", admin, s.postCredentialRevoke),
		page(get, "/audit", admin, s.getAudit),
		costly.of(page(post, "/audit/export", admin, s.postAuditExport)),
		page(get, "/audit/{number}", admin, s.getAuditRow),

		// The JSON API.
		op("getPrincipal", anyToken, s.apiPrincipal),
		entrance.of(op("exchangeLogin", anyone, s.apiExchangeLogin)),
		op("logout", member, s.apiLogout),
		op("listTokens", member, s.apiTokens),
		op("createToken", member, s.apiCreateToken),
		op("revokeToken", member, s.apiRevokeToken),
		op("listWorkerCredentials", admin, s.apiWorkerCredentials),
		op("createWorkerCredential", admin, s.apiCreateWorkerCredential),
		op("revokeWorkerCredential", admin, s.apiRevokeWorkerCredential),
		op("listWorkerEnrolments", admin, s.apiEnrolments),
		op("createWorkerEnrolment", admin, s.apiCreateEnrolment),
		op("revokeWorkerEnrolment", admin, s.apiRevokeEnrolment),
		op("enrolWorker", anyone, s.apiEnrolWorker),

		op("listForges", reads, s.apiForges),
		op("listRepositories", reads, s.apiRepositories),
		op("createRepository", registers, s.apiCreateRepository),
		op("getRepository", reads, s.apiRepository),

		op("listTasks", reads, s.apiTasks),
		op("createTask", asks, s.apiCreateTask),
		op("previewTask", foresees, s.apiPreviewTask),
		op("getTask", reads, s.apiTask),
		op("submitTask", asks, s.apiSubmitTask),
		op("cancelTask", asks, s.apiCancelTask),
		op("runTask", asks, s.apiRunTask),
		op("closeTask", asks, s.apiCloseTask),

		op("listRuns", reads, s.apiRuns),
		op("getRun", evidence, s.apiRun),
		op("listRunEvents", reads, s.apiRunEvents),
		op("getRunCost", reads, s.apiRunCost),
		op("getTenantCost", reads, s.apiTenantCost),
		op("listRunSteps", reads, s.apiRunSteps),
		op("readRunLogs", reads, s.apiRunLogs),
		op("listRunArtifacts", evidence, s.apiRunArtifacts),
		op("getArtifact", evidence, s.apiArtifact),
		op("getArtifactContent", evidence, s.apiArtifactContent),
		op("getRunPatch", reads, s.apiRunPatch),
		op("cancelRun", asks, s.apiCancelRun),
		op("resumeRun", asks, s.apiResumeRun),

		op("listGates", reads, s.apiGates),
		op("getGate", reads, s.apiGate),
		op("decideGate", decider, s.apiDecideGate),
		op("reopenGate", decider, s.apiReopenGate),
		op("withdrawGate", decider, s.apiWithdrawGate),
		op("getGateTurn", reads, s.apiGateTurn),
		op("takeGateTurn", decider, s.apiTakeGateTurn),

		op("listAudit", admin, s.apiAudit),
		op("getAuditRow", admin, s.apiAuditRow),
		op("listPolicies", reads, s.apiPolicies),
		op("getPolicy", reads, s.apiPolicy),
		op("changePolicy", admin, s.apiChangePolicy),
		op("confirmPolicy", admin, s.apiConfirmPolicy),
		op("withdrawPolicy", admin, s.apiWithdrawPolicy),
		op("simulatePolicy", admin, s.apiSimulatePolicy),

		op("listQueues", reads, s.apiQueues),
		op("pauseQueue", admin, s.apiPauseQueue),
		op("resumeQueue", admin, s.apiResumeQueue),
		op("listProviders", reads, s.apiProviders),
		op("resumeProvider", admin, s.apiResumeProvider),
		op("listWorkers", reads, s.apiWorkers),
		op("adviseWorkers", reads, s.apiAdvice),
		op("drainWorker", admin, s.apiDrainWorker),
		op("registerWorker", workers, s.apiRegisterWorker),
		op("heartbeat", workers, s.apiHeartbeat),
		op("claim", workers, s.apiClaim),
		op("deregisterWorker", workers, s.apiDeregisterWorker),
		op("postRunCommand", workers, s.apiRunCommand),
		op("postRunSteps", workers, s.apiPostSteps),
		{operation: "postRunLogs", access: workers, handler: s.apiPostLogs, limit: 2 << 20},
		op("postRunUsage", workers, s.apiPostUsage),
		{operation: "uploadRunArtifact", access: workers, handler: s.apiUploadArtifact, limit: maxArtifact},

		op("listLocalPulls", anyToken, s.apiLocalPulls),
		op("ensureLocalPull", workers, s.apiEnsureLocalPull),
		op("getLocalPull", anyToken, s.apiLocalPull),
		op("mergeLocalPull", access{kinds: []kind{person}, roles: []policy.Role{policy.RoleApprover}}, s.apiMergeLocalPull),
	}
}

// Route describes one address for the reference and for the test that holds every route to its declaration.
type Route struct {
	Method, Pattern, Operation string
	// Access says in words who may call it; Anyone that nobody needs to be known.
	Access string
	Anyone bool
	// Kinds of principal that may call it, roles of which a person needs one, and the scope that a token needs.
	Kinds, Roles []string
	Scope        string
}

// Routes lists every address of the product in the order of routes.go.
func (h *Handler) Routes() []Route {
	var all []Route
	for _, rt := range h.s.routes() {
		if err := rt.complete(h.s); err != nil {
			continue // New has refused it already
		}
		shown := Route{Method: rt.method, Pattern: rt.pattern, Operation: rt.operation, Access: rt.access.words(), Anyone: rt.access.anyone, Scope: string(rt.access.scope)}
		for _, k := range rt.access.kinds {
			shown.Kinds = append(shown.Kinds, k.String())
		}
		for _, role := range rt.access.roles {
			shown.Roles = append(shown.Roles, string(role))
		}
		all = append(all, shown)
	}
	return all
}
