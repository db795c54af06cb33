-- One-time tokens by which workers get their credentials.

-- name: InsertEnrolment :one
INSERT INTO worker_enrolments (id, tenant_id, name, phases, hash, created_by, expires_at)
VALUES (@id, @tenant_id, @name, @phases, @hash, @created_by, now() + make_interval(secs => sqlc.arg(seconds)::float8))
RETURNING created_at, expires_at;

-- name: LockEnrolment :one
SELECT e.id, e.tenant_id, e.name, e.phases, e.used_at, e.revoked_at, (e.expires_at <= now())::bool AS expired, e.expires_at
FROM worker_enrolments e WHERE e.hash = $1 FOR UPDATE;

-- name: UseEnrolment :execrows
UPDATE worker_enrolments SET used_at = now(), worker_id = @worker_id WHERE id = @id AND tenant_id = @tenant_id AND used_at IS NULL;

-- name: ListEnrolments :many
SELECT e.id, e.name, e.phases, e.created_at, e.expires_at, e.used_at, e.worker_id, e.revoked_at, u.name AS created_by
FROM worker_enrolments e JOIN users u ON u.id = e.created_by
WHERE e.tenant_id = $1 ORDER BY e.created_at DESC, e.id DESC LIMIT 500;

-- name: RevokeEnrolment :execrows
UPDATE worker_enrolments SET revoked_at = coalesce(revoked_at, now()) WHERE tenant_id = $1 AND id = $2 AND used_at IS NULL;
