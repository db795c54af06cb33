-- What an administrator looks after: people and where their rights come from, providers, tokens, credentials.

-- name: ListPeople :many
SELECT u.id, u.name, u.email, u.created_at, (u.disabled_at IS NOT NULL)::bool AS disabled, m.roles, m.groups, m.updated_at, m.provider_id, m.appointed, coalesce(p.name, '')::text AS provider
FROM memberships m JOIN users u ON u.id = m.user_id LEFT JOIN providers p ON p.id = m.provider_id
WHERE m.tenant_id = @tenant_id AND (u.created_at, u.id) < (@before_at::timestamptz, @before_id::uuid)
  AND (@query::text = '' OR strpos(lower(u.name || ' ' || u.email), lower(@query::text)) > 0)
ORDER BY u.created_at DESC, u.id DESC LIMIT sqlc.arg(count)::int;

-- name: CountPeople :one
SELECT count(*)::int FROM (SELECT FROM memberships m JOIN users u ON u.id = m.user_id
    WHERE m.tenant_id = @tenant_id AND (@query::text = '' OR strpos(lower(u.name || ' ' || u.email), lower(@query::text)) > 0) LIMIT sqlc.arg(most)::int) x;

-- name: GetPerson :one
SELECT u.id, u.name, u.email, u.created_at, (u.disabled_at IS NOT NULL)::bool AS disabled, m.roles, m.groups, m.updated_at, m.provider_id, m.appointed, coalesce(p.name, '')::text AS provider
FROM memberships m JOIN users u ON u.id = m.user_id LEFT JOIN providers p ON p.id = m.provider_id
WHERE m.tenant_id = $1 AND m.user_id = $2;

-- name: ListGroupMappings :many
-- Every provider, with what its groups give in one tenant.
SELECT p.id, p.name, p.issuer, p.groups_claim, p.dev, coalesce(g.group_name, '')::text AS group_name, coalesce(g.role, '')::text AS role
FROM providers p LEFT JOIN group_roles g ON g.provider_id = p.id AND g.tenant_id = $1
ORDER BY p.name, g.group_name, g.role;

-- name: PageTokens :many
SELECT a.id, a.kind, a.name, a.scopes, a.created_at, a.expires_at, a.last_used_at, a.revoked_at, a.user_id, u.name AS user_name
FROM api_tokens a JOIN users u ON u.id = a.user_id
WHERE a.tenant_id = @tenant_id AND (a.created_at, a.id) < (@before_at::timestamptz, @before_id::uuid)
ORDER BY a.created_at DESC, a.id DESC LIMIT sqlc.arg(count)::int;

-- name: CountTokens :one
SELECT count(*)::int FROM (SELECT FROM api_tokens WHERE tenant_id = @tenant_id LIMIT sqlc.arg(most)::int) x;

-- name: RevokeAnyToken :execrows
UPDATE api_tokens SET revoked_at = coalesce(revoked_at, now()) WHERE tenant_id = $1 AND id = $2;

-- name: PageWorkerCredentials :many
SELECT id, name, phases, created_at, last_used_at, revoked_at FROM worker_credentials
WHERE tenant_id = @tenant_id AND (created_at, id) < (@before_at::timestamptz, @before_id::uuid)
ORDER BY created_at DESC, id DESC LIMIT sqlc.arg(count)::int;

-- name: CountWorkerCredentials :one
SELECT count(*)::int FROM (SELECT FROM worker_credentials WHERE tenant_id = @tenant_id LIMIT sqlc.arg(most)::int) x;

-- name: KeepPreflight :execrows
UPDATE repositories SET preflight = @preflight, preflight_at = clock_timestamp() WHERE tenant_id = @tenant_id AND id = @id;

-- name: UsedToday :many
-- What each requester used of what policy bounds, by repository: cost of today, decisions that wait and pull requests that are open.
SELECT t.requested_by, u.name::text AS requester, r.name::text AS repository, sum(x.micros)::bigint AS micros, sum(x.gates)::int AS gates, sum(x.pulls)::int AS pulls
FROM (
    SELECT o.task_id, coalesce(sum(s.cost_micros), 0)::bigint AS micros, 0 AS gates, 0 AS pulls FROM usages s JOIN runs o ON o.id = s.run_id
    WHERE s.tenant_id = @tenant_id AND s.at >= @since AND s.at < @until AND s.source <> 'unknown' GROUP BY o.task_id
    UNION ALL
    SELECT g.task_id, 0, count(*)::int, 0 FROM gates g WHERE g.tenant_id = @tenant_id AND g.state IN ('open', 'expired') GROUP BY g.task_id
    UNION ALL
    SELECT p.task_id, 0, 0, count(*)::int FROM pull_requests p WHERE p.tenant_id = @tenant_id AND p.state NOT IN ('MERGED', 'CLOSED') GROUP BY p.task_id
) x
JOIN tasks t ON t.tenant_id = @tenant_id AND t.id = x.task_id
JOIN users u ON u.id = t.requested_by
JOIN repositories r ON r.tenant_id = t.tenant_id AND r.id = t.repository_id
GROUP BY 1, 2, 3 ORDER BY 4 DESC, 2, 3 LIMIT @count;

-- name: Retention :one
-- What is stored of what is deleted after a time, and how much of it is due; and the size of what is kept.
SELECT (SELECT count(*) FROM idempotency_keys k WHERE k.tenant_id = @tenant_id)::bigint AS keys,
    (SELECT count(*) FROM idempotency_keys k WHERE k.tenant_id = @tenant_id AND k.created_at < now() - make_interval(secs => @key_seconds::float8))::bigint AS keys_due,
    (SELECT count(*) FROM drafts d WHERE d.tenant_id = @tenant_id)::bigint AS drafts,
    (SELECT count(*) FROM drafts d WHERE d.tenant_id = @tenant_id AND d.updated_at < now() - interval '30 days')::bigint AS drafts_due,
    (SELECT count(*) FROM sessions s WHERE s.tenant_id = @tenant_id)::bigint AS sessions,
    (SELECT count(*) FROM sessions s WHERE s.tenant_id = @tenant_id AND (s.expires_at < now() OR s.idle_expires_at < now()))::bigint AS sessions_due,
    (SELECT count(*) FROM artifacts a WHERE a.tenant_id = @tenant_id)::bigint AS artifacts,
    (SELECT coalesce(sum(a.size), 0) FROM artifacts a WHERE a.tenant_id = @tenant_id)::bigint AS artifact_bytes,
    coalesce((SELECT h.seq FROM audit_heads h WHERE h.tenant_id = @tenant_id), 0)::bigint AS audited,
    (SELECT count(*) FROM runs r WHERE r.tenant_id = @tenant_id)::bigint AS runs;
