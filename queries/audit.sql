-- The audit log: a hash chain for each tenant, written by the trigger audit_log_chain.

-- name: InsertAudit :exec
INSERT INTO audit_log (tenant_id, actor_kind, actor_id, actor_name, channel, remote_addr, request_id, action, object_type, object_id, result, reason, detail)
VALUES (@tenant_id, @actor_kind, @actor_id, @actor_name, @channel, @remote_addr, @request_id, @action, @object_type, @object_id, @result, @reason, @detail);

-- name: AuditHeads :many
SELECT h.tenant_id, h.seq, h.hash FROM audit_heads h WHERE h.tenant_id > @after AND h.seq > 0 ORDER BY h.tenant_id LIMIT @count;

-- name: AuditTenants :many
SELECT t.id, t.name FROM tenants t ORDER BY t.name;

-- name: AuditHead :one
SELECT h.seq, h.hash FROM audit_heads h WHERE h.tenant_id = $1;

-- name: AuditHashAt :one
SELECT l.hash FROM audit_log l WHERE l.tenant_id = $1 AND l.seq = $2;

-- name: AuditRows :many
-- The rows as they are stored: instants as their bytes, so that one which no clock can show is read too; the id decides where two have one number.
SELECT l.tenant_id, l.seq, l.id, timestamptz_send(l.at)::bytea AS instant, l.xid::text AS transaction, l.actor_kind, l.actor_id, l.actor_name,
    l.channel, l.remote_addr, l.request_id, l.action, l.object_type, l.object_id, l.result, l.reason, l.detail::text AS detail, l.hash
FROM audit_log l WHERE l.tenant_id = @tenant_id AND (l.seq, l.id) > (@seq::bigint, @id::bigint) ORDER BY l.seq, l.id LIMIT @count;

-- name: PageAudit :many
-- The newest rows before a number that the filters let pass; empty filters let all pass.
SELECT l.seq, l.at, l.actor_kind, l.actor_id, l.actor_name, l.channel, l.remote_addr, l.request_id, l.action, l.object_type, l.object_id, l.result, l.reason,
    l.detail, l.hash
FROM audit_log l
WHERE l.tenant_id = @tenant_id AND l.seq < @before
  AND (@actor_id::text = '' OR l.actor_id = @actor_id)
  AND (@actor_name::text = '' OR position(lower(@actor_name) IN lower(l.actor_name)) > 0)
  AND (cardinality(@actions::text[]) = 0 OR l.action = ANY(@actions))
  AND (@prefix::text = '' OR starts_with(l.action, @prefix))
  AND (@object_id::text = '' OR l.object_id = @object_id)
  AND (@object_type::text = '' OR l.object_type = @object_type)
  AND (@result::text = '' OR l.result = @result)
  AND (sqlc.narg(since)::timestamptz IS NULL OR l.at >= sqlc.narg(since))
  AND (sqlc.narg(until)::timestamptz IS NULL OR l.at < sqlc.narg(until))
ORDER BY l.seq DESC LIMIT @count;

-- name: CountAudit :one
SELECT count(*)::int AS found FROM (SELECT 1 FROM audit_log l
    WHERE l.tenant_id = @tenant_id
      AND (@actor_id::text = '' OR l.actor_id = @actor_id)
      AND (@actor_name::text = '' OR position(lower(@actor_name) IN lower(l.actor_name)) > 0)
      AND (cardinality(@actions::text[]) = 0 OR l.action = ANY(@actions))
      AND (@prefix::text = '' OR starts_with(l.action, @prefix))
      AND (@object_id::text = '' OR l.object_id = @object_id)
      AND (@object_type::text = '' OR l.object_type = @object_type)
      AND (@result::text = '' OR l.result = @result)
      AND (sqlc.narg(since)::timestamptz IS NULL OR l.at >= sqlc.narg(since))
      AND (sqlc.narg(until)::timestamptz IS NULL OR l.at < sqlc.narg(until))
    LIMIT @most) c;

-- name: AuditActions :many
-- All actions of the tenant, by one jump of the index for each.
WITH RECURSIVE known AS (
    (SELECT l.action FROM audit_log l WHERE l.tenant_id = $1 ORDER BY l.action LIMIT 1)
    UNION ALL
    SELECT (SELECT l.action FROM audit_log l WHERE l.tenant_id = $1 AND l.action > k.action ORDER BY l.action LIMIT 1) FROM known k WHERE k.action IS NOT NULL
)
SELECT k.action::text AS action FROM known k WHERE k.action IS NOT NULL ORDER BY 1;

-- name: AuditResults :many
-- How the newest actions ended.
SELECT DISTINCT n.result FROM (SELECT l.result FROM audit_log l WHERE l.tenant_id = $1 ORDER BY l.seq DESC LIMIT 2000) n ORDER BY 1;
