-- name: InsertTask :exec
-- Whole, as all events of its first transaction left it.
INSERT INTO tasks (id, tenant_id, repository_id, kind, title, goal, base_ref, mode, risk, contract, contract_digest, agent_profile,
    parent_task_id, template_id, requested_by, state, version, max_runs, runs_used, active_run_id, auto_run, reason, reason_words, priority,
    created_at, updated_at)
SELECT t.id, t.tenant_id, t.repository_id, t.kind, t.title, t.goal, t.base_ref, t.mode, t.risk, t.contract, t.contract_digest,
    t.agent_profile, t.parent_task_id, t.template_id, t.requested_by, t.state, t.version, t.max_runs, t.runs_used, t.active_run_id, t.auto_run,
    t.reason, t.reason_words, t.priority, t.created_at, t.updated_at
FROM jsonb_populate_record(NULL::tasks, @task::jsonb) t;

-- name: InsertTaskEvents :exec
INSERT INTO task_events (tenant_id, task_id, seq, kind, actor_kind, actor_id, actor_name, from_state, to_state, reason, run_id)
SELECT e.tenant_id, e.task_id, e.seq, e.kind, e.actor_kind, e.actor_id, e.actor_name, e.from_state, e.to_state, e.reason, e.run_id
FROM jsonb_populate_recordset(NULL::task_events, @events::jsonb) e ORDER BY e.seq;

-- name: LockTask :one
SELECT * FROM tasks WHERE tenant_id = $1 AND id = $2 FOR NO KEY UPDATE;

-- name: Task :one
SELECT * FROM tasks WHERE tenant_id = $1 AND id = $2;

-- name: TasksByID :many
SELECT * FROM tasks WHERE id = ANY(@ids::uuid[]);

-- name: UpdateTask :exec
UPDATE tasks SET state = t.state, version = t.version, runs_used = t.runs_used, active_run_id = t.active_run_id,
    cancel_requested = t.cancel_requested, awaits_merge = t.awaits_merge, auto_run = t.auto_run, reason = t.reason,
    reason_words = t.reason_words, updated_at = clock_timestamp()
FROM jsonb_populate_record(NULL::tasks, @task::jsonb) t
WHERE tasks.tenant_id = t.tenant_id AND tasks.id = t.id;

-- name: Roles :one
SELECT roles FROM memberships WHERE tenant_id = $1 AND user_id = $2;

-- name: TasksToRun :many
-- Tasks for which the control plane makes the next run by itself.
SELECT tenant_id, id FROM tasks WHERE auto_run AND id > @after ORDER BY id LIMIT @count;

-- name: InsertPolicyDecision :exec
INSERT INTO policy_decisions (tenant_id, run_id, task_id, point, version, verdict, reasons, inputs)
SELECT p.tenant_id, p.run_id, p.task_id, p.point, p.version, p.verdict, p.reasons, p.inputs
FROM jsonb_populate_record(NULL::policy_decisions, @decision::jsonb) p;
