-- name: HoldOffClaims :exec
-- One claim decides at a time, so that what it counts is still so when it commits.
SELECT pg_advisory_xact_lock(hashtextextended('signalbox claims', 0));

-- name: Lanes :many
-- Who has READY items where, up to a number of lanes: one jump of the index for each, however many items it has. paused says that
-- the tenant or the installation paused the queue.
WITH RECURSIVE lane AS (
    (SELECT q.place, q.who, q.phase, q.queue, q.tenant_id, q.user_id FROM run_queue q ORDER BY q.place, q.who LIMIT 1)
    UNION ALL
    SELECT n.place, n.who, n.phase, n.queue, n.tenant_id, n.user_id FROM lane l CROSS JOIN LATERAL (
        SELECT q.place, q.who, q.phase, q.queue, q.tenant_id, q.user_id FROM run_queue q
        WHERE (q.place, q.who) > (l.place, l.who) ORDER BY q.place, q.who LIMIT 1) n
)
SELECT l.phase::text AS phase, l.queue::text AS queue, l.tenant_id::uuid AS tenant_id, l.user_id::uuid AS user_id,
    EXISTS (SELECT 1 FROM paused_queues p WHERE p.queue = l.queue AND p.tenant_id IN (l.tenant_id, @installation::uuid)) AS paused
FROM (SELECT * FROM lane LIMIT @most::int) l;

-- name: Places :many
-- Where READY items are, whoever asked for them, as Lanes: the phases, queues and tenants from a number on, in a circle.
WITH RECURSIVE spot AS (
    SELECT f.place, f.place AS first FROM (SELECT coalesce(
        (SELECT q.place FROM run_queue q WHERE q.place >= @start::bigint ORDER BY q.place LIMIT 1),
        (SELECT q.place FROM run_queue q ORDER BY q.place LIMIT 1)) AS place) f WHERE f.place IS NOT NULL
    UNION ALL
    SELECT n.place, s.first FROM spot s CROSS JOIN LATERAL (SELECT coalesce(
        (SELECT q.place FROM run_queue q WHERE q.place > s.place ORDER BY q.place LIMIT 1),
        (SELECT q.place FROM run_queue q ORDER BY q.place LIMIT 1)) AS place) n WHERE n.place <> s.first
)
SELECT i.place, i.phase, i.queue, i.tenant_id,
    EXISTS (SELECT 1 FROM paused_queues p WHERE p.queue = i.queue AND p.tenant_id IN (i.tenant_id, @installation::uuid)) AS paused
FROM (SELECT * FROM spot LIMIT @most::int) s CROSS JOIN LATERAL (
    SELECT q.* FROM run_queue q WHERE q.place = s.place ORDER BY q.place LIMIT 1) i;

-- name: LanesOfPlaces :many
-- The lanes of some places: of each place from a number on, in a circle, up to a number of them.
WITH RECURSIVE lane AS (
    SELECT p.place, f.who, f.who AS first, 1 AS nth FROM unnest(@places::bigint[]) p(place) CROSS JOIN LATERAL (SELECT coalesce(
        (SELECT q.who FROM run_queue q WHERE q.place = p.place AND q.who >= @start::bigint ORDER BY q.place, q.who LIMIT 1),
        (SELECT q.who FROM run_queue q WHERE q.place = p.place ORDER BY q.place, q.who LIMIT 1)) AS who) f WHERE f.who IS NOT NULL
    UNION ALL
    SELECT l.place, n.who, l.first, l.nth + 1 FROM lane l CROSS JOIN LATERAL (SELECT coalesce(
        (SELECT q.who FROM run_queue q WHERE q.place = l.place AND q.who > l.who ORDER BY q.place, q.who LIMIT 1),
        (SELECT q.who FROM run_queue q WHERE q.place = l.place ORDER BY q.place, q.who LIMIT 1)) AS who) n
    WHERE l.nth < @most::int AND n.who <> l.first
)
SELECT i.phase, i.queue, i.tenant_id, i.user_id FROM lane l CROSS JOIN LATERAL (
    SELECT q.* FROM run_queue q WHERE q.place = l.place AND q.who = l.who ORDER BY q.rank, q.run_id LIMIT 1) i;

-- name: HeadsOfLanes :many
-- The first items of some lanes, by rank, with the worker that made the result where it is to be verified. more marks the last
-- one of a full page: its lane may have others behind it.
SELECT i.*, coalesce(CASE WHEN i.phase = 'verify' THEN (SELECT e.worker_id FROM ended_leases e
        WHERE e.run_id = i.run_id AND e.phase = 'execute' ORDER BY e.fencing_token DESC LIMIT 1) END,
    '00000000-0000-0000-0000-000000000000')::uuid AS maker
FROM json_populate_recordset(NULL::run_queue, @lanes::json) l CROSS JOIN LATERAL (
    SELECT q.*, (row_number() OVER (ORDER BY q.rank, q.run_id) = @page::int)::boolean AS more FROM run_queue q
    WHERE q.place = work_place(l.phase, l.queue, l.tenant_id) AND q.who = work_who(l.user_id)
    ORDER BY q.rank, q.run_id LIMIT @page::int) i
ORDER BY i.rank, i.run_id;

-- name: GroupsOfLanes :many
-- What the items of some lanes differ in to a decision: one jump of the index for each combination, however many items it has. Of
-- each lane from a number on, in a circle, up to a number of them.
WITH RECURSIVE kind AS (
    SELECT l.place, l.who, f.kind, f.kind AS first, 1 AS nth
    FROM (SELECT work_place(r.phase, r.queue, r.tenant_id) AS place, work_who(r.user_id) AS who FROM json_populate_recordset(NULL::run_queue, @lanes::json) r) l
    CROSS JOIN LATERAL (SELECT coalesce(
        (SELECT q.kind FROM run_queue q WHERE q.place = l.place AND q.who = l.who AND q.kind >= @start::bigint ORDER BY q.place, q.who, q.kind LIMIT 1),
        (SELECT q.kind FROM run_queue q WHERE q.place = l.place AND q.who = l.who ORDER BY q.place, q.who, q.kind LIMIT 1)) AS kind) f WHERE f.kind IS NOT NULL
    UNION ALL
    SELECT k.place, k.who, n.kind, k.first, k.nth + 1 FROM kind k CROSS JOIN LATERAL (SELECT coalesce(
        (SELECT q.kind FROM run_queue q WHERE q.place = k.place AND q.who = k.who AND q.kind > k.kind ORDER BY q.place, q.who, q.kind LIMIT 1),
        (SELECT q.kind FROM run_queue q WHERE q.place = k.place AND q.who = k.who ORDER BY q.place, q.who, q.kind LIMIT 1)) AS kind) n
    WHERE k.nth < @most::int AND n.kind <> k.first
)
SELECT i.phase, i.queue, i.tenant_id, i.user_id, i.repository_id, i.provider, i.risk, i.pool, i.requires FROM kind k CROSS JOIN LATERAL (
    SELECT q.* FROM run_queue q WHERE q.place = k.place AND q.who = k.who AND q.kind = k.kind ORDER BY q.rank, q.run_id LIMIT 1) i;

-- name: HeadsOfGroups :many
-- As HeadsOfLanes, of some groups, each after the item with the rank and the run_id that are named with it.
SELECT i.*, coalesce(CASE WHEN i.phase = 'verify' THEN (SELECT e.worker_id FROM ended_leases e
        WHERE e.run_id = i.run_id AND e.phase = 'execute' ORDER BY e.fencing_token DESC LIMIT 1) END,
    '00000000-0000-0000-0000-000000000000')::uuid AS maker
FROM json_populate_recordset(NULL::run_queue, @groups::json) l CROSS JOIN LATERAL (
    SELECT q.*, (row_number() OVER (ORDER BY q.rank, q.run_id) = @page::int)::boolean AS more FROM run_queue q
    WHERE q.place = work_place(l.phase, l.queue, l.tenant_id) AND q.who = work_who(l.user_id)
        AND q.kind = work_kind(l.repository_id, l.provider, l.risk, l.pool, l.requires) AND (q.rank, q.run_id) > (l.rank, l.run_id)
    ORDER BY q.rank, q.run_id LIMIT @page::int) i
ORDER BY i.rank, i.run_id;

-- name: ScheduleFacts :one
-- What one decision about waiting work needs, in one round trip: the clock, leases that are alike with their number (what limits are
-- counted from), the tenants with their policies in force, and the providers that are left alone.
SELECT clock_timestamp()::timestamptz AS now,
    coalesce((SELECT jsonb_agg(h) FROM (
        SELECT l.phase, l.tenant_id, l.user_id, l.repository_id, l.risk, l.provider, l.pool, count(*)::int AS held, max(l.acquired_at) AS newest
        -- All leases are read, so in the order in which they lie; an index that has the tenant first would be followed row by row.
        FROM (SELECT * FROM run_leases OFFSET 0) l GROUP BY l.phase, l.tenant_id, l.user_id, l.repository_id, l.risk, l.provider, l.pool) h), '[]')::jsonb AS held,
    coalesce((SELECT jsonb_agg(x) FROM (
        SELECT t.id, t.name, coalesce((SELECT p.document FROM policies p WHERE p.tenant_id = t.id ORDER BY p.seq DESC LIMIT 1), '') AS document
        FROM tenants t WHERE t.id = ANY(ARRAY(SELECT unnest(@tenants::uuid[])))) x), '[]')::jsonb AS tenants,
    -- The run that tries a provider first counts while it holds its lease.
    coalesce((SELECT jsonb_object_agg(p.provider, jsonb_build_object('until', p.until, 'failures', p.failures,
            'probe', coalesce(l.run_id, '00000000-0000-0000-0000-000000000000')))
        FROM provider_pauses p LEFT JOIN run_leases l ON l.run_id = p.probe AND l.phase = 'execute'), '{}')::jsonb AS pauses;

-- name: PauseOf :one
-- The provider's pause, if it has one, and since when the run holds its lease.
SELECT coalesce(p.until, 'epoch')::timestamptz AS until, coalesce(p.failures, 0)::int AS failures, l.acquired_at
FROM run_leases l LEFT JOIN provider_pauses p ON p.provider = @provider WHERE l.run_id = @run_id;

-- name: PassProbe :execrows
-- The run that tried first had an answer of its provider.
DELETE FROM provider_pauses WHERE probe = @run_id AND until <= clock_timestamp();

-- name: LockItemsOfRuns :many
-- The runs that were chosen with their items, locked in the order of their ids, a run before its item as everywhere, each with a
-- fencing token and with what RunContracts says of it. What somebody takes away or holds meanwhile is missing: no claim waits for a
-- run, so that one which locks a second time, lower ids among them, waits for nobody either.
SELECT sqlc.embed(runs), clock_timestamp()::timestamptz AS now, nextval('fencing_tokens')::bigint AS token,
    t.contract, t.requested_by, t.agent_profile, t.priority, p.name AS repository, p.scope, p.forbidden, p.requires, coalesce(m.roles, '{}')::text[] AS roles
FROM runs JOIN run_queue q ON q.run_id = runs.id
CROSS JOIN LATERAL (SELECT t.* FROM tasks t WHERE t.id = runs.task_id OFFSET 0) t
CROSS JOIN LATERAL (SELECT p.* FROM repositories p WHERE p.tenant_id = t.tenant_id AND p.id = t.repository_id OFFSET 0) p
LEFT JOIN memberships m ON m.tenant_id = t.tenant_id AND m.user_id = t.requested_by
WHERE runs.id = ANY(ARRAY(SELECT unnest(@ids::uuid[]))) AND q.run_id = ANY(ARRAY(SELECT unnest(@ids::uuid[])))
ORDER BY runs.id FOR NO KEY UPDATE OF runs SKIP LOCKED FOR UPDATE OF q SKIP LOCKED;

-- name: DropItem :exec
-- A stale item that the caller holds: the reducer refused it.
DELETE FROM run_queue WHERE run_id = $1;

-- name: SetItemPhase :exec
-- An item that was left over from before the run's present one; the caller holds both rows.
UPDATE run_queue SET phase = $2 WHERE run_id = $1;

-- name: LeasesOfBoots :many
-- How many leases these boots hold, and those that one of the claims gave: an answer that was lost is given again.
SELECT l.boot_id, count(*)::int AS held,
    coalesce(jsonb_agg(to_jsonb(l) ORDER BY l.fencing_token) FILTER (WHERE l.claim_id = ANY(ARRAY(SELECT unnest(@claims::text[])))), '[]')::jsonb AS given
FROM run_leases l WHERE l.boot_id = ANY(ARRAY(SELECT unnest(@boots::uuid[]))) GROUP BY l.boot_id;

-- name: StatesOfRuns :many
SELECT r.id, r.state FROM runs r WHERE r.id = ANY(@ids::uuid[]);

-- name: LockBoots :many
-- Serialises the claims of these boots, so that the maximum of each holds. heard says whether one was heard of within the lease time.
-- One that is starting claims nothing yet.
SELECT sqlc.embed(b), (b.heartbeat_at > clock_timestamp() - make_interval(secs => @ttl_seconds::float8))::boolean AS heard
FROM worker_boots b WHERE b.id = ANY(ARRAY(SELECT unnest(@ids::uuid[]))) AND b.state <> 'STARTING' ORDER BY b.id FOR NO KEY UPDATE;

-- name: ExtendLeases :many
-- Extends what is active, unexpired, held by the boot that says so with this token, and not past its cancel grace. What is missing in
-- the answer is lost. It does not wait for the disk: what a crash forgets is that somebody was alive a moment ago, and after an outage
-- nobody is reaped before a full lease time has passed.
-- This answer is what tells a worker of a cancel; a beat with a stopping_at, whatever time it names, says that it was heard.
UPDATE run_leases l SET expires_at = clock_timestamp() + make_interval(secs => @ttl_seconds::float8), heartbeat_at = clock_timestamp(),
    cancel_told_at = CASE WHEN r.state = 'CANCELLING' THEN coalesce(l.cancel_told_at, clock_timestamp()) END,
    stopping_at = CASE WHEN r.state = 'CANCELLING' AND b.stopping_at IS NOT NULL THEN coalesce(l.stopping_at, clock_timestamp()) END
FROM json_populate_recordset(NULL::run_leases, @beats::json) b, runs r
WHERE l.lease_id = b.lease_id AND l.fencing_token = b.fencing_token AND l.worker_id = b.worker_id AND l.boot_id = b.boot_id
  AND l.expires_at > clock_timestamp() AND r.id = l.run_id
  AND (r.cancel_at IS NULL OR r.cancel_at > clock_timestamp() - make_interval(secs => @grace_seconds::float8))
RETURNING l.lease_id, l.boot_id, l.tenant_id, l.run_id, r.state, r.stop_signal, set_config('synchronous_commit', 'off', true)::text AS unhurried;

-- name: RegisterBoot :exec
INSERT INTO worker_boots (id, worker_id, name, version, phases, capabilities, isolation, probes, max_concurrent, state, queues, pools)
SELECT b.id, b.worker_id, b.name, b.version, b.phases, b.capabilities, b.isolation, b.probes, b.max_concurrent, b.state, b.queues, b.pools
FROM json_populate_record(NULL::worker_boots, @boot::json) b;

-- name: ReadyBoot :execrows
-- A boot that was starting is ready, with what it found out meanwhile; saying so again changes nothing.
UPDATE worker_boots w SET state = 'READY', heartbeat_at = clock_timestamp(), name = b.name, version = b.version, phases = b.phases, capabilities = b.capabilities,
    isolation = b.isolation, probes = b.probes, max_concurrent = b.max_concurrent, queues = b.queues, pools = b.pools
FROM json_populate_record(NULL::worker_boots, @boot::json) b
WHERE w.id = b.id AND w.worker_id = b.worker_id AND w.state IN ('STARTING', 'READY');

-- name: TouchBoots :many
-- Heartbeats of boots. They do not wait for the disk either. One that is starting gets ready by saying what it found out.
UPDATE worker_boots w SET heartbeat_at = clock_timestamp(), state = CASE WHEN w.state IN ('STARTING', 'STOPPED', 'DEAD') THEN w.state ELSE b.state END
FROM json_populate_recordset(NULL::worker_boots, @boots::json) b
WHERE w.id = b.id AND w.worker_id = b.worker_id
RETURNING w.id, w.state, w.drain_requested, set_config('synchronous_commit', 'off', true)::text AS unhurried;

-- name: StopBoot :execrows
UPDATE worker_boots SET state = 'STOPPED', stopped_at = clock_timestamp() WHERE id = $1 AND worker_id = $2 AND state NOT IN ('STOPPED', 'DEAD');

-- name: BuryBoots :many
-- Silence during an outage of ours is not the worker's.
UPDATE worker_boots SET state = 'DEAD', stopped_at = clock_timestamp()
WHERE state NOT IN ('STOPPED', 'DEAD')
  AND greatest(heartbeat_at, (SELECT c.up_since FROM control_heartbeat c)) < clock_timestamp() - make_interval(secs => @seconds::float8)
RETURNING id;

-- name: GuardLease :one
-- Holds the lease while facts are written under it, and takes their batch number.
WITH l AS (
    SELECT * FROM run_leases WHERE run_leases.lease_id = @lease_id AND run_leases.fencing_token = @token AND run_leases.worker_id = @worker_id
      AND run_leases.run_id = @run_id AND run_leases.expires_at > clock_timestamp() FOR SHARE
), n AS (
    INSERT INTO fact_sequences (lease_id, kind, tenant_id, sequence) SELECT l.lease_id, @kind::text, l.tenant_id, @sequence::bigint FROM l
    ON CONFLICT (lease_id, kind) DO UPDATE SET sequence = excluded.sequence WHERE fact_sequences.sequence < excluded.sequence
    RETURNING fact_sequences.sequence
)
SELECT l.run_id, l.tenant_id, l.phase, l.attempt_id, r.attempt_no, r.state, r.version, EXISTS (SELECT 1 FROM n) AS fresh
FROM l JOIN runs r ON r.id = l.run_id;

-- name: UpsertSteps :exec
INSERT INTO steps (id, tenant_id, run_id, attempt_no, lease_id, phase, call_id, kind, name, state, summary, exit_code, duration_ms, finished_at)
SELECT s.id, s.tenant_id, s.run_id, s.attempt_no, s.lease_id, s.phase, s.call_id, s.kind, s.name, s.state, s.summary, s.exit_code, s.duration_ms,
    CASE WHEN s.state IN ('SUCCEEDED', 'FAILED', 'TIMED_OUT', 'CANCELLED') THEN clock_timestamp() END
FROM json_populate_recordset(NULL::steps, @steps::json) s
ON CONFLICT (lease_id, call_id) DO UPDATE SET state = excluded.state, summary = excluded.summary, exit_code = excluded.exit_code,
    duration_ms = excluded.duration_ms, finished_at = excluded.finished_at
WHERE steps.state IN ('PENDING', 'RUNNING');

-- name: InsertUsage :exec
INSERT INTO usages (tenant_id, run_id, attempt_no, lease_id, provider, model, source, input_tokens, output_tokens, tool_calls, agent_iterations, tool_ms,
    sandbox_ms, provider_calls, cost_micros)
SELECT u.tenant_id, u.run_id, u.attempt_no, u.lease_id, u.provider, u.model, u.source, u.input_tokens, u.output_tokens, u.tool_calls, u.agent_iterations,
    u.tool_ms, u.sandbox_ms, u.provider_calls, u.cost_micros
FROM json_populate_record(NULL::usages, @usage::json) u;

-- name: IntendOperation :one
-- The intent is written under the lease that will carry it out; the same identity is the same operation.
WITH l AS (
    SELECT * FROM run_leases WHERE run_leases.lease_id = @lease_id AND run_leases.fencing_token = @token AND run_leases.worker_id = @worker_id
      AND run_leases.run_id = @run_id AND run_leases.expires_at > clock_timestamp()
      AND EXISTS (SELECT 1 FROM runs r WHERE r.id = run_leases.run_id AND r.state = 'PR_CREATING') FOR SHARE
)
INSERT INTO operations (id, tenant_id, run_id, kind, identity, state, parameters, lease_id, fencing_token)
SELECT @id, l.tenant_id, l.run_id, @kind, @identity, 'intended', @parameters, l.lease_id, l.fencing_token FROM l
ON CONFLICT (tenant_id, run_id, identity) DO UPDATE SET lease_id = excluded.lease_id, fencing_token = excluded.fencing_token
RETURNING *;

-- name: DispatchOperation :one
WITH l AS (
    SELECT * FROM run_leases WHERE run_leases.lease_id = @lease_id AND run_leases.fencing_token = @token AND run_leases.worker_id = @worker_id
      AND run_leases.run_id = @run_id AND run_leases.expires_at > clock_timestamp()
      AND EXISTS (SELECT 1 FROM runs r WHERE r.id = run_leases.run_id AND r.state = 'PR_CREATING') FOR SHARE
)
UPDATE operations SET state = CASE WHEN operations.state = 'intended' THEN 'dispatched' ELSE operations.state END,
    dispatched_at = coalesce(operations.dispatched_at, clock_timestamp()), lease_id = l.lease_id, fencing_token = l.fencing_token
FROM l WHERE operations.tenant_id = l.tenant_id AND operations.run_id = l.run_id AND operations.identity = @identity
RETURNING operations.*;

-- name: ObserveOperation :one
-- An observation needs no live lease: what happened outside is true even when the lease is over. It needs the lease that dispatched it.
-- What was seen for certain stays; a repeat changes nothing.
UPDATE operations SET
    state = CASE WHEN operations.state IN ('observed', 'reconciled') THEN operations.state WHEN @outcome::text = 'ambiguous' THEN 'ambiguous'
        WHEN operations.state = 'ambiguous' THEN 'reconciled' ELSE 'observed' END,
    outcome = CASE WHEN operations.state IN ('observed', 'reconciled') THEN operations.outcome ELSE @outcome::text END,
    result = CASE WHEN operations.state IN ('observed', 'reconciled') THEN operations.result ELSE @result END,
    observed_at = CASE WHEN operations.state IN ('observed', 'reconciled') THEN operations.observed_at ELSE clock_timestamp() END
WHERE operations.tenant_id = @tenant_id AND operations.run_id = @run_id AND operations.identity = @identity
  AND operations.fencing_token = @token AND operations.lease_id = @lease_id
  AND (EXISTS (SELECT 1 FROM run_leases l WHERE l.lease_id = operations.lease_id AND l.worker_id = @worker_id)
    OR EXISTS (SELECT 1 FROM ended_leases e WHERE e.lease_id = operations.lease_id AND e.worker_id = @worker_id))
RETURNING *;

-- name: RunOperations :many
SELECT * FROM operations WHERE tenant_id = $1 AND run_id = $2 ORDER BY intended_at;

-- name: Assigned :many
-- What the holders of leases need for their phases, of several runs in one look. A plan is the approved one where there is one.
SELECT sqlc.embed(x), sqlc.embed(t), sqlc.embed(r), f.kind AS forge_kind, f.name AS forge_name, u.name AS requester,
    coalesce((SELECT a.id FROM artifacts a WHERE a.tenant_id = x.tenant_id AND a.run_id = x.id AND a.kind = 'plan' AND NOT a.late
        AND a.sha256 = coalesce(nullif(x.approved_plan_digest, ''), x.plan_digest) ORDER BY a.created_at DESC LIMIT 1), '00000000-0000-0000-0000-000000000000')::uuid AS plan_id,
    coalesce((SELECT a.id FROM artifacts a WHERE a.tenant_id = x.tenant_id AND a.run_id = x.id AND a.kind = 'verification_report' AND NOT a.late
        AND a.sha256 = x.verification_digest ORDER BY a.created_at DESC LIMIT 1), '00000000-0000-0000-0000-000000000000')::uuid AS verification_id,
    coalesce((SELECT a.id FROM artifacts a WHERE a.tenant_id = x.tenant_id AND a.run_id = x.id AND a.kind = 'report' AND NOT a.late
        AND a.sha256 = x.report_digest ORDER BY a.created_at DESC LIMIT 1), '00000000-0000-0000-0000-000000000000')::uuid AS report_id,
    coalesce((SELECT a.id FROM artifacts a WHERE a.tenant_id = x.tenant_id AND a.run_id = x.id AND a.kind = 'agent_session'
        ORDER BY a.created_at DESC LIMIT 1), '00000000-0000-0000-0000-000000000000')::uuid AS session_id,
    -- The worker of the last lease that handed in a patch or report. An attempt may pass through several hands (a plan gate, a
    -- repair round), so who began it says nothing about who made what is verified now.
    coalesce((SELECT e.worker_id FROM ended_leases e WHERE e.run_id = x.id AND e.phase = 'execute' ORDER BY e.fencing_token DESC LIMIT 1), '00000000-0000-0000-0000-000000000000')::uuid AS maker,
    coalesce((SELECT jsonb_agg(to_jsonb(b) ORDER BY b.id) FROM feedback b WHERE b.tenant_id = x.tenant_id AND b.run_id = x.id), '[]')::jsonb AS feedback,
    coalesce((SELECT jsonb_agg(to_jsonb(o) ORDER BY o.intended_at) FROM operations o WHERE o.tenant_id = x.tenant_id AND o.run_id = x.id), '[]')::jsonb AS operations,
    coalesce((SELECT jsonb_agg(jsonb_build_object('ID', d.id, 'Gate', d.gate_id, 'Revision', d.revision, 'User', d.user_id, 'UserName', w.name, 'Verdict', d.verdict, 'Text', d.text, 'At', d.at) ORDER BY d.seq)
        FROM gates g JOIN decisions d ON d.tenant_id = g.tenant_id AND d.gate_id = g.id JOIN users w ON w.id = d.user_id
        WHERE g.tenant_id = x.tenant_id AND g.run_id = x.id AND g.kind = 'patch' AND d.verdict = 'approve'), '[]')::jsonb AS approvals
FROM runs x
-- By their ids alone, which are of one tenant by foreign keys, and each table by keys of its own: a plan that was made while
-- tables were small would otherwise go through all of a tenant's rows.
JOIN tasks t ON t.id = x.task_id
JOIN repositories r ON r.id = x.repository_id
JOIN forges f ON f.id = r.forge_id
JOIN users u ON u.id = t.requested_by
WHERE x.id = ANY(ARRAY(SELECT unnest(@ids::uuid[]))) AND t.id = ANY(ARRAY(SELECT y.task_id FROM runs y WHERE y.id = ANY(ARRAY(SELECT unnest(@ids::uuid[])))));

-- name: RunCommands :one
-- The commands that verify a run now: its repository's own, and its task's contract.
SELECT r.verification, t.contract FROM runs x
JOIN tasks t ON t.tenant_id = x.tenant_id AND t.id = x.task_id
JOIN repositories r ON r.tenant_id = x.tenant_id AND r.id = x.repository_id
WHERE x.tenant_id = $1 AND x.id = $2;
