-- What "My turn" reads: whose turn it is at each open gate of a tenant.

-- name: WaitingGates :many
-- Open gates, those that expire first; of a person (mine) or of everybody else. A person who approved this revision has done their part.
SELECT g.id FROM gates g JOIN tasks t ON t.tenant_id = g.tenant_id AND t.id = g.task_id
WHERE g.tenant_id = @tenant_id AND g.state IN ('open', 'expired')
  AND @mine::boolean = (g.role = ANY(@roles::text[]) AND t.requested_by <> @user_id::uuid
    AND NOT EXISTS (SELECT 1 FROM decisions d WHERE d.gate_id = g.id AND d.revision = g.revision AND d.user_id = @user_id AND d.verdict = 'approve'))
ORDER BY g.expires_at, g.id
LIMIT @count;

-- name: GatesApprovedBy :many
SELECT g.id FROM gates g
WHERE g.tenant_id = @tenant_id AND g.id = ANY(@ids::uuid[])
  AND EXISTS (SELECT 1 FROM decisions d WHERE d.gate_id = g.id AND d.revision = g.revision AND d.user_id = @user_id AND d.verdict = 'approve');

-- name: PatchesByArtifact :many
SELECT artifact_id, facts FROM patches WHERE tenant_id = $1 AND artifact_id = ANY(@ids::uuid[]);
