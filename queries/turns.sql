-- What people say about whose turn it is at a gate.

-- name: Snooze :exec
INSERT INTO turns (tenant_id, gate_id, user_id, snooze_revision, snooze_until) VALUES (@tenant_id, @gate_id, @user_id, @revision::int, sqlc.narg(until))
ON CONFLICT ON CONSTRAINT turns_pk DO UPDATE SET snooze_revision = excluded.snooze_revision, snooze_until = excluded.snooze_until;

-- name: Wake :exec
-- The item is back in the person's list: neither snoozed nor passed on.
UPDATE turns SET snooze_revision = NULL, snooze_until = NULL, passed_to = NULL, passed_revision = NULL
WHERE tenant_id = @tenant_id AND gate_id = @gate_id AND user_id = @user_id;

-- name: ClaimTurn :exec
INSERT INTO turns (tenant_id, gate_id, user_id, claimed_until) VALUES (@tenant_id, @gate_id, @user_id, sqlc.narg(until))
ON CONFLICT ON CONSTRAINT turns_pk DO UPDATE SET claimed_until = excluded.claimed_until;

-- name: PassTurn :exec
INSERT INTO turns (tenant_id, gate_id, user_id, passed_to, passed_revision) VALUES (@tenant_id, @gate_id, @user_id, @passed_to::uuid, @revision::int)
ON CONFLICT ON CONSTRAINT turns_pk DO UPDATE SET passed_to = excluded.passed_to, passed_revision = excluded.passed_revision, claimed_until = NULL,
    snooze_revision = NULL, snooze_until = NULL;

-- name: GiveTurn :exec
INSERT INTO turns (tenant_id, gate_id, user_id, given_by, given_at) VALUES (@tenant_id, @gate_id, @user_id, @given_by::uuid, now())
ON CONFLICT ON CONSTRAINT turns_pk DO UPDATE SET given_by = excluded.given_by, given_at = excluded.given_at, passed_to = NULL, passed_revision = NULL,
    snooze_revision = NULL, snooze_until = NULL;

-- name: TurnsOf :many
-- What is said about some gates: a snooze that has not ended, a claim that has not run out, a turn that was passed on or given.
SELECT t.gate_id, t.user_id, u.name AS user_name,
       coalesce(t.snooze_revision = g.revision AND g.state = 'open' AND (t.snooze_until IS NULL OR t.snooze_until > now()), false)::boolean AS snoozed,
       t.snooze_until, coalesce(t.claimed_until > now(), false)::boolean AS claimed, t.claimed_until,
       coalesce(p.name, '')::text AS passed_to, t.passed_revision, coalesce(b.name, '')::text AS given_by, t.given_at
FROM turns t JOIN gates g ON g.tenant_id = t.tenant_id AND g.id = t.gate_id JOIN users u ON u.id = t.user_id
LEFT JOIN users p ON p.id = t.passed_to AND t.passed_revision = g.revision LEFT JOIN users b ON b.id = t.given_by
WHERE t.tenant_id = @tenant_id AND t.gate_id = ANY(@ids::uuid[])
ORDER BY t.gate_id, u.name, u.id;

-- name: Deciders :many
-- Who holds a role, and could be passed a turn.
SELECT u.id, u.name FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.tenant_id = @tenant_id AND @role::text = ANY(m.roles) AND u.disabled_at IS NULL
ORDER BY u.name, u.id LIMIT 200;

-- name: MayStillDecide :many
-- Which of some people hold a role now.
SELECT m.user_id FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.tenant_id = @tenant_id AND m.user_id = ANY(@ids::uuid[]) AND @role::text = ANY(m.roles) AND u.disabled_at IS NULL;

-- name: RequesterOf :one
SELECT requested_by FROM tasks WHERE tenant_id = $1 AND id = $2;
