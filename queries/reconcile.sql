-- What should never be and is looked for all the same. Each list is a page by key of what is wrong only, so that what is
-- in order hides nothing; each repair looks again, under the run's row lock, whether it still is.

-- name: WrongRuns :many
-- Open runs (each its task's active run) whose row and surroundings differ. What was set aside is left alone. Attempts that a
-- drain released, that took their worker down or that a provider turned away use up none of the attempts that a run has.
SELECT f.tenant_id, f.id, f.version, f.code FROM (
    SELECT r.tenant_id, r.id, r.version, (CASE
        WHEN r.lease_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM run_leases l WHERE l.run_id = r.id AND l.lease_id = r.lease_id) THEN 'LEASE_MISSING'
        WHEN r.queued IS NOT NULL AND NOT EXISTS (SELECT 1 FROM run_queue q WHERE q.run_id = r.id)
            AND NOT EXISTS (SELECT 1 FROM run_delayed d WHERE d.run_id = r.id) THEN 'ITEM_MISSING'
        WHEN r.state = 'PR_CREATED' THEN 'COMPLETION_MISSING'
        WHEN r.state = 'CREATED' AND NOT EXISTS (SELECT 1 FROM run_admissions a WHERE a.run_id = r.id) THEN 'ADMISSION_MISSING'
        WHEN r.state = 'QUEUED' AND r.attempt_no - r.released - r.crashed - r.rate_limited >= CASE WHEN jsonb_typeof(r.limits -> 'max_attempts') = 'number' THEN (r.limits ->> 'max_attempts')::numeric END THEN 'ATTEMPTS_PAST_MAXIMUM'
        ELSE '' END)::text AS code
    FROM tasks t JOIN runs r ON r.id = t.active_run_id
    WHERE t.active_run_id > @after::uuid AND t.active_run_id IS NOT NULL AND r.finished_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM quarantine x WHERE x.run_id = r.id)
) f WHERE f.code <> '' ORDER BY f.id LIMIT @count;

-- name: WrongItems :many
-- Items that their run does not wait by.
SELECT f.tenant_id, f.run_id, f.version, f.code FROM (
    SELECT q.tenant_id, q.run_id, r.version, (CASE WHEN r.finished_at IS NOT NULL THEN 'ITEM_OF_ENDED_RUN' ELSE 'ITEM_OF_OTHER_PHASE' END)::text AS code
    FROM run_queue q JOIN runs r ON r.id = q.run_id WHERE q.run_id > @after::uuid AND r.queued IS DISTINCT FROM q.phase
    UNION ALL
    SELECT d.tenant_id, d.run_id, r.version, (CASE WHEN r.finished_at IS NOT NULL THEN 'DELAY_OF_ENDED_RUN' ELSE 'DELAY_OF_OTHER_PHASE' END)::text
    FROM run_delayed d JOIN runs r ON r.id = d.run_id WHERE d.run_id > @after::uuid AND r.queued IS DISTINCT FROM d.phase
    UNION ALL
    SELECT d.tenant_id, d.run_id, r.version, 'ITEM_TWICE'
    FROM run_delayed d JOIN run_queue q ON q.run_id = d.run_id JOIN runs r ON r.id = d.run_id WHERE d.run_id > @after::uuid AND r.queued = d.phase
) f ORDER BY f.run_id, f.code LIMIT @count;

-- name: WrongLeases :many
SELECT l.tenant_id, l.run_id, l.fencing_token FROM run_leases l JOIN runs r ON r.id = l.run_id
WHERE l.run_id > @after::uuid AND r.lease_id IS DISTINCT FROM l.lease_id ORDER BY l.run_id LIMIT @count;

-- name: WrongAttempts :many
-- Attempts that are still open though their run has ended or is at another one.
SELECT a.tenant_id, a.run_id, a.id, r.version FROM attempts a JOIN runs r ON r.id = a.run_id
WHERE a.state = 'STARTED' AND a.id > @after::uuid AND (r.finished_at IS NOT NULL OR r.attempt_id IS DISTINCT FROM a.id) ORDER BY a.id LIMIT @count;

-- name: WrongSandboxes :many
SELECT s.tenant_id, s.run_id, s.lease_id FROM sandboxes s
WHERE s.state IN ('REQUESTED', 'READY', 'SAVING') AND s.lease_id > @after::uuid AND NOT EXISTS (SELECT 1 FROM run_leases l WHERE l.lease_id = s.lease_id)
ORDER BY s.lease_id LIMIT @count;

-- name: WrongTasks :many
-- Busy tasks that nobody works for: no active run, or one that has ended.
SELECT t.tenant_id, t.id, t.version FROM tasks t LEFT JOIN runs r ON r.id = t.active_run_id
WHERE t.state IN ('RUNNING', 'WAITING_FOR_APPROVAL') AND t.id > @after::uuid
  AND (t.active_run_id IS NULL AND NOT t.awaits_merge OR r.finished_at IS NOT NULL) ORDER BY t.id LIMIT @count;

-- name: WrongGates :many
SELECT g.tenant_id, g.run_id, g.id, r.version FROM gates g JOIN runs r ON r.id = g.run_id
WHERE g.state IN ('preparing', 'open', 'expired') AND g.id > @after::uuid AND r.gate_id IS DISTINCT FROM g.id ORDER BY g.id LIMIT @count;

-- name: PutItem :execrows
-- The item of a run that waits and has none; the caller holds the run.
INSERT INTO run_queue (run_id, tenant_id, phase, repository_id, user_id, queue, risk, provider, pool, priority, requires, rank, visible_at)
SELECT u.id, u.tenant_id, q.phase, u.repository_id, t.requested_by, q.queue, u.risk, q.provider, q.pool, q.priority, q.requires, q.rank, q.visible_at
FROM json_populate_record(NULL::run_queue, @item::json) q JOIN runs u ON u.id = q.run_id JOIN tasks t ON t.id = u.task_id
WHERE u.queued = q.phase AND NOT EXISTS (SELECT 1 FROM run_delayed d WHERE d.run_id = u.id)
ON CONFLICT (run_id) DO NOTHING;

-- name: PutMissingAdmission :execrows
INSERT INTO run_admissions (run_id, tenant_id, due_at) VALUES (@run_id, @tenant_id, clock_timestamp()) ON CONFLICT (run_id) DO NOTHING;

-- name: DropWrongItem :execrows
-- A row that a claimer holds is left to it; items are locked before runs there, so waiting for one would be a deadlock.
DELETE FROM run_queue WHERE run_id IN (SELECT q.run_id FROM run_queue q JOIN runs r ON r.id = q.run_id
    WHERE q.run_id = $1 AND r.queued IS DISTINCT FROM q.phase FOR UPDATE OF q SKIP LOCKED);

-- name: DropWrongDelay :execrows
DELETE FROM run_delayed WHERE run_id IN (SELECT d.run_id FROM run_delayed d JOIN runs r ON r.id = d.run_id
    WHERE d.run_id = $1 AND (r.queued IS DISTINCT FROM d.phase OR EXISTS (SELECT 1 FROM run_queue q WHERE q.run_id = d.run_id)) FOR UPDATE OF d SKIP LOCKED);

-- name: DropWrongLease :execrows
WITH ended AS (
    DELETE FROM run_leases USING runs r WHERE run_leases.run_id = @run_id AND r.id = run_leases.run_id AND r.lease_id IS DISTINCT FROM run_leases.lease_id
    RETURNING run_leases.*
)
INSERT INTO ended_leases (lease_id, tenant_id, run_id, fencing_token, phase, worker_id, boot_id, attempt_id, acquired_at, cancel_told_at, stopping_at, state, reason, ended_at)
SELECT e.lease_id, e.tenant_id, e.run_id, e.fencing_token, e.phase, e.worker_id, e.boot_id, e.attempt_id, e.acquired_at, e.cancel_told_at, e.stopping_at, 'REVOKED', 'reconciled', clock_timestamp() FROM ended e
ON CONFLICT (lease_id) DO NOTHING;

-- name: CloseWrongAttempt :execrows
UPDATE attempts SET state = CASE r.state WHEN 'SUCCEEDED' THEN 'SUCCEEDED' WHEN 'CANCELLED' THEN 'ABORTED' ELSE 'FAILED' END,
    code = CASE WHEN r.state IN ('SUCCEEDED', 'CANCELLED') THEN attempts.code ELSE coalesce(r.failure_code, nullif(r.reason_code, ''), 'UNKNOWN') END, ended_at = clock_timestamp()
FROM runs r WHERE attempts.id = @id AND attempts.state = 'STARTED' AND r.id = attempts.run_id AND (r.finished_at IS NOT NULL OR r.attempt_id IS DISTINCT FROM attempts.id);

-- name: CloseWrongSandbox :execrows
UPDATE sandboxes SET state = 'FAILED', updated_at = clock_timestamp() WHERE sandboxes.lease_id = @lease_id AND sandboxes.state IN ('REQUESTED', 'READY', 'SAVING')
    AND NOT EXISTS (SELECT 1 FROM run_leases l WHERE l.lease_id = sandboxes.lease_id);

-- name: CloseWrongGate :execrows
UPDATE gates SET state = 'cancelled', closed_at = clock_timestamp() FROM runs r
WHERE gates.id = @id AND gates.state IN ('preparing', 'open', 'expired') AND r.id = gates.run_id AND r.gate_id IS DISTINCT FROM gates.id;

-- name: LatestRunOfTask :one
SELECT r.id, r.state FROM runs r WHERE r.tenant_id = $1 AND r.task_id = $2 ORDER BY r.created_at DESC, r.id DESC LIMIT 1;

-- name: InsertRepair :exec
INSERT INTO repairs (id, tenant_id, run_id, task_id, code, detail) VALUES (@id, @tenant_id, @run_id, @task_id, @code, @detail);

-- name: RepairsOfRun :many
SELECT code, detail, at FROM repairs WHERE tenant_id = $1 AND run_id = $2 ORDER BY at DESC, id DESC LIMIT 100;

-- name: CountRepairs :many
SELECT code, count(*)::bigint AS n FROM repairs GROUP BY code ORDER BY code;

-- name: SetAside :execrows
INSERT INTO quarantine (run_id, tenant_id, by_loop, reason, failures) SELECT r.id, r.tenant_id, @by_loop::text, @reason::text, @failures::int FROM runs r WHERE r.id = @run_id
ON CONFLICT (run_id) DO NOTHING;

-- name: SetAsideRuns :many
SELECT run_id FROM quarantine WHERE by_loop = $1;

-- name: SetAsideOf :one
SELECT by_loop, reason, failures, since FROM quarantine WHERE tenant_id = $1 AND run_id = $2;

-- name: ReleaseAside :execrows
DELETE FROM quarantine WHERE tenant_id = $1 AND run_id = $2;

-- name: HurryItem :execrows
-- A delayed item that a person wants now; delivery does the rest.
UPDATE run_delayed SET available_at = clock_timestamp() WHERE tenant_id = $1 AND run_id = $2 AND available_at > clock_timestamp();

-- name: ItemOfRun :one
-- Where a run's work waits: ready, delayed or nowhere.
SELECT EXISTS (SELECT 1 FROM run_queue q WHERE q.run_id = @run_id) AS ready, EXISTS (SELECT 1 FROM run_delayed d WHERE d.run_id = @run_id) AS delayed,
    coalesce((SELECT d.available_at FROM run_delayed d WHERE d.run_id = @run_id), 'epoch')::timestamptz AS until;

-- name: LastEventOfRun :one
SELECT seq, kind, to_state, at FROM run_events WHERE tenant_id = $1 AND run_id = $2 ORDER BY seq DESC LIMIT 1;

-- name: HolderOfRun :one
-- Who holds the run, by the database's clock.
SELECT l.lease_id, l.fencing_token, l.phase, l.heartbeat_at, l.expires_at, (l.expires_at < clock_timestamp())::boolean AS expired, b.name, clock_timestamp()::timestamptz AS now
FROM run_leases l JOIN worker_boots b ON b.id = l.boot_id WHERE l.tenant_id = $1 AND l.run_id = $2;
