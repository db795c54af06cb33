-- name: SchedulerGauges :many
-- Everything that is measured about the present, in one look: what, of which name, how many, and the oldest's age in seconds.
SELECT 'queue'::text AS what, queue AS name, count(*)::float8 AS amount, extract(epoch FROM clock_timestamp() - min(visible_at))::float8 AS age
    FROM run_queue GROUP BY queue
UNION ALL SELECT 'delayed', queue, count(*)::float8, 0 FROM run_delayed GROUP BY queue
UNION ALL SELECT 'admission', '', count(*)::float8, 0 FROM run_admissions
UNION ALL SELECT 'paused', queue, 1, extract(epoch FROM clock_timestamp() - min(paused_at))::float8 FROM paused_queues GROUP BY queue
UNION ALL SELECT 'lease', phase, count(*)::float8, coalesce(max(extract(epoch FROM clock_timestamp() - heartbeat_at)), 0)::float8
    FROM run_leases WHERE expires_at > clock_timestamp() GROUP BY phase
UNION ALL SELECT 'overdue', '', count(*)::float8, coalesce(max(extract(epoch FROM clock_timestamp() - expires_at)), 0)::float8
    FROM run_leases WHERE expires_at <= clock_timestamp()
UNION ALL SELECT 'worker', CASE WHEN heartbeat_at < clock_timestamp() - make_interval(secs => @stale_seconds::float8) THEN 'STALE'
        WHEN drain_requested THEN 'DRAINING' ELSE state END, count(*)::float8, max(extract(epoch FROM clock_timestamp() - heartbeat_at))::float8
    FROM worker_boots WHERE state NOT IN ('STOPPED', 'DEAD') GROUP BY 2
UNION ALL SELECT 'slots', '', coalesce(sum(max_concurrent), 0)::float8, 0
    FROM worker_boots WHERE state = 'READY' AND NOT drain_requested AND heartbeat_at > clock_timestamp() - make_interval(secs => @stale_seconds::float8)
UNION ALL SELECT 'outbox', CASE WHEN dead THEN 'dead' ELSE 'waiting' END, count(*)::float8, coalesce(max(extract(epoch FROM clock_timestamp() - next_at)), 0)::float8
    FROM outbox GROUP BY dead;

-- name: SchemaVersion :one
SELECT schema_version()::bigint AS version;

-- name: PausedQueues :many
SELECT * FROM paused_queues;

-- name: PauseQueue :execrows
INSERT INTO paused_queues (tenant_id, queue, reason, by_id, by_name) VALUES (@tenant_id, @queue, @reason, @by_id, @by_name)
ON CONFLICT (tenant_id, queue) DO NOTHING;

-- name: ResumeQueue :execrows
DELETE FROM paused_queues WHERE tenant_id = $1 AND queue = $2;

-- name: ProviderPauses :many
-- The providers that are left alone, for all tenants; of the run that was turned away last no more than its own tenant may see.
-- Who works with a provider is each tenant's own business, so that only the installation sees those of others.
SELECT p.provider, p.since, p.until, p.failures, (p.until <= clock_timestamp())::boolean AS due,
    EXISTS (SELECT 1 FROM run_leases l WHERE l.run_id = p.probe AND l.phase = 'execute')::boolean AS probing,
    coalesce(r.id, '00000000-0000-0000-0000-000000000000')::uuid AS run_id, coalesce(t.title, '')::text AS title, coalesce(u.name, '')::text AS by,
    (CASE WHEN r.id IS NULL THEN '' ELSE p.reason END)::text AS reason
FROM provider_pauses p LEFT JOIN runs r ON r.id = p.run_id AND r.tenant_id = @tenant_id LEFT JOIN tasks t ON t.id = r.task_id LEFT JOIN users u ON u.id = t.requested_by
WHERE @tenant_id = @installation::uuid OR r.id IS NOT NULL
    OR EXISTS (SELECT 1 FROM run_queue q WHERE q.tenant_id = @tenant_id AND q.provider = p.provider)
    OR EXISTS (SELECT 1 FROM run_delayed d WHERE d.tenant_id = @tenant_id AND d.provider = p.provider)
    OR EXISTS (SELECT 1 FROM run_leases h WHERE h.tenant_id = @tenant_id AND h.provider = p.provider)
ORDER BY p.provider;

-- name: ResumeProvider :execrows
DELETE FROM provider_pauses WHERE provider = $1;

-- name: PageQueues :many
-- The tenant's queues: what waits, what is under way, and what came and went a minute, over the last ten or, where more
-- happened, over the newest 5,000 events of all tenants: what it costs does not grow with the log. Events are counted by run first,
-- so that each run is looked up once.
WITH waiting AS (SELECT q.queue, count(*) AS depth, min(q.visible_at) AS oldest FROM run_queue q WHERE q.tenant_id = @tenant_id GROUP BY q.queue),
delayed AS (SELECT d.queue, count(*) AS depth FROM run_delayed d WHERE d.tenant_id = @tenant_id GROUP BY d.queue),
held AS (SELECT l.queue, count(*) AS depth FROM run_leases l WHERE l.tenant_id = @tenant_id GROUP BY l.queue),
newest AS MATERIALIZED (SELECT e.tenant_id, e.run_id, e.kind, e.to_state, e.at FROM run_events e ORDER BY e.id DESC LIMIT 5000),
span AS (SELECT CASE WHEN count(*) = 5000 THEN least(greatest(extract(epoch FROM clock_timestamp() - min(at)) / 60, 0.1), 10) ELSE 10 END AS minutes FROM newest),
moves AS MATERIALIZED (SELECT n.run_id, count(*) FILTER (WHERE n.kind = 'run_enqueued') AS came,
        count(*) FILTER (WHERE n.to_state IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED')) AS went
    FROM newest n WHERE n.tenant_id = @tenant_id AND n.at > clock_timestamp() - interval '10 minutes'
      AND (n.kind = 'run_enqueued' OR n.to_state IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED')) GROUP BY n.run_id),
moved AS (SELECT coalesce(nullif(r.route ->> 'queue', ''), 'default') AS queue, sum(m.came) AS came, sum(m.went) AS went
    FROM moves m JOIN runs r ON r.id = m.run_id GROUP BY 1),
served AS (SELECT u.queue, count(*) AS depth FROM worker_boots b JOIN worker_credentials w ON w.id = b.worker_id CROSS JOIN LATERAL unnest(b.queues) u(queue)
    WHERE (w.tenant_id IS NULL OR w.tenant_id = @tenant_id) AND w.revoked_at IS NULL AND b.state = 'READY' AND NOT b.drain_requested
      AND b.heartbeat_at > clock_timestamp() - make_interval(secs => @stale_seconds::float8) GROUP BY u.queue),
names AS (SELECT queue FROM waiting UNION SELECT queue FROM delayed UNION SELECT queue FROM held UNION SELECT queue FROM moved UNION SELECT queue FROM served
    UNION SELECT p.queue FROM paused_queues p WHERE p.tenant_id = @tenant_id OR p.tenant_id = @installation UNION SELECT 'default')
SELECT n.queue::text AS queue, coalesce(waiting.depth, 0)::bigint AS depth, coalesce(waiting.oldest, 'epoch')::timestamptz AS oldest,
    coalesce(delayed.depth, 0)::bigint AS delayed, coalesce(held.depth, 0)::bigint AS running, (coalesce(moved.came, 0) / span.minutes)::float8 AS came,
    (coalesce(moved.went, 0) / span.minutes)::float8 AS went, coalesce(served.depth, 0)::bigint AS workers
FROM names n LEFT JOIN waiting ON waiting.queue = n.queue LEFT JOIN delayed ON delayed.queue = n.queue LEFT JOIN held ON held.queue = n.queue
LEFT JOIN moved ON moved.queue = n.queue LEFT JOIN served ON served.queue = n.queue CROSS JOIN span
ORDER BY n.queue;

-- name: WaitingItems :many
-- The tenant's READY items that have waited longest, as WaitingItem has one. Those that are shown are found first, and only they are
-- looked up.
SELECT q.*, coalesce(CASE WHEN q.phase = 'verify' THEN (SELECT e.worker_id FROM ended_leases e
        WHERE e.run_id = q.run_id AND e.phase = 'execute' ORDER BY e.fencing_token DESC LIMIT 1) END,
    '00000000-0000-0000-0000-000000000000')::uuid AS maker,
    (SELECT count(*) FROM (SELECT 1 FROM run_queue a WHERE a.place = q.place
        AND (a.rank, a.run_id) < (q.rank, q.run_id) LIMIT 1000) x)::int AS ahead, t.title
FROM (SELECT w.* FROM run_queue w WHERE w.tenant_id = @tenant_id ORDER BY w.visible_at, w.run_id LIMIT @count) q
JOIN runs r ON r.id = q.run_id JOIN tasks t ON t.id = r.task_id ORDER BY q.visible_at, q.run_id;

-- name: LeasesOfTenant :many
-- Who works on what of the tenant's; overdue says that the lease is over by the database's clock and nobody took it back yet.
SELECT l.run_id, l.boot_id, l.worker_id, l.phase, l.acquired_at, l.heartbeat_at, l.expires_at, (l.expires_at < clock_timestamp())::boolean AS overdue, t.title
FROM run_leases l JOIN runs r ON r.id = l.run_id JOIN tasks t ON t.id = r.task_id WHERE l.tenant_id = @tenant_id ORDER BY l.acquired_at LIMIT 1000;

-- name: BootsOfTenant :many
-- The boots that may work for the tenant: those that are up, and the newest of each credential for a day.
SELECT * FROM (
    SELECT b.*, w.name AS credential_name, (w.tenant_id IS NOT DISTINCT FROM @tenant_id::uuid)::boolean AS own, (w.revoked_at IS NOT NULL)::boolean AS revoked,
        (SELECT count(*) FROM run_leases l WHERE l.boot_id = b.id)::bigint AS leases,
        row_number() OVER (PARTITION BY b.worker_id ORDER BY b.started_at DESC) AS age
    FROM worker_boots b JOIN worker_credentials w ON w.id = b.worker_id
    WHERE (w.tenant_id IS NULL OR w.tenant_id = @tenant_id) AND b.heartbeat_at > clock_timestamp() - interval '1 day'
) x WHERE x.age = 1 OR x.state NOT IN ('STOPPED', 'DEAD') ORDER BY x.name, x.started_at DESC LIMIT 1000;

-- name: DrainBoots :execrows
-- Asks the worker's present boots to finish what they have and end. A worker of all tenants is the installation's.
UPDATE worker_boots b SET drain_requested = true FROM worker_credentials w
WHERE w.id = b.worker_id AND b.worker_id = @worker_id AND b.state NOT IN ('STOPPED', 'DEAD')
  AND (w.tenant_id = @tenant_id::uuid OR w.tenant_id IS NULL AND @tenant_id::uuid = @installation::uuid);
