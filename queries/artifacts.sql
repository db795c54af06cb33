-- name: Artifact :one
SELECT * FROM artifacts WHERE tenant_id = $1 AND id = $2;

-- name: RunArtifacts :many
SELECT * FROM artifacts WHERE tenant_id = $1 AND run_id = $2 ORDER BY created_at, id;

-- name: LatestArtifact :one
SELECT * FROM artifacts WHERE tenant_id = $1 AND run_id = $2 AND kind = $3 ORDER BY created_at DESC, id DESC LIMIT 1;

-- name: InsertArtifact :one
-- The same bytes under the same name of one attempt are one artifact (R-RCV-5).
INSERT INTO artifacts (id, tenant_id, run_id, attempt_no, revision, kind, name, sha256, size, blob_key, lease_id, late)
SELECT a.id, a.tenant_id, a.run_id, a.attempt_no, a.revision, a.kind, a.name, a.sha256, a.size, a.blob_key, a.lease_id, a.late
FROM jsonb_populate_record(NULL::artifacts, @artifact::jsonb) a
ON CONFLICT (run_id, attempt_no, kind, name, sha256) DO UPDATE SET late = artifacts.late
RETURNING *;

-- name: InsertPatch :exec
INSERT INTO patches (artifact_id, tenant_id, run_id, digest, patch_id, files, added, removed, scan, fault, facts)
SELECT p.artifact_id, p.tenant_id, p.run_id, p.digest, p.patch_id, p.files, p.added, p.removed, p.scan, p.fault, p.facts
FROM jsonb_populate_record(NULL::patches, @patch::jsonb) p
ON CONFLICT (artifact_id) DO NOTHING;

-- name: InsertVerification :exec
INSERT INTO verifications (artifact_id, tenant_id, run_id, attempt_no, digest, patch_digest, passed, infrastructure, fingerprint, summary)
SELECT v.artifact_id, v.tenant_id, v.run_id, v.attempt_no, v.digest, v.patch_digest, v.passed, v.infrastructure, v.fingerprint, v.summary
FROM jsonb_populate_record(NULL::verifications, @verification::jsonb) v
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
-- The failure before this report in the same attempt, to notice the same one again.
SELECT fingerprint FROM verifications
WHERE run_id = $1 AND attempt_no = $2 AND artifact_id <> $3 AND NOT passed AND NOT infrastructure
ORDER BY created_at DESC LIMIT 1;

-- name: WasLeasedTo :one
-- Whether this lease was ever given to this worker for this run, and since when the run is quiet.
SELECT EXISTS (
    SELECT 1 FROM run_events e WHERE e.tenant_id = $1 AND e.run_id = $2 AND e.kind = 'lease_acquired'
      AND e.payload -> 'payload' -> 'lease' ->> 'id' = @lease_id::text
      AND e.payload -> 'payload' -> 'lease' ->> 'token' = @token::text
      AND e.payload -> 'payload' -> 'lease' ->> 'worker' = @worker::text
) AS held, (SELECT r.updated_at > clock_timestamp() - make_interval(mins => 10) FROM runs r WHERE r.tenant_id = $1 AND r.id = $2)::boolean AS recent;

-- name: LiveLease :one
SELECT * FROM run_leases WHERE run_id = $1 AND lease_id = $2 AND fencing_token = $3 AND worker_id = $4 AND expires_at > clock_timestamp();
