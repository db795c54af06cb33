-- What an administrator looks after: people and where their rights come from, providers, tokens, credentials.

-- name: ListPeople :many
SELECT u.id, u.name, u.email, u.created_at, (u.disabled_at IS NOT NULL)::bool AS disabled, m.roles, m.groups, m.updated_at, m.provider_id, coalesce(p.name, '')::text AS provider
FROM memberships m JOIN users u ON u.id = m.user_id LEFT JOIN providers p ON p.id = m.provider_id
WHERE m.tenant_id = @tenant_id AND (u.created_at, u.id) < (@before_at::timestamptz, @before_id::uuid)
  AND (@query::text = '' OR strpos(lower(u.name || ' ' || u.email), lower(@query::text)) > 0)
ORDER BY u.created_at DESC, u.id DESC LIMIT sqlc.arg(count)::int;

-- name: CountPeople :one
SELECT count(*)::int FROM (SELECT FROM memberships m JOIN users u ON u.id = m.user_id
    WHERE m.tenant_id = @tenant_id AND (@query::text = '' OR strpos(lower(u.name || ' ' || u.email), lower(@query::text)) > 0) LIMIT sqlc.arg(most)::int) x;

-- name: GetPerson :one
SELECT u.id, u.name, u.email, u.created_at, (u.disabled_at IS NOT NULL)::bool AS disabled, m.roles, m.groups, m.updated_at, m.provider_id, coalesce(p.name, '')::text AS provider
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
