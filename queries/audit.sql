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
