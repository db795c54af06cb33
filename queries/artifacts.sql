-- name: Artifact :one
SELECT * FROM artifacts WHERE tenant_id = $1 AND id = $2;

-- name: LatestArtifact :one
SELECT * FROM artifacts WHERE tenant_id = $1 AND run_id = $2 AND kind = $3 ORDER BY created_at DESC, id DESC LIMIT 1;

-- name: InsertArtifact :one
-- The same bytes under the same name of one attempt are one artifact (R-RCV-5).
INSERT INTO artifacts (id, tenant_id, run_id, attempt_no, revision, kind, name, sha256, size, blob_key, lease_id, late)
SELECT a.id, a.tenant_id, a.run_id, a.attempt_no, a.revision, a.kind, a.name, a.sha256, a.size, a.blob_key, a.lease_id, a.late
FROM json_populate_record(NULL::artifacts, @artifact::json) a
-- Late evidence that a live lease hands in again is late no longer.
ON CONFLICT (run_id, attempt_no, kind, name, sha256) DO UPDATE SET late = artifacts.late AND excluded.late,
    lease_id = CASE WHEN excluded.late THEN artifacts.lease_id ELSE excluded.lease_id END
RETURNING *;

-- name: InsertPatch :exec
INSERT INTO patches (artifact_id, tenant_id, run_id, digest, patch_id, files, added, removed, scan, fault, facts)
SELECT p.artifact_id, p.tenant_id, p.run_id, p.digest, p.patch_id, p.files, p.added, p.removed, p.scan, p.fault, p.facts
FROM json_populate_record(NULL::patches, @patch::json) p
ON CONFLICT (artifact_id) DO NOTHING;

-- name: InsertVerification :exec
INSERT INTO verifications (artifact_id, tenant_id, run_id, attempt_no, digest, patch_digest, passed, infrastructure, fingerprint, summary)
SELECT v.artifact_id, v.tenant_id, v.run_id, v.attempt_no, v.digest, v.patch_digest, v.passed, v.infrastructure, v.fingerprint, v.summary
FROM json_populate_record(NULL::verifications, @verification::json) v
ON CONFLICT (artifact_id) DO NOTHING;

-- name: Patch :one
SELECT * FROM patches WHERE tenant_id = $1 AND artifact_id = $2;

-- name: PatchOfAttempt :one
SELECT p.* FROM patches p JOIN artifacts a ON a.id = p.artifact_id
WHERE p.tenant_id = $1 AND p.run_id = $2 AND a.attempt_no = $3 AND p.files > 0 AND a.lease_id = $4
ORDER BY p.created_at DESC LIMIT 1;

-- name: Verification :one
SELECT * FROM verifications WHERE tenant_id = $1 AND artifact_id = $2;

-- name: PreviousFailure :one
-- The failure before in the same attempt, to notice the same one again. The log knows it, also where both reports are the same bytes.
SELECT coalesce(e.payload -> 'payload' -> 'report' ->> 'fingerprint', '')::text AS fingerprint FROM run_events e
WHERE e.run_id = $1 AND e.attempt_no = $2 AND e.kind = 'verification_failed_retryable' ORDER BY e.seq DESC LIMIT 1;

-- name: EndedLease :one
-- A lease that this worker had, and whether it ended a moment ago; one that expired and was not yet reaped counts as ended.
SELECT a.attempt_no, (x.ended_at > clock_timestamp() - interval '10 minutes')::boolean AS recent FROM (
    SELECT e.attempt_id, e.ended_at FROM ended_leases e
    WHERE e.tenant_id = @tenant_id AND e.run_id = @run_id AND e.lease_id = @lease_id AND e.fencing_token = @token AND e.worker_id = @worker_id
    UNION ALL
    SELECT l.attempt_id, l.expires_at FROM run_leases l
    WHERE l.tenant_id = @tenant_id AND l.run_id = @run_id AND l.lease_id = @lease_id AND l.fencing_token = @token AND l.worker_id = @worker_id
) x JOIN attempts a ON a.id = x.attempt_id LIMIT 1;

-- name: LiveLease :one
-- Holds the lease while something is written under it.
SELECT l.phase, a.attempt_no FROM run_leases l JOIN attempts a ON a.id = l.attempt_id
WHERE l.tenant_id = @tenant_id AND l.run_id = @run_id AND l.lease_id = @lease_id AND l.fencing_token = @token AND l.worker_id = @worker_id
  AND l.expires_at > clock_timestamp()
FOR SHARE OF l;
