-- name: LoadRun :one
-- The run with the database's clock; one round trip before the decision.
SELECT sqlc.embed(runs), clock_timestamp()::timestamptz AS now,
    coalesce((SELECT l.expires_at > clock_timestamp() FROM run_leases l WHERE l.run_id = runs.id), false)::boolean AS lease_live
FROM runs WHERE runs.tenant_id = $1 AND runs.id = $2;

-- name: LoadRuns :many
-- LoadRun for many callers at once; each checks the tenant of its own.
SELECT sqlc.embed(runs), clock_timestamp()::timestamptz AS now,
    coalesce((SELECT l.expires_at > clock_timestamp() FROM run_leases l WHERE l.run_id = runs.id), false)::boolean AS lease_live
FROM runs WHERE runs.id = ANY(ARRAY(SELECT unnest(@ids::uuid[])));

-- name: LockRun :one
SELECT sqlc.embed(runs), clock_timestamp()::timestamptz AS now,
    coalesce((SELECT l.expires_at > clock_timestamp() FROM run_leases l WHERE l.run_id = runs.id), false)::boolean AS lease_live
FROM runs WHERE runs.tenant_id = $1 AND runs.id = $2
FOR NO KEY UPDATE OF runs;

-- name: FindKey :one
SELECT request_hash, status, answer FROM idempotency_keys WHERE tenant_id = $1 AND scope = $2 AND key = $3;

-- name: InsertKey :exec
INSERT INTO idempotency_keys (tenant_id, scope, key, request_hash, status, answer) VALUES (@tenant_id, @scope, @key, @request_hash, @status, @answer);

-- name: Tenant :one
SELECT * FROM tenants WHERE id = $1;

-- name: PolicyInForce :one
SELECT document FROM policies WHERE tenant_id = $1 ORDER BY seq DESC LIMIT 1;

-- name: RunContracts :many
-- The facts about runs that policy asks for and that do not change.
SELECT r.id AS run_id, t.contract, t.requested_by, t.agent_profile, t.priority, t.cancel_requested, p.name AS repository, p.scope, p.forbidden, p.requires, p.forge_id, p.default_branch,
    coalesce(m.roles, '{}')::text[] AS roles
FROM unnest(ARRAY(SELECT unnest(@ids::uuid[]))) i(id) CROSS JOIN LATERAL (SELECT r.* FROM runs r WHERE r.id = i.id OFFSET 0) r
CROSS JOIN LATERAL (SELECT t.* FROM tasks t WHERE t.id = r.task_id OFFSET 0) t
CROSS JOIN LATERAL (SELECT p.* FROM repositories p WHERE p.tenant_id = t.tenant_id AND p.id = t.repository_id OFFSET 0) p
LEFT JOIN memberships m ON m.tenant_id = t.tenant_id AND m.user_id = t.requested_by;

-- name: RunSpent :one
WITH leases AS (
    SELECT phase, acquired_at, ended_at FROM ended_leases WHERE ended_leases.run_id = $1
    UNION ALL SELECT phase, acquired_at, clock_timestamp() FROM run_leases WHERE run_leases.run_id = $1
)
SELECT coalesce(sum(input_tokens), 0)::bigint AS input_tokens, coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
    coalesce(sum(tool_calls), 0)::bigint AS tool_calls, coalesce(sum(agent_iterations), 0)::bigint AS agent_iterations,
    coalesce(sum(tool_ms), 0)::bigint AS tool_ms, coalesce(sum(provider_calls), 0)::bigint AS provider_calls,
    coalesce(sum(cost_micros), 0)::bigint AS cost_micros,
    -- How long sandboxes stood for the run is measured here and not by a worker: the time of its leases.
    (SELECT coalesce(sum(extract(epoch FROM l.ended_at - l.acquired_at)) FILTER (WHERE l.phase <> 'publish'), 0)::float8 FROM leases l) AS sandbox_seconds,
    (SELECT coalesce(sum(extract(epoch FROM l.ended_at - l.acquired_at)) FILTER (WHERE l.phase = 'verify'), 0)::float8 FROM leases l) AS verifier_seconds,
    EXISTS (SELECT 1 FROM run_leases k JOIN worker_boots b ON b.id = k.boot_id
        WHERE k.run_id = $1 AND (b.drain_requested OR b.state IN ('DRAINING', 'STOPPED'))) AS drained
FROM usages WHERE run_id = $1;

-- name: FactsOfRuns :many
-- What a decision asks about runs, of several in one look: what does not change (RunContracts), the effects that nobody has
-- observed, and what was used up (RunSpent).
SELECT r.id AS run_id, r.tenant_id, t.contract, t.requested_by, t.agent_profile, t.priority, t.cancel_requested, p.name AS repository, p.scope, p.forbidden, p.requires,
    p.forge_id, p.default_branch, coalesce(m.roles, '{}')::text[] AS roles,
    coalesce((SELECT array_agg(o.identity ORDER BY o.intended_at) FROM operations o WHERE o.tenant_id = r.tenant_id AND o.run_id = r.id AND o.state IN ('dispatched', 'ambiguous')), '{}')::text[] AS unresolved,
    u.input_tokens, u.output_tokens, u.tool_calls, u.agent_iterations, u.tool_ms, u.provider_calls, u.cost_micros, l.sandbox_seconds, l.verifier_seconds,
    EXISTS (SELECT 1 FROM run_leases k JOIN worker_boots b ON b.id = k.boot_id
        WHERE k.run_id = r.id AND (b.drain_requested OR b.state IN ('DRAINING', 'STOPPED'))) AS drained
FROM unnest(ARRAY(SELECT unnest(@ids::uuid[]))) i(id) CROSS JOIN LATERAL (SELECT r.* FROM runs r WHERE r.id = i.id OFFSET 0) r
CROSS JOIN LATERAL (SELECT t.* FROM tasks t WHERE t.id = r.task_id OFFSET 0) t
CROSS JOIN LATERAL (SELECT p.* FROM repositories p WHERE p.tenant_id = t.tenant_id AND p.id = t.repository_id OFFSET 0) p
LEFT JOIN memberships m ON m.tenant_id = t.tenant_id AND m.user_id = t.requested_by
CROSS JOIN LATERAL (SELECT coalesce(sum(x.input_tokens), 0)::bigint AS input_tokens, coalesce(sum(x.output_tokens), 0)::bigint AS output_tokens,
    coalesce(sum(x.tool_calls), 0)::bigint AS tool_calls, coalesce(sum(x.agent_iterations), 0)::bigint AS agent_iterations,
    coalesce(sum(x.tool_ms), 0)::bigint AS tool_ms, coalesce(sum(x.provider_calls), 0)::bigint AS provider_calls,
    coalesce(sum(x.cost_micros), 0)::bigint AS cost_micros FROM usages x WHERE x.run_id = r.id) u
CROSS JOIN LATERAL (SELECT coalesce(sum(extract(epoch FROM y.ended_at - y.acquired_at)) FILTER (WHERE y.phase <> 'publish'), 0)::float8 AS sandbox_seconds,
    coalesce(sum(extract(epoch FROM y.ended_at - y.acquired_at)) FILTER (WHERE y.phase = 'verify'), 0)::float8 AS verifier_seconds
    FROM (SELECT e.phase, e.acquired_at, e.ended_at FROM ended_leases e WHERE e.run_id = r.id
        UNION ALL SELECT h.phase, h.acquired_at, clock_timestamp() FROM run_leases h WHERE h.run_id = r.id) y) l;

-- name: RunEvents :many
SELECT seq, schema, event_id, kind, actor_kind, actor_id, actor_name, from_state, to_state, attempt_no, at, body, payload, hash
FROM run_events WHERE tenant_id = $1 AND run_id = $2 AND seq > $3 ORDER BY seq LIMIT $4;

-- name: RunEventsOf :many
-- Events of some kinds or actors in a stretch of a run's log. The stretch bounds what is read, however few there are.
SELECT seq, schema, event_id, kind, actor_kind, actor_id, actor_name, from_state, to_state, attempt_no, at, body, payload, hash
FROM run_events WHERE tenant_id = @tenant_id AND run_id = @run_id AND seq > @after::bigint AND seq <= @upto::bigint
    AND (kind = ANY(@kinds::text[]) OR actor_kind = ANY(@actors::text[])) ORDER BY seq LIMIT @count;

-- name: RunMoves :many
-- What the rail and the times of a run are made of: its events without what they carry, some from each end of a long log. Both
-- ends are found by (run_id, seq), so that a log of any length costs the same.
SELECT h.seq, h.kind, h.from_state, h.to_state, h.at FROM run_events h WHERE h.tenant_id = @tenant_id AND h.run_id = @run_id AND h.seq <= @head::bigint
UNION ALL
SELECT t.seq, t.kind, t.from_state, t.to_state, t.at FROM run_events t
WHERE t.tenant_id = @tenant_id AND t.run_id = @run_id AND t.seq > @tail::bigint AND t.seq <= @version::bigint ORDER BY seq;

-- name: ReplayEvents :many
SELECT tenant_id, seq, schema, event_id, kind, actor_kind, actor_id, actor_name, from_state, to_state, attempt_no, at, body, payload, hash
FROM run_events WHERE run_id = $1 ORDER BY seq;

-- name: ReplayRuns :many
SELECT sqlc.embed(runs) FROM runs WHERE runs.id > $1 ORDER BY runs.id LIMIT $2;

-- name: ResultMaker :one
-- The worker of the last lease that handed in a patch or report. An attempt may pass through several hands (a plan gate, a repair
-- round), so who began it says nothing about who made what is verified now.
SELECT worker_id FROM ended_leases WHERE run_id = $1 AND phase = 'execute' ORDER BY fencing_token DESC LIMIT 1;

-- name: LastFailure :one
-- The code of the failure before; empty where something new was handed in or said to the agent since, so that the next
-- failure is no repeat of it.
SELECT (CASE WHEN e.kind = 'attempt_failed' THEN coalesce(e.payload -> 'payload' ->> 'code', '') ELSE '' END)::text AS code FROM run_events e
WHERE e.run_id = $1 AND e.kind IN ('attempt_failed', 'patch_created', 'report_created', 'no_change_reported', 'approved', 'changes_requested',
    'verification_failed_retryable', 'judge_requires_fix', 'attempt_exhausted', 'base_moved')
ORDER BY e.seq DESC LIMIT 1;

-- name: ReleasesOfRun :one
-- How often the run was given back since it last got further, by its newest 64 events: enough for the longest wait, whatever
-- a worker does between taking and giving back, and no more to read however long that goes on.
WITH newest AS MATERIALIZED (SELECT e.seq, e.kind FROM run_events e WHERE e.run_id = @run_id ORDER BY e.seq DESC LIMIT 64)
SELECT count(*)::int AS released FROM newest n
WHERE n.kind = 'lease_released' AND n.seq > coalesce((SELECT max(f.seq) FROM newest f WHERE f.kind = ANY(@further::text[])), 0);

-- name: Now :one
SELECT clock_timestamp()::timestamptz AS now;
