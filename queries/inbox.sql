-- What "My turn" reads: whose turn it is at each open gate of a tenant.

-- name: WaitingGates :many
-- Open gates, those that expire first: a person's own (mine), those they put off (snoozed), or everybody else's (others). A person who
-- approved this revision has done their part, and one who passed it on, too.
SELECT g.id FROM gates g JOIN tasks t ON t.tenant_id = g.tenant_id AND t.id = g.task_id
LEFT JOIN turns m ON m.tenant_id = g.tenant_id AND m.gate_id = g.id AND m.user_id = @user_id::uuid
WHERE g.tenant_id = @tenant_id AND g.state IN ('open', 'expired')
  AND @list::text = CASE
    WHEN g.role <> ALL(@roles::text[]) OR t.requested_by = @user_id OR m.passed_to IS NOT NULL AND m.passed_revision = g.revision
      OR EXISTS (SELECT 1 FROM decisions d WHERE d.gate_id = g.id AND d.revision = g.revision AND d.user_id = @user_id AND d.verdict = 'approve') THEN 'others'
    WHEN m.snooze_revision = g.revision AND g.state = 'open' AND (m.snooze_until IS NULL OR m.snooze_until > now()) THEN 'snoozed'
    ELSE 'mine' END
ORDER BY g.expires_at, g.id
LIMIT @count;

-- name: GatesApprovedBy :many
SELECT g.id FROM gates g
WHERE g.tenant_id = @tenant_id AND g.id = ANY(@ids::uuid[])
  AND EXISTS (SELECT 1 FROM decisions d WHERE d.gate_id = g.id AND d.revision = g.revision AND d.user_id = @user_id AND d.verdict = 'approve');

-- name: PatchesByArtifact :many
SELECT artifact_id, facts FROM patches WHERE tenant_id = $1 AND artifact_id = ANY(@ids::uuid[]);
