-- A log is what one lease printed for one call; without a call it is what the phase printed as a whole.

-- name: InsertLogs :exec
-- Chunks of one lease, whose batches come one after the other. The id that a row brings is its place in the batch.
INSERT INTO log_chunks (tenant_id, run_id, attempt_no, lease_id, stream, call_id, data, lines, line_end, byte_end)
SELECT c.tenant_id, c.run_id, c.attempt_no, c.lease_id, c.stream, c.call_id, c.data, c.lines,
       coalesce(p.line_end, 0) + sum(c.lines) OVER log, coalesce(p.byte_end, 0) + sum(length(c.data)) OVER log
FROM json_populate_recordset(NULL::log_chunks, @chunks::json) c
LEFT JOIN LATERAL (
    SELECT l.line_end, l.byte_end FROM log_chunks l WHERE l.run_id = c.run_id AND l.lease_id = c.lease_id AND l.call_id = c.call_id
    ORDER BY l.line_end DESC, l.id DESC LIMIT 1
) p ON true
WINDOW log AS (PARTITION BY c.call_id ORDER BY c.id)
ORDER BY c.id;

-- name: PageLogs :many
SELECT id, attempt_no, stream, call_id, data, at FROM log_chunks WHERE tenant_id = @tenant_id AND run_id = @run_id AND id > @after
  AND (sqlc.narg(lease_id)::uuid IS NULL OR lease_id = sqlc.narg(lease_id)::uuid AND call_id = @call_id)
ORDER BY id LIMIT @count;

-- name: PageLogChunks :many
-- Chunks of one log behind a place in it; before the first chunk that ends in line n or later is (n, 0).
SELECT id, data, lines, line_end, at FROM log_chunks
WHERE tenant_id = @tenant_id AND run_id = @run_id AND lease_id = @lease_id AND call_id = @call_id AND (line_end, id) > (@line_end::bigint, @id::bigint)
ORDER BY line_end, id LIMIT @count;

-- name: PageLog :one
-- Where a log stands. Its last chunk that holds anything says whether the last line has ended.
SELECT a.attempt_no, x.phase, x.live, coalesce(c.line_end, 0)::bigint AS line_end, coalesce(c.byte_end, 0)::bigint AS byte_end,
       coalesce(c.last, '')::bytea AS last, coalesce(c.at, to_timestamp(0))::timestamptz AS at
FROM (
    SELECT l.attempt_id, l.phase, true AS live FROM run_leases l WHERE l.tenant_id = @tenant_id AND l.run_id = @run_id AND l.lease_id = @lease_id
    UNION ALL
    SELECT e.attempt_id, e.phase, false FROM ended_leases e WHERE e.tenant_id = @tenant_id AND e.run_id = @run_id AND e.lease_id = @lease_id
) x JOIN attempts a ON a.tenant_id = @tenant_id AND a.id = x.attempt_id
LEFT JOIN LATERAL (
    SELECT k.line_end, k.byte_end, substring(k.data FROM length(k.data)) AS last, k.at FROM log_chunks k
    WHERE k.tenant_id = @tenant_id AND k.run_id = @run_id AND k.lease_id = @lease_id AND k.call_id = @call_id AND length(k.data) > 0
    ORDER BY k.line_end DESC, k.id DESC LIMIT 1
) c ON true
ORDER BY x.live LIMIT 1;

-- name: PageLogList :many
-- The logs of a run in the order in which they began, each found by one step in the index, however long it is.
WITH RECURSIVE logs AS (
    (SELECT c.lease_id, c.call_id FROM log_chunks c WHERE c.run_id = @run_id ORDER BY c.lease_id, c.call_id LIMIT 1)
    UNION ALL
    SELECT n.lease_id, n.call_id FROM logs l CROSS JOIN LATERAL (
        SELECT c.lease_id, c.call_id FROM log_chunks c WHERE c.run_id = @run_id AND (c.lease_id, c.call_id) > (l.lease_id, l.call_id)
        ORDER BY c.lease_id, c.call_id LIMIT 1
    ) n
)
SELECT l.lease_id, l.call_id, e.attempt_no, e.line_end, e.byte_end, e.last::bytea AS last, e.at, f.id AS first_id, f.at AS began,
       coalesce(r.phase, d.phase, '')::text AS phase, (r.lease_id IS NOT NULL)::bool AS live, s.id AS step_id, coalesce(s.name, '')::text AS step_name, coalesce(s.state, '')::text AS step_state
FROM logs l
CROSS JOIN LATERAL (
    SELECT k.attempt_no, k.line_end, k.byte_end, substring(k.data FROM length(k.data)) AS last, k.at FROM log_chunks k
    WHERE k.tenant_id = @tenant_id AND k.run_id = @run_id AND k.lease_id = l.lease_id AND k.call_id = l.call_id AND length(k.data) > 0
    ORDER BY k.line_end DESC, k.id DESC LIMIT 1
) e
CROSS JOIN LATERAL (
    SELECT k.id, k.at FROM log_chunks k WHERE k.run_id = @run_id AND k.lease_id = l.lease_id AND k.call_id = l.call_id ORDER BY k.line_end, k.id LIMIT 1
) f
LEFT JOIN run_leases r ON r.lease_id = l.lease_id
LEFT JOIN ended_leases d ON d.lease_id = l.lease_id
LEFT JOIN steps s ON s.lease_id = l.lease_id AND s.call_id = l.call_id
ORDER BY f.id DESC LIMIT @count;
