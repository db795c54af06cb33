package e2e_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/dbtest"
)

// otherTexts are the text columns that TestBrowserXSS does not fill, and why. What only the API or a download gives out is JSON or an
// attachment, with nosniff (handlers/testdata/headers.txt): no browser takes it for a page, whatever it holds.
var otherTexts = map[string][]string{
	"a word that our own code writes": {
		"attempts.code", "audit_log.action", "audit_log.actor_kind", "audit_log.channel", "audit_log.object_type", "audit_log.result", "control_heartbeat.server", "ended_leases.reason", "feed_cursors.name", "gates.role",
		"memberships.roles", "log_chunks.stream", "notices.topic", "outbox.topic", "patches.fault", "policy_decisions.code", "policy_decisions.decision", "policy_decisions.point", "policy_decisions.verdict", "quarantine.by_loop", "repairs.code",
		"run_events.actor_kind", "run_events.from_state", "run_events.kind", "run_events.to_state", "run_leases.risk", "run_queue.risk", "runs.failure_code", "runs.gate_resume_to", "runs.isolation", "runs.reason_code", "runs.verdict",
		"sandboxes.phase", "sandboxes.tier", "steps.kind", "steps.phase", "task_events.actor_kind", "task_events.from_state", "task_events.kind", "task_events.to_state", "tasks.reason", "api_tokens.scopes", "worker_boots.phases",
		"worker_credentials.phases", "worker_enrolments.phases", "quarantine.reason", "repairs.detail"},
	"an id, a digest, a commit or a key, which is compared": {
		"artifacts.blob_key", "artifacts.sha256", "audit_log.actor_id", "decisions.digest_seen", "decisions.policy_version", "feedback.artifact_id", "gate_revisions.artifact_id", "gate_revisions.base_commit", "gate_revisions.digest",
		"gates.artifact_id", "gates.base_commit", "gates.digest", "identities.subject", "log_chunks.call_id", "operations.identity", "patches.digest", "patches.patch_id", "paused_queues.by_id", "policy_decisions.version", "policy_proposals.based_on",
		"policy_proposals.version", "pull_requests.head_sha", "pull_requests.merge_sha", "run_events.actor_id", "run_events.event_id", "run_leases.claim_id", "runs.approved_patch_id", "runs.approved_plan_digest", "runs.base_commit",
		"runs.context_digest", "runs.failure_evidence", "runs.gate_digest", "runs.lease_boot", "runs.lease_worker", "runs.plan_digest", "runs.policy_version", "runs.pr_sha", "runs.report_digest", "runs.verification_digest", "sessions.provider_sid",
		"sessions.subject", "steps.call_id", "task_events.actor_id", "tasks.contract_digest", "verifications.digest", "verifications.fingerprint", "verifications.patch_digest"},
	"shown to nobody": {
		"idempotency_keys.answer", "idempotency_keys.key", "idempotency_keys.scope", "login_codes.challenge", "login_states.nonce", "login_states.return_to", "login_states.verifier", "notices.payload", "outbox.last_error", "outbox.payload",
		"providers.client_id", "providers.client_secret", "providers.client_secret_sealed", "sessions.id_token", "sessions.id_token_sealed", "drafts.key", "task_templates.body", "task_templates.name", "policy_decisions.inputs"},
	"given out by the API and in downloads": {"attestations.statement", "patches.facts", "worker_boots.probes"},
	"read by machines, which could not serve a page with the attacks in it; pages show it by the same templates": {
		"forges.base_url", "operations.parameters", "operations.result", "policies.document", "policies.version", "policy_proposals.document", "paused_queues.queue", "provider_pauses.provider", "providers.groups_claim", "providers.issuer",
		"pull_requests.url", "repositories.forbidden", "repositories.preflight", "repositories.requires", "repositories.scope", "repositories.verification", "run_delayed.pool", "run_delayed.provider", "run_delayed.queue", "run_delayed.requires",
		"run_leases.pool", "run_leases.provider", "run_leases.queue", "run_queue.pool", "run_queue.provider", "run_queue.queue", "run_queue.requires", "runs.agent_profile", "runs.cancel_by", "runs.dispatched", "runs.limits", "runs.patch",
		"runs.pr_branch", "runs.pr_url", "runs.route", "saved_views.query", "tasks.contract", "usages.provider", "worker_boots.queues", "runs.cancel_reason"},
	"of campaigns, which no page shows yet": {
		"campaigns.name", "campaigns.pause_cause", "campaigns.launch_by", "campaign_specs.spec", "campaign_targets.owner", "campaign_targets.vars", "campaign_targets.why",
		"campaign_targets.instruction", "campaign_targets.reason", "campaign_targets.cause", "campaign_targets.sample", "campaign_events.kind", "campaign_events.actor_kind",
		"campaign_events.actor_id", "campaign_events.actor_name", "campaign_events.from_state", "campaign_events.to_state", "campaign_events.reason"},
	"written by an operator or by its only reader": {"drafts.body", "forges.name", "tenants.name"},
}

// S6: no text column is forgotten: each is filled with attacks, holds one of a few words by a constraint, or is listed with the reason.
func TestEveryTextIsAttackedOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), dbtest.New(t).OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	found, err := conn.Query(t.Context(), `SELECT c.table_name || '.' || c.column_name, EXISTS (SELECT FROM pg_constraint k
			WHERE k.conrelid = c.table_name::regclass AND k.contype = 'c' AND pg_get_constraintdef(k.oid) LIKE '%' || c.column_name || ' = ANY (ARRAY[%')
		FROM information_schema.columns c JOIN information_schema.tables USING (table_schema, table_name)
		WHERE c.table_schema = 'public' AND table_type = 'BASE TABLE' AND c.table_name NOT LIKE 'goose%' AND data_type IN ('text', 'jsonb', 'json', 'ARRAY', 'character varying') ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	var name string
	var fewWords bool
	if _, err := pgx.ForEachRow(found, []any{&name, &fewWords}, func() error { words[name] = fewWords; return nil }); err != nil {
		t.Fatal(err)
	}
	listed := slices.Clone(untrusted)
	for all := range maps.Values(otherTexts) {
		listed = append(listed, all...)
	}
	slices.Sort(listed)
	for i, column := range listed {
		if few, there := words[column]; !there || few {
			t.Errorf("%s is listed, and is no text that may hold anything", column)
		}
		if i > 0 && listed[i-1] == column {
			t.Errorf("%s is listed twice", column)
		}
	}
	for column, few := range words {
		if _, known := slices.BinarySearch(listed, column); !few && !known {
			t.Errorf("%s may hold any text: attack it (untrusted), or list it with the reason why not", column)
		}
	}
	t.Logf("S6: %d text columns, %d of them attacked, %d elsewhere", len(words), len(untrusted), len(listed)-len(untrusted))
}
