-- What admission counts, and what work costs.

-- name: HoldOffAdmissions :exec
-- One admission of a tenant counts at a time, so that what it counts is still so when it commits.
SELECT pg_advisory_xact_lock(hashtextextended('signalbox admission ' || @tenant::text, 0));

-- name: AdmissionGrounds :one
-- What a submission and an admission stand on, all in one statement: the answer that the request's key got before, the
-- policy in force, the repository, what is under way for the tenant and, of people's work, for one requester, and which
-- providers are held off. Items are counted no further than a quota needs.
SELECT clock_timestamp()::timestamptz AS now,
    coalesce((SELECT to_jsonb(k) FROM idempotency_keys k WHERE k.tenant_id = @tenant_id AND k.scope = @scope AND k.key = @key), 'null')::jsonb AS stored,
    coalesce((SELECT d.document FROM policies d WHERE d.tenant_id = @tenant_id ORDER BY d.seq DESC LIMIT 1), '')::text AS document,
    coalesce((SELECT to_jsonb(r) FROM repositories r WHERE r.tenant_id = @tenant_id AND r.id = @repository_id), 'null')::jsonb AS repository,
    (SELECT count(*) FROM (SELECT 1 FROM run_queue q WHERE q.tenant_id = @tenant_id LIMIT @most) x)::int
     + (SELECT count(*) FROM (SELECT 1 FROM run_delayed d WHERE d.tenant_id = @tenant_id LIMIT @most) x)::int AS queued,
    (SELECT count(*) FROM run_leases l WHERE l.tenant_id = @tenant_id)::int AS leased,
    (SELECT count(*) FROM gates g WHERE g.tenant_id = @tenant_id AND g.state IN ('open', 'expired'))::int AS gates,
    (SELECT count(*) FROM gates g WHERE g.tenant_id = @tenant_id AND g.state IN ('open', 'expired')
        AND (SELECT t.requested_by FROM tasks t WHERE t.id = g.task_id) = @requester)::int AS own_gates,
    (SELECT count(*) FROM pull_requests p WHERE p.tenant_id = @tenant_id AND p.state NOT IN ('MERGED', 'CLOSED'))::int AS pulls,
    (SELECT count(*) FROM pull_requests p WHERE p.tenant_id = @tenant_id AND p.state NOT IN ('MERGED', 'CLOSED')
        AND (SELECT t.requested_by FROM tasks t WHERE t.id = p.task_id) = @requester)::int AS own_pulls,
    coalesce((SELECT jsonb_object_agg(p.provider, extract(epoch FROM p.until - clock_timestamp())) FROM provider_pauses p), '{}')::jsonb AS pauses,
    NOT EXISTS (SELECT 1 FROM worker_boots b WHERE b.state IN ('STARTING', 'READY') AND b.heartbeat_at > clock_timestamp() - make_interval(secs => @ttl_seconds::float8)) AS no_worker;

-- name: AdmissionRates :one
-- What the tenant used of what it shares with others: tokens of a provider and bytes in the last minute, pull requests of the
-- repository's forge in the last hour, and those that are open in the repository.
SELECT coalesce((SELECT sum(u.input_tokens + u.output_tokens) FROM usages u JOIN runs r ON r.id = u.run_id
        WHERE u.tenant_id = @tenant_id AND u.at > clock_timestamp() - interval '1 minute' AND coalesce(r.route ->> 'provider', '') = @provider::text), 0)::bigint AS provider_tokens,
    (SELECT count(*) FROM pull_requests p JOIN repositories o ON o.id = p.repository_id
        WHERE p.tenant_id = @tenant_id AND p.created_at > clock_timestamp() - interval '1 hour' AND o.forge_id = here.forge_id)::int AS forge_pulls,
    (SELECT count(*) FROM pull_requests p WHERE p.repository_id = here.id AND p.state NOT IN ('MERGED', 'CLOSED'))::int AS repository_pulls,
    coalesce((SELECT sum(a.size) FROM artifacts a WHERE a.tenant_id = @tenant_id AND a.created_at > clock_timestamp() - interval '1 minute'), 0)::bigint AS artifact_bytes
FROM repositories here WHERE here.tenant_id = @tenant_id AND here.name = @repository::text;

-- name: ProviderOfRun :one
SELECT coalesce(route ->> 'provider', '')::text AS provider FROM runs WHERE tenant_id = @tenant_id AND id = @run_id;

-- name: TenantCost :one
-- What the tenant's work cost between two instants: reported, estimated and unknown are never added up as one.
SELECT coalesce(sum(cost_micros) FILTER (WHERE source = 'reported'), 0)::bigint AS reported,
    coalesce(sum(cost_micros) FILTER (WHERE source = 'estimated'), 0)::bigint AS estimated,
    coalesce(sum(greatest(provider_calls, 1)) FILTER (WHERE source = 'unknown'), 0)::bigint AS unknown_calls
FROM usages WHERE tenant_id = @tenant_id AND at >= @since AND at < @until;

-- name: DayCosts :many
-- The same for each day of a time zone.
SELECT to_char(date_trunc('day', at, @zone::text) AT TIME ZONE @zone::text, 'YYYY-MM-DD')::text AS day,
    coalesce(sum(cost_micros) FILTER (WHERE source = 'reported'), 0)::bigint AS reported,
    coalesce(sum(cost_micros) FILTER (WHERE source = 'estimated'), 0)::bigint AS estimated,
    coalesce(sum(greatest(provider_calls, 1)) FILTER (WHERE source = 'unknown'), 0)::bigint AS unknown_calls,
    sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens, sum(tool_ms)::bigint AS tool_ms, sum(provider_calls)::bigint AS provider_calls
FROM usages WHERE tenant_id = @tenant_id AND at >= @since AND at < @until GROUP BY 1 ORDER BY 1;

-- name: RunCost :one
-- What one run cost, by dimension. What stood how long is measured here: time under leases, stored bytes, time at gates.
WITH leases AS (
    SELECT e.phase, e.acquired_at, e.ended_at FROM ended_leases e WHERE e.run_id = @run_id
    UNION ALL SELECT l.phase, l.acquired_at, clock_timestamp() FROM run_leases l WHERE l.run_id = @run_id
), used AS (
    SELECT source, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(tool_ms) AS tool_ms,
        sum(provider_calls) AS provider_calls, sum(cost_micros) AS cost_micros, sum(greatest(provider_calls, 1)) AS unknown_calls
    FROM usages WHERE usages.tenant_id = @tenant_id AND usages.run_id = @run_id GROUP BY source
)
SELECT r.limits, r.cost_exceeded_at,
    coalesce((SELECT jsonb_object_agg(u.source, to_jsonb(u)) FROM used u), '{}')::jsonb AS used,
    (SELECT coalesce(sum(extract(epoch FROM l.ended_at - l.acquired_at)) FILTER (WHERE l.phase <> 'publish'), 0)::float8 FROM leases l) AS sandbox_seconds,
    (SELECT coalesce(sum(extract(epoch FROM l.ended_at - l.acquired_at)) FILTER (WHERE l.phase = 'verify'), 0)::float8 FROM leases l) AS ci_seconds,
    (SELECT coalesce(sum(a.size), 0)::bigint FROM artifacts a WHERE a.tenant_id = @tenant_id AND a.run_id = @run_id) AS stored_bytes,
    (SELECT coalesce(sum(extract(epoch FROM coalesce(g.closed_at, clock_timestamp()) - g.opened_at)), 0)::float8 FROM gates g WHERE g.tenant_id = @tenant_id AND g.run_id = @run_id) AS review_seconds
FROM runs r WHERE r.tenant_id = @tenant_id AND r.id = @run_id;

-- name: RunModels :many
-- What each model cost one run, by where the numbers come from; the dearest model first.
SELECT model, source, sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens, sum(provider_calls)::bigint AS provider_calls,
    sum(cost_micros)::bigint AS cost_micros, sum(greatest(provider_calls, 1))::bigint AS unknown_calls
FROM usages WHERE tenant_id = @tenant_id AND run_id = @run_id AND greatest(provider_calls, input_tokens, output_tokens, cost_micros) > 0
GROUP BY model, source
ORDER BY sum(sum(cost_micros)) OVER (PARTITION BY model) DESC, sum(sum(input_tokens + output_tokens)) OVER (PARTITION BY model) DESC, model, source LIMIT @count;

-- name: LeaseTimes :many
-- Runs under a lease in which budgets of time can be used up, with how long sandboxes stood for them and verifiers worked.
SELECT l.tenant_id, l.run_id, l.lease_id, r.limits, t.sandbox_seconds, t.verifier_seconds
FROM run_leases l JOIN runs r ON r.id = l.run_id CROSS JOIN LATERAL (
    SELECT coalesce(sum(extract(epoch FROM x.ended_at - x.acquired_at)), 0)::float8 AS sandbox_seconds,
        coalesce(sum(extract(epoch FROM x.ended_at - x.acquired_at)) FILTER (WHERE x.phase = 'verify'), 0)::float8 AS verifier_seconds
    FROM (SELECT e.phase, e.acquired_at, e.ended_at FROM ended_leases e WHERE e.run_id = l.run_id
        UNION ALL SELECT l.phase, l.acquired_at, clock_timestamp()) x WHERE x.phase <> 'publish') t
WHERE l.run_id > @after AND l.phase <> 'publish' AND r.stop_signal = '' AND r.state <> 'CANCELLING' ORDER BY l.run_id LIMIT @count;

-- name: RunningSteps :many
-- Steps that run under a lease that is active, after the given step.
SELECT s.tenant_id, s.run_id, s.id, s.started_at, r.limits, clock_timestamp()::timestamptz AS now
FROM run_leases l JOIN steps s ON s.lease_id = l.lease_id JOIN runs r ON r.id = l.run_id
WHERE s.state = 'RUNNING' AND s.started_at < clock_timestamp() - interval '1 second' AND s.id > @after ORDER BY s.id LIMIT @count;

-- name: TimeOutStep :execrows
-- The step's own end; what it belongs to goes on or ends by clocks of its own. A later word about the step changes nothing.
UPDATE steps SET state = 'TIMED_OUT', summary = left('STEP_TIMEOUT: ' || @words::text || ' ' || summary, 1000), finished_at = clock_timestamp(),
    duration_ms = (extract(epoch FROM clock_timestamp() - started_at) * 1000)::bigint
WHERE tenant_id = @tenant_id AND id = @id AND state = 'RUNNING';

-- name: WaitingRuns :many
-- Runs that began, whose work waits again, ready or put off, and whose own time is over. As for OldItems, a limit that is written
-- otherwise is the caller's to judge.
SELECT r.tenant_id, r.id, r.version, r.limits, r.active_ms, r.state_since, clock_timestamp()::timestamptz AS now
FROM (SELECT q.run_id FROM run_queue q UNION ALL SELECT d.run_id FROM run_delayed d) w JOIN runs r ON r.id = w.run_id
WHERE r.lease_id IS NULL AND r.attempt_no > 0 AND r.id > @after AND r.created_at < statement_timestamp() - interval '1 second'
    AND r.state_since < statement_timestamp() + make_interval(secs => r.active_ms / 1000.0) - CASE
    WHEN r.limits ->> 'run_timeout' ~ '^([0-9]{1,6}d|([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?)$' AND r.limits ->> 'run_timeout' <> ''
    THEN (r.limits ->> 'run_timeout')::interval ELSE make_interval(secs => r.active_ms / 1000.0) END
ORDER BY r.id LIMIT @count;
