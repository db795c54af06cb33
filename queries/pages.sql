-- What pages and lists read. Every query takes the tenant from the principal (T1).

-- name: PageTasks :many
-- Lists are read in two steps, which are on their page and then those by their ids: one plan for both would read a whole list to
-- find a single one.
SELECT t.id FROM tasks t
WHERE t.tenant_id = @tenant_id
  AND (@state::text = '' OR t.state = @state)
  AND (sqlc.narg(repository_id)::uuid IS NULL OR t.repository_id = sqlc.narg(repository_id))
  AND (sqlc.narg(requested_by)::uuid IS NULL OR t.requested_by = sqlc.narg(requested_by))
  AND (@query::text = '' OR position(lower(@query) IN lower(t.title)) > 0)
  AND (t.created_at, t.id) < (@before_at::timestamptz, @before_id::uuid)
ORDER BY t.created_at DESC, t.id DESC
LIMIT @count;

-- name: TasksOfPage :many
SELECT sqlc.embed(t), r.name AS repository_name, u.name AS requester,
       coalesce((SELECT x.id::text FROM runs x WHERE x.task_id = t.id ORDER BY x.created_at DESC, x.id DESC LIMIT 1), '')::text AS last_run_id,
       coalesce((SELECT x.state FROM runs x WHERE x.task_id = t.id ORDER BY x.created_at DESC, x.id DESC LIMIT 1), '')::text AS last_run_state
FROM tasks t
JOIN repositories r ON r.id = t.repository_id
JOIN users u ON u.id = t.requested_by
WHERE t.id = ANY(@ids::uuid[]) AND t.tenant_id = @tenant_id
ORDER BY t.created_at DESC, t.id DESC;

-- name: AnyTask :one
SELECT EXISTS (SELECT 1 FROM tasks WHERE tenant_id = $1)::bool AS found;

-- name: PageTaskEvents :many
SELECT seq, kind, actor_kind, actor_id, actor_name, from_state, to_state, reason, run_id, at
FROM task_events WHERE tenant_id = $1 AND task_id = $2 ORDER BY seq LIMIT 500;

-- name: PageRuns :many
SELECT x.id FROM runs x
WHERE x.tenant_id = @tenant_id
  AND (@state::text = '' OR x.state = @state)
  AND (sqlc.narg(task_id)::uuid IS NULL OR x.task_id = sqlc.narg(task_id))
  AND (sqlc.narg(repository_id)::uuid IS NULL OR x.repository_id = sqlc.narg(repository_id))
  AND (@query::text = '' OR position(lower(@query) IN lower((SELECT t.title FROM tasks t WHERE t.id = x.task_id))) > 0)
  AND (NOT @active::boolean OR x.finished_at IS NULL)
  AND (x.created_at, x.id) < (@before_at::timestamptz, @before_id::uuid)
ORDER BY x.created_at DESC, x.id DESC
LIMIT @count;

-- name: RunsOfTask :many
SELECT x.id FROM runs x WHERE x.task_id = @task_id AND x.tenant_id = @tenant_id ORDER BY x.created_at DESC, x.id DESC LIMIT @count;

-- name: RunsOfPage :many
SELECT sqlc.embed(x), t.title AS task_title, t.requested_by, t.agent_profile AS task_profile, t.base_ref, r.name AS repository_name, r.default_branch,
       coalesce(w.name, '')::text AS worker_name, coalesce(b.isolation, '')::text AS worker_isolation,
       l.acquired_at AS lease_acquired_at, l.heartbeat_at AS lease_heartbeat_at, l.expires_at AS lease_expires_at
FROM runs x
JOIN tasks t ON t.id = x.task_id
JOIN repositories r ON r.id = x.repository_id
LEFT JOIN run_leases l ON l.run_id = x.id
LEFT JOIN worker_credentials w ON w.id = l.worker_id
LEFT JOIN worker_boots b ON b.id = l.boot_id
WHERE x.id = ANY(@ids::uuid[]) AND x.tenant_id = @tenant_id
  AND t.id = ANY(ARRAY(SELECT y.task_id FROM runs y WHERE y.id = ANY(@ids::uuid[])))
ORDER BY x.created_at DESC, x.id DESC;

-- name: AnyRun :one
SELECT EXISTS (SELECT 1 FROM runs WHERE tenant_id = $1)::bool AS found;

-- name: RunWaits :one
-- Until when a delayed item waits.
SELECT d.available_at FROM run_delayed d WHERE d.tenant_id = $1 AND d.run_id = $2;

-- name: WaitingItem :one
-- A READY item, who made the result that it is to verify, and how many of its tenant's go before it (at most a thousand are counted).
SELECT q.*, coalesce(CASE WHEN q.phase = 'verify' THEN (SELECT e.worker_id FROM ended_leases e
        WHERE e.run_id = q.run_id AND e.phase = 'execute' ORDER BY e.fencing_token DESC LIMIT 1) END,
    '00000000-0000-0000-0000-000000000000')::uuid AS maker,
    (SELECT count(*) FROM (SELECT 1 FROM run_queue a WHERE a.place = q.place
        AND (a.rank, a.run_id) < (q.rank, q.run_id) LIMIT 1000) x)::int AS ahead
FROM run_queue q WHERE q.tenant_id = $1 AND q.run_id = $2;

-- name: LiveOffers :many
-- Workers that could be given work of the tenant now, with the room that each has left.
SELECT b.worker_id, w.tenant_id, b.phases, w.phases AS allowed, b.queues, b.pools, b.capabilities, b.isolation,
    (b.max_concurrent - (SELECT count(*) FROM run_leases l WHERE l.boot_id = b.id))::int AS free
FROM worker_boots b JOIN worker_credentials w ON w.id = b.worker_id
WHERE (w.tenant_id IS NULL OR w.tenant_id = @tenant_id::uuid) AND w.revoked_at IS NULL AND b.state = 'READY' AND NOT b.drain_requested
  AND b.heartbeat_at > clock_timestamp() - make_interval(secs => sqlc.arg(stale_seconds)::float8);

-- name: PageGates :many
SELECT g.id FROM gates g
WHERE g.tenant_id = @tenant_id
  AND (cardinality(@states::text[]) = 0 OR g.state = ANY(@states))
  AND (sqlc.narg(run_id)::uuid IS NULL OR g.run_id = sqlc.narg(run_id))
  AND (g.opened_at, g.id) > (@after_at::timestamptz, @after_id::uuid)
ORDER BY g.opened_at, g.id
LIMIT @count;

-- name: GatesOfRun :many
SELECT g.id FROM gates g WHERE g.run_id = @run_id AND g.tenant_id = @tenant_id ORDER BY g.opened_at, g.id LIMIT @count;

-- name: GatesOfPage :many
SELECT sqlc.embed(g), t.title AS task_title, t.requested_by, u.name AS requester, r.name AS repository_name, x.state AS run_state, x.risk, x.patch,
       (SELECT count(DISTINCT d.user_id) FROM decisions d WHERE d.gate_id = g.id AND d.revision = g.revision AND d.verdict = 'approve')::bigint AS approvals,
       coalesce((SELECT du.name FROM decisions d JOIN users du ON du.id = d.user_id WHERE d.gate_id = g.id ORDER BY d.seq DESC LIMIT 1), '')::text AS last_decider,
       coalesce((SELECT d.text FROM decisions d WHERE d.gate_id = g.id ORDER BY d.seq DESC LIMIT 1), '')::text AS last_text
FROM gates g
JOIN tasks t ON t.id = g.task_id
JOIN users u ON u.id = t.requested_by
JOIN repositories r ON r.id = t.repository_id
JOIN runs x ON x.id = g.run_id
WHERE g.id = ANY(@ids::uuid[]) AND g.tenant_id = @tenant_id
  AND t.id = ANY(ARRAY(SELECT o.task_id FROM gates o WHERE o.id = ANY(@ids::uuid[])))
  AND x.id = ANY(ARRAY(SELECT o.run_id FROM gates o WHERE o.id = ANY(@ids::uuid[])))
ORDER BY g.opened_at, g.id;

-- name: RecentGates :many
SELECT g.id, g.kind, g.state, g.closed_at, t.title AS task_title, r.name AS repository_name,
       coalesce((SELECT du.name FROM decisions d JOIN users du ON du.id = d.user_id WHERE d.gate_id = g.id ORDER BY d.seq DESC LIMIT 1), '')::text AS decided_by
FROM gates g
JOIN tasks t ON t.tenant_id = g.tenant_id AND t.id = g.task_id
JOIN repositories r ON r.tenant_id = t.tenant_id AND r.id = t.repository_id
WHERE g.tenant_id = @tenant_id AND g.closed_at > now() - interval '7 days' AND g.state NOT IN ('cancelled', 'superseded')
ORDER BY g.closed_at DESC LIMIT @count;

-- name: CountMyGates :one
-- Gates that a person may act on, and bypasses that they may review.
SELECT ((SELECT count(*) FROM bypass_reviews b JOIN gates o ON o.tenant_id = b.tenant_id AND o.id = b.gate_id JOIN tasks k ON k.id = o.task_id
        WHERE b.tenant_id = @tenant_id AND b.reviewed_at IS NULL AND b.user_id <> @user_id::uuid AND k.requested_by <> @user_id::uuid
        AND @roles::text[] && ARRAY['approver', 'admin'])::bigint + count(*)::bigint)::bigint AS gates FROM gates g JOIN tasks t ON t.tenant_id = g.tenant_id AND t.id = g.task_id
LEFT JOIN turns m ON m.tenant_id = g.tenant_id AND m.gate_id = g.id AND m.user_id = @user_id::uuid
WHERE g.tenant_id = @tenant_id AND g.state IN ('open', 'expired') AND g.role = ANY(@roles::text[]) AND t.requested_by <> @user_id
  AND (m.passed_to IS NULL OR m.passed_revision <> g.revision)
  AND (m.snooze_revision IS NULL OR m.snooze_revision <> g.revision OR g.state <> 'open' OR m.snooze_until <= now())
  AND NOT EXISTS (SELECT 1 FROM decisions d WHERE d.gate_id = g.id AND d.revision = g.revision AND d.user_id = @user_id AND d.verdict = 'approve');

-- name: PageDecisions :many
SELECT d.id, d.gate_id, d.revision, d.digest_seen, d.user_id, u.name AS user_name, d.verdict, d.text, d.channel, d.extra, d.carried_over_from, d.at, d.notes
FROM decisions d JOIN users u ON u.id = d.user_id
WHERE d.tenant_id = @tenant_id AND d.gate_id = ANY(@gate_ids::uuid[]) ORDER BY d.seq;

-- name: PageAttempts :many
SELECT a.id, a.attempt_no, a.state, a.code, a.started_at, a.ended_at, coalesce(w.name, '')::text AS worker_name
FROM attempts a LEFT JOIN worker_credentials w ON w.id = a.worker_id
WHERE a.tenant_id = $1 AND a.run_id = $2 ORDER BY a.attempt_no;

-- name: PageSteps :many
SELECT id, attempt_no, lease_id, phase, call_id, kind, name, state, summary, exit_code, duration_ms, started_at, finished_at, coalesce(seq, 0)::bigint AS seq
FROM steps WHERE tenant_id = @tenant_id AND run_id = @run_id AND steps.seq > @after::bigint ORDER BY steps.seq LIMIT @count;

-- name: LastSteps :many
-- The newest steps of a run, the newest first.
SELECT id, attempt_no, lease_id, phase, call_id, kind, name, state, summary, exit_code, duration_ms, started_at, finished_at, coalesce(seq, 0)::bigint AS seq
FROM steps WHERE tenant_id = @tenant_id AND run_id = @run_id ORDER BY steps.seq DESC LIMIT @count;

-- name: PageStep :one
SELECT id, attempt_no, lease_id, phase, call_id, kind, name, state, summary, exit_code, duration_ms, started_at, finished_at, coalesce(seq, 0)::bigint AS seq
FROM steps WHERE tenant_id = $1 AND run_id = $2 AND id = $3;

-- name: PageArtifacts :many
SELECT a.id, a.tenant_id, a.run_id, a.attempt_no, a.revision, a.kind, a.name, a.sha256, a.size, a.blob_key, a.late, a.created_at, p.patch_id, p.files, p.added, p.removed, p.scan, p.fault, p.facts
FROM artifacts a LEFT JOIN patches p ON p.artifact_id = a.id
WHERE a.tenant_id = $1 AND a.run_id = $2 ORDER BY a.created_at, a.id LIMIT 1000;

-- name: PageArtifact :one
SELECT a.id, a.tenant_id, a.run_id, a.attempt_no, a.revision, a.kind, a.name, a.sha256, a.size, a.blob_key, a.late, a.created_at, p.patch_id, p.files, p.added, p.removed, p.scan, p.fault, p.facts
FROM artifacts a LEFT JOIN patches p ON p.artifact_id = a.id
WHERE a.tenant_id = $1 AND a.id = $2;

-- name: PagePulls :many
SELECT p.id, p.repository_id, p.task_id, p.run_id, p.number, p.state, p.url, p.title, p.body, p.head_branch, p.base_branch, p.head_sha, p.merge_sha,
       p.created_at, p.updated_at, r.name AS repository_name, r.clone_url, f.kind AS forge_kind, coalesce(u.name, '')::text AS merged_by_name
FROM pull_requests p
JOIN repositories r ON r.tenant_id = p.tenant_id AND r.id = p.repository_id
JOIN forges f ON f.tenant_id = r.tenant_id AND f.id = r.forge_id
LEFT JOIN users u ON u.id = p.merged_by
WHERE p.tenant_id = @tenant_id
  AND (sqlc.narg(id)::uuid IS NULL OR p.id = sqlc.narg(id))
  AND (sqlc.narg(task_id)::uuid IS NULL OR p.task_id = sqlc.narg(task_id))
  AND (sqlc.narg(run_id)::uuid IS NULL OR p.run_id = sqlc.narg(run_id))
  AND (sqlc.narg(repository_id)::uuid IS NULL OR p.repository_id = sqlc.narg(repository_id))
  AND (@branch::text = '' OR p.head_branch = @branch)
ORDER BY p.created_at DESC, p.id DESC LIMIT 500;

-- name: PageForges :many
SELECT id, name, kind, base_url FROM forges WHERE tenant_id = $1 ORDER BY name;

-- name: PageRepositories :many
SELECT sqlc.embed(r), f.kind AS forge_kind, f.name AS forge_name,
       (SELECT count(*) FROM tasks t WHERE t.tenant_id = r.tenant_id AND t.repository_id = r.id)::bigint AS tasks
FROM repositories r JOIN forges f ON f.tenant_id = r.tenant_id AND f.id = r.forge_id
WHERE r.tenant_id = @tenant_id AND r.name > @after_name::text AND (sqlc.narg(id)::uuid IS NULL OR r.id = sqlc.narg(id))
ORDER BY r.name LIMIT @count;

-- name: InsertRepository :one
INSERT INTO repositories (id, tenant_id, forge_id, name, clone_url, default_branch, verification, scope, forbidden, requires, created_by)
VALUES (@id, @tenant_id, @forge_id, @name, @clone_url, @default_branch, @verification, @scope, @forbidden, @requires, @created_by)
RETURNING created_at;

-- name: PageWorkers :many
SELECT DISTINCT ON (w.id) w.id, w.name AS credential_name, w.revoked_at, b.id AS boot_id, b.name, b.version, b.state, b.phases, b.isolation,
       b.max_concurrent, b.heartbeat_at, b.started_at,
       (SELECT count(*) FROM run_leases l WHERE l.worker_id = w.id)::bigint AS leases,
       coalesce((SELECT l.run_id::text FROM run_leases l WHERE l.worker_id = w.id ORDER BY l.acquired_at LIMIT 1), '')::text AS run_id
FROM worker_credentials w JOIN worker_boots b ON b.worker_id = w.id
WHERE w.tenant_id IS NULL OR w.tenant_id = @tenant_id::uuid
ORDER BY w.id, b.started_at DESC;

-- name: QueueDepth :one
SELECT count(*)::bigint AS depth, coalesce(min(visible_at), 'epoch')::timestamptz AS oldest FROM run_queue WHERE tenant_id = $1;

-- name: JudgeArtifact :one
-- The report behind the newest verdict that was recorded: what a worker stored beside it counts for nothing.
SELECT (payload -> 'payload' -> 'judge' ->> 'artifact')::text AS artifact FROM run_events
WHERE tenant_id = $1 AND run_id = $2 AND payload -> 'payload' -> 'judge' ->> 'artifact' IS NOT NULL ORDER BY seq DESC LIMIT 1;

-- name: CancelSteps :one
-- When the worker that held the run last was told to cancel it, and when it first said that it is stopping.
SELECT x.cancel_told_at, x.stopping_at FROM (
    SELECT l.fencing_token, l.cancel_told_at, l.stopping_at FROM run_leases l WHERE l.tenant_id = $1 AND l.run_id = $2
    UNION ALL
    SELECT e.fencing_token, e.cancel_told_at, e.stopping_at FROM ended_leases e WHERE e.tenant_id = $1 AND e.run_id = $2
) x ORDER BY x.fencing_token DESC LIMIT 1;

-- name: CancelWaste :one
-- What a run still used up after somebody had asked to cancel it.
SELECT coalesce(sum(cost_micros), 0)::bigint AS cost_micros, coalesce(sum(input_tokens + output_tokens), 0)::bigint AS tokens
FROM usages WHERE tenant_id = @tenant_id AND run_id = @run_id AND at > @asked::timestamptz;

-- name: LastEvent :one
SELECT seq, kind, actor_kind, actor_id, actor_name, from_state, to_state, attempt_no, at, payload
FROM run_events WHERE tenant_id = $1 AND run_id = $2 AND kind = $3 ORDER BY seq DESC LIMIT 1;

-- name: WasVerified :one
-- Whether a worker ever held a lease to verify a run: nobody else can have begun to.
SELECT (EXISTS (SELECT 1 FROM run_leases l WHERE l.run_id = @run_id AND l.tenant_id = @tenant_id AND l.phase = 'verify')
    OR EXISTS (SELECT 1 FROM ended_leases e WHERE e.run_id = @run_id AND e.tenant_id = @tenant_id AND e.phase = 'verify'))::bool AS verified;

-- name: LatestOperations :many
-- The newest effects outside of one run, newest first.
SELECT * FROM operations WHERE tenant_id = $1 AND run_id = $2 ORDER BY intended_at DESC, id DESC LIMIT $3;

-- name: StepsWithin :many
-- Steps that began in a stretch of time, in the order in which the server learned of them.
SELECT id, attempt_no, lease_id, phase, call_id, kind, name, state, summary, exit_code, duration_ms, started_at, finished_at, coalesce(seq, 0)::bigint AS seq
FROM steps WHERE tenant_id = @tenant_id AND run_id = @run_id AND started_at >= @since AND started_at < @until ORDER BY steps.seq LIMIT @count;
