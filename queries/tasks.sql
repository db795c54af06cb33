-- name: InsertTask :exec
-- Whole, as all events of its first transaction left it.
INSERT INTO tasks (id, tenant_id, repository_id, kind, title, goal, base_ref, mode, risk, contract, contract_digest, agent_profile,
    parent_task_id, template_id, campaign_id, requested_by, state, version, max_runs, runs_used, active_run_id, auto_run, reason, reason_words, priority,
    created_at, updated_at)
SELECT t.id, t.tenant_id, t.repository_id, t.kind, t.title, t.goal, t.base_ref, t.mode, t.risk, t.contract, t.contract_digest,
    t.agent_profile, t.parent_task_id, t.template_id, t.campaign_id, t.requested_by, t.state, t.version, t.max_runs, t.runs_used, t.active_run_id, t.auto_run,
    t.reason, t.reason_words, t.priority, t.created_at, t.updated_at
FROM json_populate_record(NULL::tasks, @task::json) t;

-- name: InsertTaskEvents :exec
INSERT INTO task_events (tenant_id, task_id, seq, kind, actor_kind, actor_id, actor_name, from_state, to_state, reason, run_id)
SELECT e.tenant_id, e.task_id, e.seq, e.kind, e.actor_kind, e.actor_id, e.actor_name, e.from_state, e.to_state, e.reason, e.run_id
FROM json_populate_recordset(NULL::task_events, @events::json) e ORDER BY e.seq;

-- name: LockTask :one
SELECT * FROM tasks WHERE tenant_id = $1 AND id = $2 FOR NO KEY UPDATE;

-- name: Task :one
SELECT * FROM tasks WHERE tenant_id = $1 AND id = $2;

-- name: TasksByID :many
SELECT * FROM tasks WHERE id = ANY(ARRAY(SELECT unnest(@ids::uuid[])));

-- name: UpdateTask :exec
UPDATE tasks SET state = t.state, version = t.version, runs_used = t.runs_used, active_run_id = t.active_run_id,
    cancel_requested = t.cancel_requested, awaits_merge = t.awaits_merge, auto_run = t.auto_run, reason = t.reason,
    reason_words = t.reason_words, updated_at = clock_timestamp()
FROM json_populate_record(NULL::tasks, @task::json) t
WHERE tasks.tenant_id = t.tenant_id AND tasks.id = t.id;

-- name: Roles :one
SELECT roles FROM memberships WHERE tenant_id = $1 AND user_id = $2;

-- name: TasksToRun :many
-- Tasks for which the control plane makes the next run by itself.
SELECT tenant_id, id FROM tasks WHERE auto_run AND id > @after ORDER BY id LIMIT @count;

-- name: InsertPolicyDecision :exec
INSERT INTO policy_decisions (tenant_id, run_id, task_id, point, version, verdict, reasons, inputs)
SELECT p.tenant_id, p.run_id, p.task_id, p.point, p.version, p.verdict, p.reasons, p.inputs
FROM json_populate_record(NULL::policy_decisions, @decision::json) p;

-- name: MembersWithRoles :many
-- People of the tenant who hold one of the roles and are not shut out, with all their roles.
SELECT m.user_id, u.name, m.roles FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.tenant_id = @tenant_id AND u.disabled_at IS NULL AND m.roles && @roles::text[]
ORDER BY u.name, m.user_id LIMIT 500;

-- name: AheadOfNew :one
-- How many of the tenant's items in the queue and phase go before one of the rank (at most a thousand are counted), and since when
-- the first of them is ready.
SELECT count(*)::int AS ahead, coalesce(min(x.visible_at), 'epoch')::timestamptz AS oldest
FROM (SELECT q.visible_at FROM run_queue q WHERE q.place = work_place(@phase, @queue, @tenant_id) AND q.rank < @rank LIMIT 1000) x;

-- name: FinishedLately :many
-- The newest finished runs of a repository: what each cost and how long it was active. Looked for among the tenant's newest
-- thousand, so that a repository without runs costs no walk through all of them.
SELECT n.id, n.active_ms,
    coalesce((SELECT sum(c.cost_micros) FROM usages c WHERE c.run_id = n.id AND c.source <> 'unknown'), 0)::bigint AS micros,
    EXISTS (SELECT 1 FROM usages c WHERE c.run_id = n.id AND c.source = 'unknown')::boolean AS unpriced
FROM runs n WHERE n.id = ANY(ARRAY(SELECT x.id FROM runs x WHERE x.tenant_id = @tenant_id ORDER BY x.created_at DESC, x.id DESC LIMIT 1000))
  AND n.repository_id = @repository_id AND n.finished_at IS NOT NULL
ORDER BY n.created_at DESC, n.id DESC LIMIT @count;
