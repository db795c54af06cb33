-- name: LockGate :one
SELECT * FROM gates WHERE tenant_id = $1 AND id = $2 FOR NO KEY UPDATE;

-- name: Gate :one
SELECT * FROM gates WHERE tenant_id = $1 AND id = $2;

-- name: GateDecisions :many
SELECT sqlc.embed(decisions), users.name FROM decisions JOIN users ON users.id = decisions.user_id
WHERE decisions.tenant_id = $1 AND decisions.gate_id = $2 ORDER BY decisions.seq;

-- name: InsertDecision :exec
INSERT INTO decisions (id, tenant_id, gate_id, revision, digest_seen, user_id, verdict, text, channel, auth_time, extra, carried_over_from,
    policy_version, notes)
SELECT d.id, d.tenant_id, d.gate_id, d.revision, d.digest_seen, d.user_id, d.verdict, d.text, d.channel, d.auth_time, d.extra,
    d.carried_over_from, d.policy_version, coalesce(d.notes, 0)
FROM json_populate_record(NULL::decisions, @decision::json) d;

-- name: LastInstructor :one
-- Who wrote the change request that led to the present revision of this kind of gate.
SELECT d.user_id FROM decisions d JOIN gates g ON g.id = d.gate_id
WHERE g.tenant_id = $1 AND g.run_id = $2 AND g.kind = $3 AND d.verdict = 'request_changes' ORDER BY d.seq DESC LIMIT 1;

-- name: ApprovedGate :one
-- The newest satisfied gate of a kind; its approvals may be carried over a base move.
SELECT * FROM gates WHERE tenant_id = $1 AND run_id = $2 AND kind = $3 AND state = 'satisfied' ORDER BY opened_at DESC LIMIT 1;

-- name: PatchRevisions :many
-- Which patch each revision of a run's patch gates was about, the oldest first.
SELECT r.revision, r.artifact_id FROM gate_revisions r JOIN gates g ON g.id = r.gate_id
WHERE g.tenant_id = $1 AND g.run_id = $2 AND g.kind = 'patch' ORDER BY r.revision, r.opened_at LIMIT 1000;

-- name: PullByBranch :one
SELECT * FROM pull_requests WHERE tenant_id = $1 AND repository_id = $2 AND head_branch = $3;

-- name: PullsOfTask :many
SELECT * FROM pull_requests WHERE tenant_id = $1 AND task_id = $2 ORDER BY created_at;

-- name: LockPull :one
SELECT * FROM pull_requests WHERE tenant_id = $1 AND id = $2 FOR NO KEY UPDATE;

-- name: NextPullNumber :one
-- Serialised per repository by the row lock that the caller holds.
SELECT coalesce(max(number), 0)::bigint + 1 AS number FROM pull_requests WHERE repository_id = $1;

-- name: LockRepository :one
SELECT * FROM repositories WHERE tenant_id = $1 AND id = $2 FOR NO KEY UPDATE;

-- name: InsertPull :exec
INSERT INTO pull_requests (id, tenant_id, repository_id, task_id, run_id, number, state, url, title, body, head_branch, base_branch, head_sha)
SELECT p.id, p.tenant_id, p.repository_id, p.task_id, p.run_id, p.number, p.state, p.url, p.title, p.body, p.head_branch, p.base_branch, p.head_sha
FROM json_populate_record(NULL::pull_requests, @pull::json) p;

-- name: UpdatePull :exec
UPDATE pull_requests SET state = p.state, title = p.title, body = p.body, head_sha = p.head_sha, merge_sha = p.merge_sha,
    merged_by = p.merged_by, run_id = p.run_id, updated_at = clock_timestamp()
FROM json_populate_record(NULL::pull_requests, @pull::json) p
WHERE pull_requests.tenant_id = p.tenant_id AND pull_requests.id = p.id;

-- name: JudgeAtGate :one
-- What the judge said when the newest patch or report gate of the run was opened.
SELECT coalesce(payload -> 'payload' -> 'judge', '{}')::jsonb AS judge FROM run_events
WHERE tenant_id = $1 AND run_id = $2 AND kind = 'human_approval_required' ORDER BY seq DESC LIMIT 1;

-- name: DropGateNotes :exec
-- What the approvals of a gate left for the agent; they were withdrawn before anybody worked on them. The events keep them.
DELETE FROM feedback WHERE tenant_id = $1 AND run_id = $2 AND gate_id = $3 AND source = 'human';

-- name: FirstClaimAfter :one
-- When work on what a gate let through began.
SELECT at FROM run_events WHERE tenant_id = @tenant_id AND run_id = @run_id AND kind = 'lease_acquired' AND at >= @closed_at ORDER BY seq LIMIT 1;

-- name: InsertBypass :exec
INSERT INTO bypass_reviews (gate_id, tenant_id, run_id, user_id, reason, ticket, at, due_at)
VALUES (@gate_id, @tenant_id, @run_id, @user_id, @reason, @ticket, @at, @due_at);

-- name: Bypasses :many
-- Those of a run or of a gate, or those that nobody has reviewed yet; the most urgent first.
SELECT b.gate_id, b.run_id, b.user_id, u.name::text AS by_name, b.reason, b.ticket, b.at, b.due_at, b.reviewed_at, coalesce(v.name, '')::text AS reviewer, b.note,
       g.kind, t.title::text AS title, t.requested_by, r.name::text AS repository
FROM bypass_reviews b JOIN users u ON u.id = b.user_id LEFT JOIN users v ON v.id = b.reviewed_by
JOIN gates g ON g.tenant_id = b.tenant_id AND g.id = b.gate_id JOIN tasks t ON t.id = g.task_id JOIN repositories r ON r.id = t.repository_id
WHERE b.tenant_id = @tenant_id AND (sqlc.narg(run_id)::uuid IS NULL OR b.run_id = sqlc.narg(run_id)) AND (sqlc.narg(gate_id)::uuid IS NULL OR b.gate_id = sqlc.narg(gate_id))
  AND (NOT @waiting::bool OR b.reviewed_at IS NULL)
ORDER BY b.due_at, b.gate_id LIMIT 100;

-- name: ReviewBypass :execrows
UPDATE bypass_reviews SET reviewed_by = @reviewed_by, reviewed_at = clock_timestamp(), note = @note
WHERE tenant_id = @tenant_id AND gate_id = @gate_id AND reviewed_at IS NULL;
