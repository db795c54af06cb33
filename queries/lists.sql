-- Counts beside lists, and what the saved views of the runs' list stand for. All are bounded.

-- name: CountTasks :one
SELECT count(*)::int AS found FROM (SELECT 1 FROM tasks t
    WHERE t.tenant_id = @tenant_id
      AND (@state::text = '' OR t.state = @state)
      AND (sqlc.narg(repository_id)::uuid IS NULL OR t.repository_id = sqlc.narg(repository_id))
      AND (sqlc.narg(requested_by)::uuid IS NULL OR t.requested_by = sqlc.narg(requested_by))
      AND (@query::text = '' OR position(lower(@query) IN lower(t.title)) > 0)
    LIMIT @most) c;

-- name: CountRuns :one
SELECT count(*)::int AS found FROM (SELECT 1 FROM runs x
    WHERE x.tenant_id = @tenant_id
      AND (@state::text = '' OR x.state = @state)
      AND (sqlc.narg(task_id)::uuid IS NULL OR x.task_id = sqlc.narg(task_id))
      AND (sqlc.narg(repository_id)::uuid IS NULL OR x.repository_id = sqlc.narg(repository_id))
      AND (@query::text = '' OR position(lower(@query) IN lower((SELECT t.title FROM tasks t WHERE t.id = x.task_id))) > 0)
    LIMIT @most) c;

-- name: RunsAmong :many
-- PageRuns over the runs of a view.
SELECT x.id FROM runs x
WHERE x.id = ANY(@ids::uuid[]) AND x.tenant_id = @tenant_id
  AND (@state::text = '' OR x.state = @state)
  AND (sqlc.narg(task_id)::uuid IS NULL OR x.task_id = sqlc.narg(task_id))
  AND (sqlc.narg(repository_id)::uuid IS NULL OR x.repository_id = sqlc.narg(repository_id))
  AND (@query::text = '' OR position(lower(@query) IN lower((SELECT t.title FROM tasks t WHERE t.id = x.task_id))) > 0)
  AND (NOT @active::boolean OR x.finished_at IS NULL)
  AND (x.created_at, x.id) < (@before_at::timestamptz, @before_id::uuid)
ORDER BY x.created_at DESC, x.id DESC
LIMIT @count;

-- name: FailedToday :many
-- The day is that of UTC, as all times on pages are.
SELECT x.id FROM runs x
WHERE x.tenant_id = @tenant_id AND x.finished_at >= date_trunc('day', clock_timestamp() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' AND x.state = 'FAILED'
    -- When a run finished is not indexed (D-5); one that failed today and is older than a month is in the list of all that failed.
    AND x.created_at > clock_timestamp() - interval '31 days'
ORDER BY x.finished_at DESC LIMIT @count;

-- name: WaitingForPeople :many
SELECT g.run_id FROM gates g WHERE g.tenant_id = @tenant_id AND g.state IN ('open', 'expired') ORDER BY g.expires_at LIMIT @count;

-- name: WorkedOn :many
-- Runs that a worker holds: overdue ones, whose lease is over by the database's clock because no heartbeat came, or the others.
SELECT l.run_id FROM run_leases l WHERE l.tenant_id = @tenant_id AND (l.expires_at < clock_timestamp()) = @overdue::boolean ORDER BY l.expires_at LIMIT @count;

-- name: UsualRuns :many
-- How long runs that succeeded were active in each of the repositories: the middle of those among the tenant's newest thousand.
SELECT n.repository_id, count(*)::int AS runs, (percentile_cont(0.5) WITHIN GROUP (ORDER BY n.active_ms))::float8 AS middle_ms
FROM runs n WHERE n.id = ANY(ARRAY(SELECT x.id FROM runs x WHERE x.tenant_id = @tenant_id ORDER BY x.created_at DESC, x.id DESC LIMIT 1000))
  AND n.repository_id = ANY(@repositories::uuid[]) AND n.state = 'SUCCEEDED'
GROUP BY n.repository_id;

-- name: CostsOfRuns :many
SELECT u.run_id, coalesce(sum(u.cost_micros) FILTER (WHERE u.source = 'reported'), 0)::bigint AS reported,
    coalesce(sum(u.cost_micros) FILTER (WHERE u.source = 'estimated'), 0)::bigint AS estimated,
    coalesce(sum(greatest(u.provider_calls, 1)) FILTER (WHERE u.source = 'unknown'), 0)::bigint AS unknown_calls
FROM usages u WHERE u.run_id = ANY(@ids::uuid[]) AND u.tenant_id = @tenant_id GROUP BY u.run_id;
