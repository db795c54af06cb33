-- What people and administrators see of logins, and how they end them. Sessions are deleted, tokens of the command line are
-- revoked; either way the next request with them finds nobody.

-- name: ListSessions :many
SELECT s.id, s.browser AS name, false AS command_line, (s.id_hash = @current)::bool AS current, s.created_at, s.last_seen_at,
       least(s.idle_expires_at, s.expires_at)::timestamptz AS ends_at
FROM sessions s WHERE s.user_id = @user_id AND s.revoked_at IS NULL AND s.expires_at > now() AND s.idle_expires_at > now()
UNION ALL
SELECT a.id, a.name, true, false, a.created_at, coalesce(a.last_used_at, a.created_at), a.expires_at
FROM api_tokens a WHERE a.user_id = @user_id AND a.kind = 'login' AND a.revoked_at IS NULL AND a.expires_at > now()
ORDER BY created_at DESC, id LIMIT 500;

-- name: ListSignedIn :many
SELECT u.id, u.name, u.email, count(*)::int AS logins, max(l.seen)::timestamptz AS last_seen_at
FROM (
    SELECT s.user_id, s.last_seen_at AS seen FROM sessions s
    WHERE s.tenant_id = @tenant_id AND s.revoked_at IS NULL AND s.expires_at > now() AND s.idle_expires_at > now()
    UNION ALL
    SELECT a.user_id, coalesce(a.last_used_at, a.created_at) FROM api_tokens a
    WHERE a.tenant_id = @tenant_id AND a.kind = 'login' AND a.revoked_at IS NULL AND a.expires_at > now()
) l JOIN users u ON u.id = l.user_id
GROUP BY u.id ORDER BY lower(u.name), u.id LIMIT 500;

-- name: EndSession :execrows
DELETE FROM sessions WHERE user_id = @user_id AND id = @id;

-- name: EndLogin :execrows
UPDATE api_tokens SET revoked_at = now() WHERE user_id = @user_id AND id = @id AND kind = 'login' AND revoked_at IS NULL AND expires_at > now();

-- name: EndSessions :execrows
DELETE FROM sessions WHERE user_id = @user_id AND (sqlc.narg(tenant_id)::uuid IS NULL OR tenant_id = sqlc.narg(tenant_id)) AND id_hash IS DISTINCT FROM sqlc.narg(except_hash)::bytea;

-- name: EndLogins :execrows
UPDATE api_tokens SET revoked_at = now()
WHERE user_id = @user_id AND (sqlc.narg(tenant_id)::uuid IS NULL OR tenant_id = sqlc.narg(tenant_id)) AND kind = 'login' AND revoked_at IS NULL AND expires_at > now();

-- name: DropLoginCodes :exec
-- A code on its way to a command line would be a way back in for whoever asked for it.
DELETE FROM login_codes WHERE user_id = ANY(@user_ids::uuid[]) AND (sqlc.narg(tenant_id)::uuid IS NULL OR tenant_id = sqlc.narg(tenant_id));

-- name: TakeSession :one
DELETE FROM sessions WHERE id_hash = $1 RETURNING user_id, provider_id, id_token_sealed;

-- name: DeleteOldLogoutTokens :exec
DELETE FROM logout_tokens WHERE expires_at < now();

-- name: UseLogoutToken :execrows
INSERT INTO logout_tokens (provider_id, jti_hash, expires_at) VALUES (@provider_id, @jti_hash, @expires_at)
ON CONFLICT ON CONSTRAINT logout_tokens_pk DO NOTHING;

-- name: EndProviderSessions :many
-- What a logout token names: the provider's session, or without one all of the subject's. A session of which the provider
-- never said the name counts as any of its subject's.
DELETE FROM sessions
WHERE provider_id = @provider_id AND (@subject::text = '' OR subject = @subject)
  AND (@sid::text = '' OR provider_sid = @sid OR (provider_sid = '' AND @subject <> ''))
RETURNING user_id, tenant_id;

-- name: EndSubjectLogins :many
UPDATE api_tokens a SET revoked_at = now() FROM identities i
WHERE i.provider_id = @provider_id AND i.subject = @subject AND a.user_id = i.user_id
  AND a.kind = 'login' AND a.revoked_at IS NULL AND a.expires_at > now()
RETURNING a.user_id, a.tenant_id;
