-- What one or many transitions write. Each statement takes an array of rows in JSON; a flush sends those statements
-- that have rows in one round trip, as one transaction, the guarded update of runs first. What belongs to a run is
-- joined with its row as this very transaction wrote it (xmin), so that nothing is written for a run whose version had
-- moved. A caller sees the loser by its absence from the first answer. Never put a run twice into one flush: the second
-- update would be lost silently. No savepoint may surround a flush: rows written inside one carry its xid and not the
-- transaction's.
--
-- Postgres takes every array in JSON for a hundred rows, while most flushes have one, and would rather read the whole index of a
-- table of some hundred rows than look a hundred rows up. So each statement says how its rows are found: what is read is a
-- LATERAL subquery with OFFSET 0, which cannot be joined in another way than row by row, and what is changed or deleted is
-- named by = ANY(ARRAY(...)), a list of keys that is made first. The guarded updates join their two arrays on two columns, which
-- Postgres takes for one row, so that it looks up row after row, and locks in the order of the array.
-- TestWritesTouchTheirRowsAlone counts the pages.

-- name: WriteRuns :exec
-- Answers the runs that were written. Limits that are null stay as they are: they are most of a row and seldom change.
WITH u AS (
    UPDATE runs SET
        state = x.state, version = x.version, policy_version = x.policy_version, limits = coalesce(x.limits, runs.limits), attempt_no = x.attempt_no,
        attempt_id = x.attempt_id, released = x.released, crashed = x.crashed, rate_limited = x.rate_limited, repairs = x.repairs, verify_redeliveries = x.verify_redeliveries,
        publish_redeliveries = x.publish_redeliveries, base_moves = x.base_moves, fencing_token = x.fencing_token, lease_id = x.lease_id,
        lease_phase = x.lease_phase, lease_worker = x.lease_worker, lease_boot = x.lease_boot, queued = x.queued, gate_id = x.gate_id,
        gate_kind = x.gate_kind, gate_revision = x.gate_revision, gate_digest = x.gate_digest, gate_resume_to = x.gate_resume_to,
        gate_expired = x.gate_expired, dispatched = x.dispatched, context_digest = x.context_digest, plan_digest = x.plan_digest,
        approved_plan_digest = x.approved_plan_digest, plan_revision = x.plan_revision, outcome = x.outcome, patch = x.patch,
        patch_revision = x.patch_revision, report_digest = x.report_digest, verification_digest = x.verification_digest,
        approved_patch_id = x.approved_patch_id, verdict = x.verdict, attested = x.attested, pr_url = x.pr_url, pr_sha = x.pr_sha,
        pr_branch = x.pr_branch, pr_number = x.pr_number, failure_category = x.failure_category, failure_code = x.failure_code,
        failure_retryable = x.failure_retryable, failure_summary = x.failure_summary, failure_evidence = x.failure_evidence, cancel_by = x.cancel_by,
        cancel_reason = x.cancel_reason, cancel_at = x.cancel_at, cancel_forced = x.cancel_forced, reason_code = x.reason_code,
        finished_at = x.finished_at, head_hash = x.head_hash, updated_at = x.updated_at, state_since = x.state_since, active_ms = x.active_ms,
        base_commit = x.base_commit, branch = x.branch, isolation = x.isolation,
        -- A signal may have been raised since the run was read, without an event; it stays as long as the lease that it is for.
        stop_signal = CASE WHEN x.lease_id = runs.lease_id THEN runs.stop_signal ELSE x.stop_signal END,
        stop_signal_at = CASE WHEN x.lease_id = runs.lease_id THEN runs.stop_signal_at ELSE x.stop_signal_at END,
        agent_profile = x.agent_profile, adapter_version = x.adapter_version, route = x.route, cost_exceeded_at = coalesce(runs.cost_exceeded_at, x.cost_exceeded_at)
    FROM json_populate_recordset(NULL::runs, @runs::json) x
    JOIN json_to_recordset(@befores::json) AS b(id uuid, tenant_id uuid, version bigint) ON b.id = x.id AND b.tenant_id = x.tenant_id
    WHERE runs.id = x.id AND runs.tenant_id = x.tenant_id AND runs.version = b.version
    RETURNING runs.id
), ev AS (
    INSERT INTO run_events (tenant_id, run_id, seq, schema, event_id, kind, actor_kind, actor_id, actor_name, from_state, to_state,
        attempt_no, at, body, payload, hash)
    SELECT e.tenant_id, e.run_id, e.seq, e.schema, e.event_id, e.kind, e.actor_kind, e.actor_id, e.actor_name, e.from_state, e.to_state,
        e.attempt_no, e.at, e.body, e.payload, e.hash
    FROM json_populate_recordset(NULL::run_events, @events::json) e JOIN u ON u.id = e.run_id
    ORDER BY e.run_id, e.seq
), idem AS (
    INSERT INTO idempotency_keys (tenant_id, scope, key, request_hash, status, answer)
    SELECT k.tenant_id, k.scope, k.key, k.request_hash, k.status, k.answer
    FROM json_to_recordset(@keys::json) AS k(run_id uuid, tenant_id uuid, scope text, key text, request_hash bytea, status int, answer jsonb)
    JOIN u ON u.id = k.run_id
)
SELECT u.id FROM u;

-- name: WriteDequeued :exec
-- A row that a claimer holds is left to it: the reducer will refuse the claim.
DELETE FROM run_queue WHERE run_id = ANY(ARRAY(
    SELECT r.run_id FROM json_to_recordset(@dequeued::json) AS d(run_id uuid)
    CROSS JOIN LATERAL (SELECT q.run_id FROM run_queue q JOIN runs u ON u.id = q.run_id AND u.xmin = pg_current_xact_id()::xid
        WHERE q.run_id = d.run_id FOR UPDATE OF q SKIP LOCKED) r));

-- name: WriteUndelayed :exec
DELETE FROM run_delayed WHERE run_id = ANY(ARRAY(
    SELECT u.id FROM json_to_recordset(@dequeued::json) AS d(run_id uuid)
    CROSS JOIN LATERAL (SELECT u.id FROM runs u WHERE u.id = d.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u));

-- name: WriteReady :exec
INSERT INTO run_queue (run_id, tenant_id, phase, repository_id, user_id, queue, risk, provider, pool, priority, requires, rank, visible_at)
SELECT u.id, u.tenant_id, q.phase, u.repository_id, u.requested_by, q.queue, u.risk, q.provider, q.pool, q.priority, q.requires, q.rank, q.visible_at
FROM json_populate_recordset(NULL::run_queue, @queued::json) q
CROSS JOIN LATERAL (SELECT u.id, u.tenant_id, u.repository_id, u.risk, t.requested_by FROM runs u JOIN tasks t ON t.id = u.task_id
    WHERE u.id = q.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u
ORDER BY u.id
-- A row that was left to a claimer may still be there: it serves, and the claim sets its phase right.
ON CONFLICT (run_id) DO NOTHING;

-- name: WriteDelayed :exec
INSERT INTO run_delayed (run_id, tenant_id, phase, available_at, queue, provider, pool, priority, requires)
SELECT u.id, u.tenant_id, d.phase, d.available_at, d.queue, d.provider, d.pool, d.priority, d.requires
FROM json_populate_recordset(NULL::run_delayed, @delayed::json) d
CROSS JOIN LATERAL (SELECT u.id, u.tenant_id FROM runs u WHERE u.id = d.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u
ORDER BY u.id;

-- name: WriteEndedLeases :exec
WITH ended AS (
    DELETE FROM run_leases USING json_to_recordset(@ended_leases::json) AS l(run_id uuid, lease_id uuid)
    WHERE run_leases.run_id = ANY(ARRAY(SELECT u.id FROM json_to_recordset(@ended_leases::json) AS w(run_id uuid)
        CROSS JOIN LATERAL (SELECT u.id FROM runs u WHERE u.id = w.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u))
    AND run_leases.run_id = l.run_id AND run_leases.lease_id = l.lease_id
    RETURNING run_leases.lease_id, run_leases.tenant_id, run_leases.run_id, run_leases.fencing_token, run_leases.phase, run_leases.worker_id,
        run_leases.boot_id, run_leases.attempt_id, run_leases.acquired_at, run_leases.cancel_told_at, run_leases.stopping_at
), unfinished AS (
    -- A lease that ended leaves no step running.
    UPDATE steps SET state = 'CANCELLED', finished_at = clock_timestamp()
    WHERE steps.lease_id = ANY(ARRAY(SELECT ended.lease_id FROM ended)) AND steps.state IN ('PENDING', 'RUNNING')
)
INSERT INTO ended_leases (lease_id, tenant_id, run_id, fencing_token, phase, worker_id, boot_id, attempt_id, acquired_at, cancel_told_at, stopping_at, state, reason, ended_at)
SELECT ended.lease_id, ended.tenant_id, ended.run_id, ended.fencing_token, ended.phase, ended.worker_id, ended.boot_id, ended.attempt_id,
    ended.acquired_at, ended.cancel_told_at, ended.stopping_at, l.state, l.reason, l.ended_at
FROM ended JOIN json_populate_recordset(NULL::ended_leases, @ended_leases::json) l ON l.lease_id = ended.lease_id;

-- name: WriteLeases :exec
INSERT INTO run_leases (run_id, lease_id, tenant_id, fencing_token, phase, worker_id, boot_id, attempt_id, repository_id, user_id,
    claim_id, expires_at, queue, risk, provider, pool)
SELECT u.id, l.lease_id, u.tenant_id, l.fencing_token, l.phase, l.worker_id, l.boot_id, l.attempt_id, u.repository_id, l.user_id,
    l.claim_id, l.expires_at, l.queue, u.risk, l.provider, l.pool
FROM json_populate_recordset(NULL::run_leases, @leases::json) l
CROSS JOIN LATERAL (SELECT u.id, u.tenant_id, u.repository_id, u.risk FROM runs u WHERE u.id = l.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u;

-- name: WriteSandboxes :exec
INSERT INTO sandboxes (lease_id, tenant_id, run_id, phase, tier, state)
SELECT s.lease_id, u.tenant_id, u.id, s.phase, s.tier, s.state
FROM json_populate_recordset(NULL::sandboxes, @sandboxes::json) s
CROSS JOIN LATERAL (SELECT u.id, u.tenant_id FROM runs u WHERE u.id = s.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u
ON CONFLICT (lease_id) DO UPDATE SET state = excluded.state, updated_at = clock_timestamp(),
    tier = CASE WHEN excluded.tier = '' THEN sandboxes.tier ELSE excluded.tier END;

-- name: WriteAttempts :exec
INSERT INTO attempts (id, tenant_id, run_id, attempt_no, state, worker_id, run_active_ms, started_at)
SELECT a.id, u.tenant_id, u.id, a.attempt_no, a.state, a.worker_id, a.run_active_ms, a.started_at
FROM json_populate_recordset(NULL::attempts, @attempts::json) a
CROSS JOIN LATERAL (SELECT u.id, u.tenant_id FROM runs u WHERE u.id = a.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u;

-- name: WriteEndedAttempts :exec
UPDATE attempts SET state = a.state, code = a.code, ended_at = a.ended_at
FROM json_populate_recordset(NULL::attempts, @ended_attempts::json) a
WHERE attempts.id = ANY(ARRAY(SELECT w.id FROM json_to_recordset(@ended_attempts::json) AS w(id uuid, run_id uuid)
    CROSS JOIN LATERAL (SELECT u.id FROM runs u WHERE u.id = w.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u))
AND attempts.id = a.id AND attempts.state = 'STARTED';

-- name: WriteGates :exec
INSERT INTO gates (id, tenant_id, run_id, task_id, kind, state, revision, digest, artifact_id, base_commit, quorum, role, policy_version,
    reasons, opened_at, expires_at)
SELECT g.id, u.tenant_id, u.id, u.task_id, g.kind, g.state, g.revision, g.digest, g.artifact_id, g.base_commit, g.quorum, g.role,
    g.policy_version, g.reasons, g.opened_at, g.expires_at
FROM json_populate_recordset(NULL::gates, @gates::json) g
CROSS JOIN LATERAL (SELECT u.id, u.tenant_id, u.task_id FROM runs u WHERE u.id = g.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u;

-- name: WriteMovedGates :exec
UPDATE gates SET state = g.state, closed_at = g.closed_at, escalated_at = coalesce(g.escalated_at, gates.escalated_at),
    revision = coalesce(g.revision, gates.revision), expires_at = coalesce(g.expires_at, gates.expires_at)
FROM json_populate_recordset(NULL::gates, @moved_gates::json) g
WHERE gates.id = ANY(ARRAY(SELECT w.id FROM json_to_recordset(@moved_gates::json) AS w(id uuid, run_id uuid)
    CROSS JOIN LATERAL (SELECT u.id FROM runs u WHERE u.id = w.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u))
AND gates.id = g.id;

-- name: WriteGateRevisions :exec
INSERT INTO gate_revisions (tenant_id, gate_id, revision, digest, artifact_id, base_commit, opened_at, expires_at)
-- A gate that is asked again shows what it showed.
SELECT r.tenant_id, r.gate_id, r.revision, r.digest, coalesce(nullif(r.artifact_id, ''), g.artifact_id, ''),
    coalesce(nullif(r.base_commit, ''), g.base_commit, ''), r.opened_at, r.expires_at
FROM json_populate_recordset(NULL::gate_revisions, @gate_revisions::json) r
CROSS JOIN LATERAL (SELECT g.artifact_id, g.base_commit FROM gates g JOIN runs u ON u.id = g.run_id AND u.xmin = pg_current_xact_id()::xid
    WHERE g.id = r.gate_id OFFSET 0) g;

-- name: WriteFeedback :exec
INSERT INTO feedback (tenant_id, run_id, seq, source, text, artifact_id, author, gate_id, revision)
SELECT u.tenant_id, u.id, f.seq, f.source, f.text, f.artifact_id, f.author, f.gate_id, f.revision
FROM json_populate_recordset(NULL::feedback, @feedback::json) f
CROSS JOIN LATERAL (SELECT u.id, u.tenant_id FROM runs u WHERE u.id = f.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u;

-- name: WriteAttestations :exec
INSERT INTO attestations (id, tenant_id, run_id, state, expires_at)
SELECT a.id, u.tenant_id, u.id, a.state, a.expires_at
FROM json_populate_recordset(NULL::attestations, @attestations::json) a
CROSS JOIN LATERAL (SELECT u.id, u.tenant_id FROM runs u WHERE u.id = a.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u;

-- name: WriteMovedAttestations :exec
UPDATE attestations SET state = a.state, statement = coalesce(a.statement, attestations.statement)
FROM json_populate_recordset(NULL::attestations, @moved_attestations::json) a
WHERE attestations.run_id = ANY(ARRAY(SELECT u.id FROM json_to_recordset(@moved_attestations::json) AS w(run_id uuid)
    CROSS JOIN LATERAL (SELECT u.id FROM runs u WHERE u.id = w.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u))
AND attestations.run_id = a.run_id AND attestations.state = 'requested';

-- name: WritePolicyDecisions :exec
INSERT INTO policy_decisions (tenant_id, run_id, task_id, point, version, verdict, reasons, inputs, code, decision)
SELECT u.tenant_id, u.id, u.task_id, p.point, p.version, p.verdict, p.reasons, p.inputs, p.code, p.decision
FROM json_populate_recordset(NULL::policy_decisions, @policy_decisions::json) p
CROSS JOIN LATERAL (SELECT u.id, u.tenant_id, u.task_id FROM runs u WHERE u.id = p.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u;

-- name: WritePauses :exec
-- A provider asked to slow down: nobody's work with it is given out before the time. Those who fail at once make the
-- pause no shorter, and no longer than the longest of them; who tries first is decided anew when it is over.
INSERT INTO provider_pauses (provider, until, failures, reason, since, run_id)
SELECT DISTINCT ON (p.provider) p.provider, p.until, p.failures, p.reason, clock_timestamp(), u.id
FROM json_to_recordset(@pauses::json) AS p(run_id uuid, provider text, until timestamptz, failures int, reason text)
CROSS JOIN LATERAL (SELECT u.id FROM runs u WHERE u.id = p.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u
ORDER BY p.provider, p.until DESC
ON CONFLICT (provider) DO UPDATE SET until = greatest(provider_pauses.until, excluded.until),
    failures = greatest(provider_pauses.failures, excluded.failures), reason = excluded.reason, run_id = excluded.run_id, probe = NULL;

-- name: WriteProbes :exec
-- The run that tries a provider first after its pause.
UPDATE provider_pauses SET probe = u.id
FROM json_to_recordset(@probes::json) AS p(run_id uuid, provider text)
CROSS JOIN LATERAL (SELECT u.id FROM runs u WHERE u.id = p.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u
WHERE provider_pauses.provider = p.provider;

-- name: WriteProbed :exec
-- The run that tried first got through: the pause is over for everybody.
DELETE FROM provider_pauses WHERE probe = ANY(ARRAY(
    SELECT u.id FROM json_to_recordset(@probed::json) AS p(run_id uuid)
    CROSS JOIN LATERAL (SELECT u.id FROM runs u WHERE u.id = p.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u));

-- name: WriteOutbox :exec
-- What may have happened outside is named from the operations themselves; where none is unresolved there is nothing to look up.
INSERT INTO outbox (tenant_id, run_id, seq, topic, payload)
SELECT u.tenant_id, u.id, o.seq, o.topic, CASE WHEN o.topic <> 'reconcile_effects' THEN o.payload
    ELSE o.payload || jsonb_build_object('operations', p.unresolved) END
FROM json_populate_recordset(NULL::outbox, @outbox::json) o
CROSS JOIN LATERAL (SELECT u.id, u.tenant_id FROM runs u WHERE u.id = o.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u
CROSS JOIN LATERAL (SELECT jsonb_agg(p.identity ORDER BY p.intended_at) AS unresolved FROM operations p
    WHERE o.topic = 'reconcile_effects' AND p.tenant_id = u.tenant_id AND p.run_id = u.id AND p.state IN ('dispatched', 'ambiguous')) p
WHERE o.topic <> 'reconcile_effects' OR p.unresolved IS NOT NULL
ORDER BY u.id, o.seq;

-- name: WriteTasks :exec
-- What the end of a run, or its wait for a person, means for its task: guarded by the task's version. A task that somebody moved
-- meanwhile fails the whole transaction (division by zero), because a run may not end without its task hearing of it.
WITH moved AS (
    UPDATE tasks SET state = x.state, version = x.version, runs_used = x.runs_used, active_run_id = x.active_run_id,
        cancel_requested = x.cancel_requested, awaits_merge = x.awaits_merge, auto_run = x.auto_run, reason = x.reason,
        reason_words = x.reason_words, updated_at = clock_timestamp()
    FROM json_populate_recordset(NULL::tasks, @tasks::json) x
    JOIN json_to_recordset(@befores::json) AS b(id uuid, tenant_id uuid, version bigint, run_id uuid) ON b.id = x.id AND b.tenant_id = x.tenant_id
    CROSS JOIN LATERAL (SELECT u.id FROM runs u WHERE u.id = b.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u
    WHERE tasks.id = x.id AND tasks.tenant_id = x.tenant_id AND tasks.version = b.version
    RETURNING tasks.id
), told AS (
    INSERT INTO task_events (tenant_id, task_id, seq, kind, actor_kind, actor_id, actor_name, from_state, to_state, reason, run_id)
    SELECT e.tenant_id, e.task_id, e.seq, e.kind, e.actor_kind, e.actor_id, e.actor_name, e.from_state, e.to_state, e.reason, e.run_id
    FROM json_populate_recordset(NULL::task_events, @task_events::json) e JOIN moved ON moved.id = e.task_id
    ORDER BY e.task_id, e.seq
)
SELECT 1 / (CASE WHEN (SELECT count(*) FROM moved) = (SELECT count(*) FROM json_to_recordset(@befores::json) AS w(run_id uuid)
    CROSS JOIN LATERAL (SELECT u.id FROM runs u WHERE u.id = w.run_id AND u.xmin = pg_current_xact_id()::xid OFFSET 0) u) THEN 1 ELSE 0 END);

-- name: InsertRun :exec
INSERT INTO runs (
    id, tenant_id, task_id, repository_id, campaign_id, mode, risk, state, version, policy_version, limits, attempt_no, attempt_id, released,
    repairs, verify_redeliveries, publish_redeliveries, base_moves, fencing_token, lease_id, lease_phase, lease_worker, lease_boot, queued, gate_id,
    gate_kind, gate_revision, gate_digest, gate_resume_to, gate_expired, dispatched, context_digest, plan_digest, approved_plan_digest,
    plan_revision, outcome, patch, patch_revision, report_digest, verification_digest, approved_patch_id, verdict, attested, pr_url, pr_sha,
    pr_branch, pr_number, failure_category, failure_code, failure_retryable, failure_summary, failure_evidence, cancel_by, cancel_reason, cancel_at,
    cancel_forced, reason_code, created_at, finished_at, head_hash, updated_at, state_since, active_ms, base_commit, branch, isolation, stop_signal,
    stop_signal_at, agent_profile, adapter_version, route, crashed, rate_limited)
SELECT
    x.id, x.tenant_id, x.task_id, x.repository_id, x.campaign_id, x.mode, x.risk, x.state, x.version, x.policy_version, x.limits, x.attempt_no,
    x.attempt_id, x.released, x.repairs, x.verify_redeliveries, x.publish_redeliveries, x.base_moves, x.fencing_token, x.lease_id, x.lease_phase,
    x.lease_worker, x.lease_boot, x.queued, x.gate_id, x.gate_kind, x.gate_revision, x.gate_digest, x.gate_resume_to, x.gate_expired, x.dispatched,
    x.context_digest, x.plan_digest, x.approved_plan_digest, x.plan_revision, x.outcome, x.patch, x.patch_revision, x.report_digest,
    x.verification_digest, x.approved_patch_id, x.verdict, x.attested, x.pr_url, x.pr_sha, x.pr_branch, x.pr_number, x.failure_category,
    x.failure_code, x.failure_retryable, x.failure_summary, x.failure_evidence, x.cancel_by, x.cancel_reason, x.cancel_at, x.cancel_forced,
    x.reason_code, x.created_at, x.finished_at, x.head_hash, x.updated_at, x.state_since, x.active_ms, x.base_commit, x.branch, x.isolation,
    x.stop_signal, x.stop_signal_at, x.agent_profile, x.adapter_version, x.route, x.crashed, x.rate_limited
FROM json_populate_record(NULL::runs, @run::json) x;

-- name: InsertRunEvents :exec
INSERT INTO run_events (tenant_id, run_id, seq, schema, event_id, kind, actor_kind, actor_id, actor_name, from_state, to_state,
    attempt_no, at, body, payload, hash)
SELECT e.tenant_id, e.run_id, e.seq, e.schema, e.event_id, e.kind, e.actor_kind, e.actor_id, e.actor_name, e.from_state, e.to_state,
    e.attempt_no, e.at, e.body, e.payload, e.hash
FROM json_populate_recordset(NULL::run_events, @events::json) e ORDER BY e.seq;
