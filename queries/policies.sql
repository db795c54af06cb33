-- Policies are never changed: a new document is a new row, and the newest is in force.

-- name: PoliciesInForce :many
-- Every tenant with its newest document; the empty string where it has none and the defaults hold.
SELECT t.id AS tenant_id, coalesce((SELECT p.document FROM policies p WHERE p.tenant_id = t.id ORDER BY p.seq DESC LIMIT 1), '')::text AS document FROM tenants t;

-- name: PoliciesOf :many
-- As PoliciesInForce, of some tenants.
SELECT t.id AS tenant_id, coalesce((SELECT p.document FROM policies p WHERE p.tenant_id = t.id ORDER BY p.seq DESC LIMIT 1), '')::text AS document
FROM tenants t WHERE t.id = ANY(ARRAY(SELECT unnest(@ids::uuid[])));

-- name: InsertPolicy :exec
INSERT INTO policies (id, tenant_id, version, document) VALUES (@id, @tenant_id, @version, @document);
