-- Campaigns: their rows, specs, targets and events.

-- name: InsertCampaign :exec
INSERT INTO campaigns (id, tenant_id, name, state, version, spec_version, created_by)
VALUES (@id, @tenant_id, @name, @state, 1, 1, @created_by);

-- name: InsertCampaignSpec :exec
INSERT INTO campaign_specs (tenant_id, campaign_id, version, spec, made_by) VALUES (@tenant_id, @campaign_id, @version, @spec, @made_by);

-- name: InsertCampaignEvents :exec
INSERT INTO campaign_events (tenant_id, campaign_id, seq, kind, actor_kind, actor_id, actor_name, from_state, to_state, target_id, reason, at)
SELECT e.tenant_id, e.campaign_id, e.seq, e.kind, e.actor_kind, e.actor_id, e.actor_name, e.from_state, e.to_state, e.target_id, e.reason, e.at
FROM json_populate_recordset(NULL::campaign_events, @events::json) e ORDER BY e.seq;

-- name: InsertCampaignTargets :exec
INSERT INTO campaign_targets (id, tenant_id, campaign_id, repository_id, ordinal, wave, owner, vars, why, stage, outcome, reason)
SELECT t.id, t.tenant_id, t.campaign_id, t.repository_id, t.ordinal, t.wave, t.owner, t.vars, t.why, t.stage, '', t.reason
FROM json_populate_recordset(NULL::campaign_targets, @targets::json) t;

-- name: DeleteCampaignTargets :exec
-- Of a draft, whose preview is made anew.
DELETE FROM campaign_targets WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id;

-- name: LockCampaign :one
SELECT sqlc.embed(c), clock_timestamp()::timestamptz AS now FROM campaigns c WHERE c.tenant_id = @tenant_id AND c.id = @id FOR NO KEY UPDATE;

-- name: UpdateCampaign :exec
UPDATE campaigns SET name = c.name, state = c.state, version = c.version, spec_version = c.spec_version, proven_version = c.proven_version, wave = c.wave,
    wave_since = c.wave_since, pause_by = c.pause_by, pause_cause = c.pause_cause, pause_until = c.pause_until, resume_to = c.resume_to, rule_since = c.rule_since,
    accepted_at = c.accepted_at, launch_by = c.launch_by, cancel_running = c.cancel_running, state_since = c.state_since, launched_at = c.launched_at, ended_at = c.ended_at
FROM json_populate_record(NULL::campaigns, @campaign::json) c
WHERE campaigns.tenant_id = c.tenant_id AND campaigns.id = c.id;

-- name: UpdateCampaignTargets :exec
UPDATE campaign_targets SET stage = t.stage, outcome = t.outcome, spec_version = t.spec_version, attempt = t.attempt, task_id = t.task_id, instruction = t.instruction,
    reason = t.reason, cause = t.cause, sample = t.sample, started_at = t.started_at, ended_at = t.ended_at, opened_at = t.opened_at, pull_open = t.pull_open,
    cancel_asked = t.cancel_asked, moved_at = clock_timestamp()
FROM json_populate_recordset(NULL::campaign_targets, @targets::json) t
WHERE campaign_targets.tenant_id = t.tenant_id AND campaign_targets.id = t.id;

-- name: TargetGotTask :execrows
UPDATE campaign_targets SET task_id = @task_id WHERE tenant_id = @tenant_id AND id = @id AND attempt = @attempt AND task_id IS NULL AND stage IN ('RUNNING', 'HELD');

-- name: CampaignSpec :one
SELECT spec FROM campaign_specs WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id AND version = @version;

-- name: CampaignTargets :many
-- Every target in its order, with where its task, the newest run of it and its pull request stand.
SELECT sqlc.embed(t), r.name AS repository,
    coalesce(k.state, '')::text AS task_state, coalesce(k.auto_run, false)::boolean AS task_goes_on, coalesce(k.awaits_merge, false)::boolean AS awaits_merge,
    coalesce(k.reason_words, '')::text AS task_words,
    coalesce(n.id, '00000000-0000-0000-0000-000000000000')::uuid AS run_id, coalesce(n.outcome, '')::text AS run_outcome, coalesce(n.failure_category, '')::text AS failure_category,
    coalesce(n.failure_code, n.reason_code, '')::text AS failure_code, coalesce(n.failure_summary, '')::text AS failure_summary, coalesce(n.failure_evidence, '')::text AS failure_evidence,
    coalesce(p.state, '')::text AS pull_state, coalesce(p.created_at, 'epoch')::timestamptz AS pull_opened_at,
    coalesce((SELECT sum(u.cost_micros) FROM usages u WHERE u.source <> 'unknown' AND u.run_id IN (SELECT x.id FROM runs x JOIN tasks e ON e.id = x.task_id
        WHERE e.tenant_id = t.tenant_id AND e.campaign_id = t.campaign_id AND e.repository_id = t.repository_id)), 0)::bigint AS micros
FROM campaign_targets t JOIN repositories r ON r.tenant_id = t.tenant_id AND r.id = t.repository_id
LEFT JOIN tasks k ON k.tenant_id = t.tenant_id AND k.id = t.task_id
LEFT JOIN LATERAL (SELECT x.* FROM runs x WHERE x.tenant_id = t.tenant_id AND x.task_id = t.task_id ORDER BY x.created_at DESC, x.id DESC LIMIT 1) n ON true
LEFT JOIN LATERAL (SELECT x.* FROM pull_requests x WHERE x.tenant_id = t.tenant_id AND x.task_id = t.task_id ORDER BY x.created_at DESC, x.id DESC LIMIT 1) p ON true
WHERE t.tenant_id = @tenant_id AND t.campaign_id = @campaign_id
ORDER BY t.ordinal;

-- name: GoingCampaigns :many
-- What the control plane looks at, of all tenants.
SELECT tenant_id, id FROM campaigns WHERE state IN ('RUNNING', 'AWAITING_PROMOTION', 'PAUSED', 'STOPPING') AND id > @after ORDER BY id LIMIT @count;

-- name: CampaignCandidates :many
-- Every repository of a tenant by name.
SELECT r.id, r.name FROM repositories r WHERE r.tenant_id = @tenant_id ORDER BY r.name LIMIT @count;

-- name: Campaigns :many
SELECT c.*, u.name AS creator,
    (SELECT count(*) FROM campaign_targets t WHERE t.campaign_id = c.id AND t.stage <> 'EXCLUDED')::int AS targets,
    (SELECT count(*) FROM campaign_targets t WHERE t.campaign_id = c.id AND t.stage = 'ENDED')::int AS ended
FROM campaigns c JOIN users u ON u.id = c.created_by
WHERE c.tenant_id = @tenant_id AND (c.created_at, c.id) < (@before_at::timestamptz, @before_id::uuid)
ORDER BY c.created_at DESC, c.id DESC LIMIT @count;

-- name: Campaign :one
SELECT c.*, u.name AS creator FROM campaigns c JOIN users u ON u.id = c.created_by WHERE c.tenant_id = @tenant_id AND c.id = @id;

-- name: CampaignEvents :many
SELECT * FROM campaign_events WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id AND seq > @after ORDER BY seq LIMIT @count;

-- name: PersonAsRequester :one
-- A person with the roles that they hold now; none where they are shut out.
SELECT u.name, coalesce((SELECT m.roles FROM memberships m WHERE m.tenant_id = @tenant_id AND m.user_id = u.id), '{}')::text[] AS roles
FROM users u WHERE u.id = @user_id AND u.disabled_at IS NULL;
