-- Who is calling: providers, logins, sessions, tokens and workers' credentials.
-- Secrets are looked up by hash; what has ended is never found.

-- name: ListProviders :many
SELECT id, name, issuer, client_id, groups_claim, dev FROM providers ORDER BY name;

-- name: GetProvider :one
SELECT id, name, issuer, client_id, client_secret, client_secret_sealed, groups_claim, dev FROM providers WHERE id = $1;

-- name: InsertProvider :one
-- The client secret follows by itself: it is sealed for the row's id, which is known only now.
INSERT INTO providers (id, name, issuer, client_id, groups_claim, dev)
VALUES (@id, @name, @issuer, @client_id, @groups_claim, @dev)
ON CONFLICT ON CONSTRAINT providers_name_key DO UPDATE
SET client_id = excluded.client_id, groups_claim = excluded.groups_claim,
    -- The issuer is pinned: with another one every subject would mean somebody else. Only dev mode moves its port.
    issuer = CASE WHEN providers.dev AND excluded.dev THEN excluded.issuer ELSE providers.issuer END
RETURNING id, issuer;

-- name: SetClientSecret :exec
UPDATE providers SET client_secret = '', client_secret_sealed = @sealed WHERE id = @id;

-- name: InsertGroupRole :exec
INSERT INTO group_roles (tenant_id, provider_id, group_name, role) VALUES (@tenant_id, @provider_id, @group_name, @role)
ON CONFLICT ON CONSTRAINT group_roles_pk DO NOTHING;

-- name: DeleteOtherGroupRoles :exec
-- What the configuration named once and names no longer gives nobody a role.
DELETE FROM group_roles WHERE tenant_id = @tenant_id AND provider_id = @provider_id
  AND (group_name, role) NOT IN (SELECT unnest(@groups::text[]), unnest(@roles::text[]));

-- name: InsertLoginState :exec
INSERT INTO login_states (state_hash, provider_id, nonce, verifier, return_to, confirms, expires_at)
VALUES (@state_hash, @provider_id, @nonce, @verifier, @return_to, @confirms, now() + make_interval(secs => sqlc.arg(seconds)::float8));

-- name: DeleteOldLoginStates :exec
DELETE FROM login_states WHERE expires_at < now() - interval '1 hour';

-- name: TakeLoginState :one
DELETE FROM login_states WHERE state_hash = $1
RETURNING provider_id, nonce, verifier, return_to, confirms, (expires_at > now())::bool AS live;

-- name: GetIdentity :one
-- It locks the person: what a sign-in gives them and what somebody takes from them meanwhile come one after the other.
SELECT i.user_id, (u.disabled_at IS NOT NULL)::bool AS disabled
FROM identities i JOIN users u ON u.id = i.user_id
WHERE i.provider_id = $1 AND i.subject = $2 FOR NO KEY UPDATE OF u;

-- name: LockPerson :exec
SELECT FROM users WHERE id = $1 FOR NO KEY UPDATE;

-- name: InsertUser :exec
INSERT INTO users (id, name, email) VALUES ($1, $2, $3);

-- name: InsertIdentity :execrows
INSERT INTO identities (provider_id, subject, user_id) VALUES ($1, $2, $3)
ON CONFLICT ON CONSTRAINT identities_pk DO NOTHING;

-- name: UpdateUser :exec
UPDATE users SET name = $2, email = $3 WHERE id = $1 AND (name, email) IS DISTINCT FROM ($2, $3);

-- name: ListGroupRoles :many
SELECT tenant_id, role, array_agg(group_name ORDER BY group_name)::text[] AS groups
FROM group_roles WHERE provider_id = @provider_id AND group_name = ANY(@groups::text[])
GROUP BY tenant_id, role ORDER BY tenant_id, role;

-- name: DeleteOtherMemberships :exec
DELETE FROM memberships WHERE user_id = @user_id AND NOT (tenant_id = ANY(@tenants::uuid[]));

-- name: UpsertMembership :exec
INSERT INTO memberships (tenant_id, user_id, roles, provider_id, groups, appointed) VALUES (@tenant_id, @user_id, @roles, @provider_id, @groups, @appointed)
ON CONFLICT ON CONSTRAINT memberships_pk DO UPDATE SET roles = excluded.roles, provider_id = excluded.provider_id, groups = excluded.groups,
    appointed = excluded.appointed, updated_at = now();

-- name: GetTenant :one
SELECT id, name FROM tenants WHERE id = $1;

-- name: InsertSession :exec
INSERT INTO sessions (id_hash, id, user_id, tenant_id, provider_id, subject, auth_time, browser, provider_sid, id_token_sealed, idle_expires_at, expires_at)
VALUES (@id_hash, @id, @user_id, @tenant_id, @provider_id, @subject, @auth_time, @browser, @provider_sid, @id_token_sealed,
        now() + make_interval(secs => sqlc.arg(idle_seconds)::float8), now() + make_interval(secs => sqlc.arg(absolute_seconds)::float8));

-- name: DeleteSession :execrows
DELETE FROM sessions WHERE id_hash = $1;

-- name: DeleteOldSessions :exec
DELETE FROM sessions WHERE user_id = $1 AND (expires_at < now() OR idle_expires_at < now());

-- name: GetSession :one
SELECT s.user_id, s.tenant_id, t.name AS tenant_name, u.name, u.email, s.provider_id, s.subject, s.auth_time, s.expires_at,
       (s.last_seen_at < now() - interval '1 minute')::bool AS stale, coalesce(m.roles, '{}')::text[] AS roles
FROM sessions s
JOIN users u ON u.id = s.user_id
JOIN tenants t ON t.id = s.tenant_id
LEFT JOIN memberships m ON m.tenant_id = s.tenant_id AND m.user_id = s.user_id
WHERE s.id_hash = $1 AND s.revoked_at IS NULL AND s.expires_at > now() AND s.idle_expires_at > now() AND u.disabled_at IS NULL;

-- name: LiveSessions :many
-- Which of many sessions live; none of them begins its idle time again.
SELECT s.id_hash FROM sessions s JOIN users u ON u.id = s.user_id
WHERE s.id_hash = ANY(@hashes::bytea[]) AND s.revoked_at IS NULL AND s.expires_at > now() AND s.idle_expires_at > now() AND u.disabled_at IS NULL;

-- name: TouchSession :exec
UPDATE sessions SET last_seen_at = now(), idle_expires_at = least(expires_at, now() + make_interval(secs => sqlc.arg(idle_seconds)::float8))
WHERE id_hash = @id_hash;

-- name: GetToken :one
SELECT a.id, a.tenant_id, t.name AS tenant_name, a.user_id, u.name AS user_name, u.email, a.kind, a.scopes, a.auth_time, a.created_at, a.expires_at,
       (a.last_used_at IS NULL OR a.last_used_at < now() - interval '1 minute')::bool AS stale, coalesce(m.roles, '{}')::text[] AS roles
FROM api_tokens a
JOIN users u ON u.id = a.user_id
JOIN tenants t ON t.id = a.tenant_id
LEFT JOIN memberships m ON m.tenant_id = a.tenant_id AND m.user_id = a.user_id
WHERE a.hash = $1 AND a.revoked_at IS NULL AND a.expires_at > now() AND u.disabled_at IS NULL;

-- name: TouchToken :exec
UPDATE api_tokens SET last_used_at = now() WHERE id = $1;

-- name: InsertToken :one
INSERT INTO api_tokens (id, tenant_id, user_id, kind, name, hash, scopes, auth_time, expires_at)
VALUES (@id, @tenant_id, @user_id, @kind, @name, @hash, @scopes, @auth_time, @expires_at)
RETURNING created_at;

-- name: ListTokens :many
SELECT id, kind, name, scopes, created_at, expires_at, last_used_at, revoked_at
FROM api_tokens WHERE tenant_id = $1 AND user_id = $2 ORDER BY created_at DESC, id DESC LIMIT 500;

-- name: RevokeToken :execrows
UPDATE api_tokens SET revoked_at = coalesce(revoked_at, now()) WHERE tenant_id = $1 AND user_id = $2 AND id = $3;

-- name: InsertLoginCode :exec
INSERT INTO login_codes (code_hash, user_id, tenant_id, challenge, auth_time, expires_at)
VALUES (@code_hash, @user_id, @tenant_id, @challenge, @auth_time, now() + make_interval(secs => sqlc.arg(seconds)::float8));

-- name: TakeLoginCode :one
DELETE FROM login_codes WHERE code_hash = $1
RETURNING user_id, tenant_id, challenge, auth_time, (expires_at > now())::bool AS live;

-- name: DeleteOldLoginCodes :exec
DELETE FROM login_codes WHERE expires_at < now() - interval '1 hour';

-- name: GetWorkerCredentials :many
-- The live credentials under some hashes: every request of a worker asks, so that requests ask together.
SELECT w.hash, w.id, w.tenant_id, coalesce(t.name, '')::text AS tenant_name, w.name, w.phases,
       (w.last_used_at IS NULL OR w.last_used_at < now() - interval '1 minute')::bool AS stale
FROM worker_credentials w LEFT JOIN tenants t ON t.id = w.tenant_id
WHERE w.hash = ANY(ARRAY(SELECT unnest(@hashes::bytea[]))) AND w.revoked_at IS NULL;

-- name: TouchWorkerCredential :exec
-- One of many requests that come at once writes it; the others wait for nobody.
UPDATE worker_credentials SET last_used_at = now() WHERE id = (SELECT w.id FROM worker_credentials w
    WHERE w.id = $1 AND (w.last_used_at IS NULL OR w.last_used_at < now() - interval '1 minute') FOR NO KEY UPDATE SKIP LOCKED);

-- name: InsertWorkerCredential :one
INSERT INTO worker_credentials (id, tenant_id, name, hash, phases) VALUES (@id, @tenant_id, @name, @hash, @phases)
RETURNING created_at;

-- name: ListWorkerCredentials :many
SELECT id, name, phases, created_at, last_used_at, revoked_at FROM worker_credentials WHERE tenant_id = $1
ORDER BY created_at DESC, id DESC LIMIT 500;

-- name: RevokeWorkerCredential :execrows
UPDATE worker_credentials SET revoked_at = coalesce(revoked_at, now()) WHERE tenant_id = $1 AND id = $2;

-- name: LockAdminLinks :exec
-- One link at a time is made or used, so that what they stand on is still so when they commit.
SELECT pg_advisory_xact_lock(hashtextextended('signalbox admin links', 0));

-- name: HasAdministrator :one
SELECT EXISTS (SELECT FROM memberships m JOIN users u ON u.id = m.user_id WHERE m.tenant_id = $1 AND 'admin' = ANY(m.roles) AND u.disabled_at IS NULL) AS has;

-- name: DropAdminLinks :exec
DELETE FROM admin_links WHERE used_at IS NULL;

-- name: InsertAdminLink :exec
INSERT INTO admin_links (hash, forced, expires_at) VALUES (@hash, @forced, now() + make_interval(secs => sqlc.arg(seconds)::float8));

-- name: GetAdminLink :one
SELECT forced, used_by, expires_at, (expires_at > now())::bool AS live FROM admin_links WHERE hash = $1;

-- name: UseAdminLink :execrows
UPDATE admin_links SET used_at = now(), used_by = @used_by WHERE hash = @hash AND used_at IS NULL AND expires_at > now();

-- name: Appoint :exec
INSERT INTO memberships (tenant_id, user_id, roles, appointed) VALUES (@tenant_id, @user_id, ARRAY['admin'], @appointed)
ON CONFLICT ON CONSTRAINT memberships_pk DO UPDATE SET appointed = excluded.appointed,
    roles = CASE WHEN 'admin' = ANY(memberships.roles) THEN memberships.roles ELSE array_append(memberships.roles, 'admin') END;

-- name: Appointment :one
SELECT appointed FROM memberships WHERE tenant_id = $1 AND user_id = $2;

-- name: Dismiss :execrows
UPDATE memberships SET appointed = '', roles = array_remove(roles, 'admin') WHERE tenant_id = $1 AND user_id = $2 AND appointed <> '';
