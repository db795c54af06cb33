-- Policies are never changed: a new document is a new row, and the newest is in force.

-- name: InsertPolicy :exec
INSERT INTO policies (id, tenant_id, version, document) VALUES (@id, @tenant_id, @version, @document);
