-- name: ExpiredLeases :many
SELECT l.tenant_id, l.run_id, l.lease_id, l.fencing_token, l.phase, r.state, (r.cancel_at IS NOT NULL)::boolean AS cancelling FROM run_leases l JOIN runs r ON r.id = l.run_id
WHERE l.expires_at < clock_timestamp() AND l.run_id > @after ORDER BY l.run_id LIMIT @count;

-- name: RevokableLeases :many
-- Leases of runs whose cancel grace is over, or that were told to stop for the budget and did not. Time-outs have a clock of their own.
SELECT l.tenant_id, l.run_id, l.lease_id, l.fencing_token, l.phase, r.state, (r.cancel_at IS NOT NULL)::boolean AS cancelling, r.stop_signal FROM run_leases l JOIN runs r ON r.id = l.run_id
WHERE (r.cancel_at < clock_timestamp() - make_interval(secs => @cancel_seconds::float8)
    OR r.stop_signal = 'budget' AND r.stop_signal_at < clock_timestamp() - make_interval(secs => @stop_seconds::float8))
  AND l.run_id > @after ORDER BY l.run_id LIMIT @count;

-- name: DueDelayed :many
-- Moves what is due into the queue, in one statement; a run that has left the phase meanwhile has no row here.
-- statement_timestamp() is one time, so the index finds what is due; clock_timestamp() would be compared with every row.
WITH due AS (
    DELETE FROM run_delayed WHERE run_id IN (
        SELECT d.run_id FROM run_delayed d WHERE d.available_at <= statement_timestamp() ORDER BY d.available_at LIMIT @count FOR UPDATE SKIP LOCKED)
    RETURNING run_delayed.*
)
INSERT INTO run_queue (run_id, tenant_id, phase, repository_id, user_id, queue, risk, provider, pool, priority, requires, rank)
SELECT due.run_id, due.tenant_id, due.phase, r.repository_id, t.requested_by, due.queue, r.risk, due.provider, due.pool, due.priority, due.requires,
    clock_timestamp() - due.priority * make_interval(secs => @aging_seconds::float8)
FROM due JOIN runs r ON r.id = due.run_id JOIN tasks t ON t.id = r.task_id
WHERE r.queued = due.phase
ON CONFLICT (run_id) DO NOTHING
RETURNING run_id, tenant_id, phase;

-- name: DueGates :many
-- How long an expired gate stays parked is its tenant's own rule; a tenant that is not in the list parks for ever.
SELECT g.tenant_id, g.id, g.run_id, g.state, g.revision, r.version FROM gates g JOIN runs r ON r.id = g.run_id
WHERE ((g.state = 'open' AND g.expires_at < clock_timestamp())
    OR (g.state = 'expired' AND g.expires_at < clock_timestamp() - make_interval(secs => (@park_seconds::float8[])[array_position(@tenants::uuid[], g.tenant_id)])))
  AND g.id > @after ORDER BY g.id LIMIT @count;

-- name: DueAttestations :many
SELECT tenant_id, run_id, expires_at FROM attestations WHERE state = 'requested' AND expires_at < clock_timestamp() AND run_id > @after ORDER BY run_id LIMIT @count;

-- name: DueAdmissions :many
-- Every tenant's first before anybody's second; of each tenant no more than its share, however many of its runs are due.
SELECT a.tenant_id, a.run_id FROM tenants t CROSS JOIN LATERAL (
    SELECT d.tenant_id, d.run_id, d.due_at, row_number() OVER (ORDER BY d.due_at, d.run_id) AS turn FROM (
        SELECT x.tenant_id, x.run_id, x.due_at FROM run_admissions x
        WHERE x.tenant_id = t.id AND x.due_at <= statement_timestamp() AND x.run_id <> ALL(@skip::uuid[])
        ORDER BY x.due_at, x.run_id LIMIT @share) d) a
WHERE t.id <> ALL(@full_tenants::uuid[]) ORDER BY a.turn, a.due_at, a.run_id LIMIT @count;

-- name: PutAdmission :exec
INSERT INTO run_admissions (run_id, tenant_id, due_at) VALUES (@run_id, @tenant_id, @due_at)
ON CONFLICT (run_id) DO UPDATE SET due_at = excluded.due_at;

-- name: DropAdmission :exec
DELETE FROM run_admissions WHERE run_id = $1;

-- name: OldItems :many
-- READY items that have waited longer than their run allows, found by one look at all that wait. A limit that is written otherwise
-- than in days, hours, minutes and seconds is the caller's to judge: such an item is in the list after a second.
SELECT q.tenant_id, q.run_id, q.visible_at, r.limits, r.version, clock_timestamp()::timestamptz AS now FROM run_queue q JOIN runs r ON r.id = q.run_id
WHERE q.run_id > @after AND q.visible_at < statement_timestamp() - CASE
    WHEN r.limits ->> 'queue_timeout' ~ '^([0-9]{1,6}d|([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?)$' AND r.limits ->> 'queue_timeout' <> ''
    THEN (r.limits ->> 'queue_timeout')::interval ELSE interval '1 second' END
ORDER BY q.run_id LIMIT @count;

-- name: ActiveRuns :many
-- Runs under a lease, with what the clocks of attempt, start and run need.
SELECT r.tenant_id, r.id, r.state, r.version, r.limits, r.active_ms, r.state_since, r.stop_signal, r.stop_signal_at, l.lease_id, l.fencing_token, l.phase,
    l.acquired_at, a.run_active_ms AS attempt_active_ms, clock_timestamp()::timestamptz AS now
FROM run_leases l JOIN runs r ON r.id = l.run_id JOIN attempts a ON a.id = l.attempt_id
WHERE r.id > @after AND r.state <> 'CANCELLING' ORDER BY r.id LIMIT @count;

-- name: SignalBudget :execrows
-- Asks the worker to stop for a budget, and keeps when it was first seen to be reached.
UPDATE runs SET stop_signal = CASE WHEN stop_signal = '' THEN 'budget' ELSE stop_signal END,
    stop_signal_at = coalesce(stop_signal_at, clock_timestamp()), updated_at = clock_timestamp(),
    cost_exceeded_at = CASE WHEN @of_cost::boolean THEN coalesce(cost_exceeded_at, clock_timestamp()) ELSE cost_exceeded_at END
WHERE tenant_id = @tenant_id AND id = @id AND lease_id IS NOT NULL AND (stop_signal = '' OR @of_cost::boolean AND cost_exceeded_at IS NULL);

-- name: SignalRun :execrows
-- Asks the worker that holds this lease to stop; the signal travels in the heartbeat's answer.
UPDATE runs SET stop_signal = @signal, stop_signal_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE tenant_id = @tenant_id AND id = @id AND stop_signal = '' AND lease_id = @lease_id::uuid;

-- name: TakeOutbox :many
-- Effects that are due, of each run only the first: what follows waits until that one is delivered or given up, so that
-- a run's effects keep their order whoever delivers them. The row is locked while it is delivered and deleted by delivery.
SELECT * FROM outbox o WHERE NOT o.dead AND o.next_at <= clock_timestamp()
    AND (SELECT min(e.id) FROM outbox e WHERE e.run_id = o.run_id AND NOT e.dead) = o.id
ORDER BY o.id LIMIT $1 FOR UPDATE SKIP LOCKED;

-- name: DelayOutbox :exec
UPDATE outbox SET attempts = attempts + 1, last_error = @last_error, dead = @dead,
    next_at = clock_timestamp() + make_interval(secs => @seconds::float8) WHERE id = @id;

-- name: TurnIntoNotices :exec
-- What was delivered stays as notices and leaves the outbox.
WITH gone AS (DELETE FROM outbox WHERE outbox.id = ANY(@ids::bigint[]) RETURNING outbox.*)
INSERT INTO notices (tenant_id, outbox_id, run_id, topic, payload)
SELECT gone.tenant_id, gone.id, gone.run_id, gone.topic, gone.payload FROM gone ORDER BY gone.id
ON CONFLICT (outbox_id) DO NOTHING;

-- name: IdleTasks :many
-- Each tenant has its own patience, likewise for merges; a tenant that is not in the list has no end of it.
SELECT tenant_id, id, updated_at FROM tasks WHERE state = 'READY' AND NOT auto_run AND updated_at < clock_timestamp() - make_interval(secs => (@idle_seconds::float8[])[array_position(@tenants::uuid[], tenant_id)])
  AND id > @after::uuid ORDER BY id LIMIT @count;

-- name: MergeWaits :many
SELECT tenant_id, id, updated_at FROM tasks WHERE awaits_merge AND updated_at < clock_timestamp() - make_interval(secs => (@wait_seconds::float8[])[array_position(@tenants::uuid[], tenant_id)])
  AND id > @after::uuid ORDER BY id LIMIT @count;

-- name: PutOffAttestation :exec
UPDATE attestations SET expires_at = clock_timestamp() + make_interval(secs => @seconds::float8) WHERE run_id = @run_id AND state = 'requested' AND expires_at = @until;

-- name: RequestedAttestation :one
SELECT expires_at FROM attestations WHERE tenant_id = @tenant_id AND run_id = @run_id AND state = 'requested';

-- name: ForgetKeys :execrows
-- By the index on when they were stored; one that another replica deletes is left to it.
DELETE FROM idempotency_keys WHERE (tenant_id, scope, key) IN (SELECT k.tenant_id, k.scope, k.key FROM idempotency_keys k
    WHERE k.created_at < statement_timestamp() - make_interval(secs => @seconds::float8) ORDER BY k.created_at LIMIT @count FOR UPDATE SKIP LOCKED);

-- name: ForgetBoots :execrows
-- Boots that ended long ago and were followed by a newer one of the same worker; the last one is what the page of workers shows.
DELETE FROM worker_boots WHERE id IN (SELECT b.id FROM worker_boots b
    WHERE b.state IN ('STOPPED', 'DEAD') AND b.started_at < statement_timestamp() - make_interval(secs => @seconds::float8)
      AND b.stopped_at < statement_timestamp() - make_interval(secs => @seconds::float8)
      AND EXISTS (SELECT 1 FROM worker_boots n WHERE n.worker_id = b.worker_id AND n.started_at > b.started_at)
      AND NOT EXISTS (SELECT 1 FROM run_leases l WHERE l.boot_id = b.id)
    ORDER BY b.started_at LIMIT @count FOR UPDATE OF b SKIP LOCKED);
