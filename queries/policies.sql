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

-- name: LockPolicies :exec
-- One change of a tenant's policy at a time; work goes on meanwhile.
SELECT id FROM tenants WHERE id = @tenant_id FOR NO KEY UPDATE;

-- name: PutPolicy :exec
INSERT INTO policies (id, tenant_id, version, document, reason, created_by, confirmed_by)
VALUES (@id, @tenant_id, @version, @document, @reason, @created_by, @confirmed_by);

-- name: PolicyVersions :many
-- The newest first; the first is in force.
SELECT p.version, p.created_at, p.reason, coalesce(u.name, '') AS created_by, coalesce(c.name, '') AS confirmed_by, length(p.document)::int AS bytes
FROM policies p LEFT JOIN users u ON u.id = p.created_by LEFT JOIN users c ON c.id = p.confirmed_by
WHERE p.tenant_id = @tenant_id ORDER BY p.seq DESC LIMIT @most;

-- name: PolicyVersion :one
SELECT document FROM policies WHERE tenant_id = @tenant_id AND version = @version;

-- name: ProposePolicy :exec
INSERT INTO policy_proposals (id, tenant_id, version, document, based_on, reason, proposed_by)
VALUES (@id, @tenant_id, @version, @document, @based_on, @reason, @proposed_by);

-- name: PolicyProposal :one
-- The change that waits for a second administrator.
SELECT p.*, coalesce(u.name, '') AS proposer FROM policy_proposals p LEFT JOIN users u ON u.id = p.proposed_by
WHERE p.tenant_id = @tenant_id AND p.decided_at IS NULL;

-- name: PolicyProposed :one
-- Whether a change to this version was ever proposed, whatever became of it: its name stands for one text for good.
SELECT EXISTS (SELECT 1 FROM policy_proposals WHERE tenant_id = @tenant_id AND version = @version);

-- name: DecideProposal :execrows
UPDATE policy_proposals SET decided_by = @decided_by, decided_at = clock_timestamp(), confirmed = @confirmed
WHERE tenant_id = @tenant_id AND id = @id AND decided_at IS NULL;

-- name: TakeSimulation :one
-- The tenant's turn to simulate, on whatever server; it is given back with the end of the transaction.
SELECT pg_try_advisory_xact_lock(hashtextextended('signalbox simulation ' || @tenant::text, 0))::bool AS mine;

-- name: SimulatedRuns :many
-- Past runs with what a decision about them asks, the newest first: the contract, the patch that the run ended with, and
-- what its judge said.
SELECT r.id, r.created_at, r.state, r.risk, r.mode, r.outcome, r.verification_digest, t.title, t.contract, t.requested_by, t.agent_profile, t.priority,
    p.name AS repository, p.scope, p.forbidden, p.requires, coalesce(m.roles, '{}')::text[] AS roles,
    coalesce(r.patch ->> 'artifact', '')::text AS patch, coalesce(j.judge, '{}')::jsonb AS judge
FROM (SELECT r.* FROM runs r WHERE r.tenant_id = @tenant_id AND (r.created_at, r.id) < (@before_at::timestamptz, @before_id::uuid) ORDER BY r.created_at DESC, r.id DESC LIMIT @most) r
JOIN tasks t ON t.id = r.task_id
JOIN repositories p ON p.tenant_id = r.tenant_id AND p.id = t.repository_id
LEFT JOIN memberships m ON m.tenant_id = r.tenant_id AND m.user_id = t.requested_by
LEFT JOIN LATERAL (SELECT e.payload -> 'payload' -> 'judge' AS judge FROM run_events e
    WHERE e.tenant_id = r.tenant_id AND e.run_id = r.id AND e.kind IN ('human_approval_required', 'auto_pr_allowed', 'approval_carried', 'completion_condition_met', 'attestation_required')
    ORDER BY e.seq DESC LIMIT 1) j ON true
ORDER BY r.created_at DESC, r.id DESC;
