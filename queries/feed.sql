-- The feed of events (D-8): everything that is committed and can no longer be overtaken, after a cursor. A sequence
-- number is handed out before the commit, so a reader that has seen 2 could miss 1; below the snapshot's xmin nothing
-- is in progress any more, and whatever comes later has a greater xid.

-- name: FeedEvents :many
SELECT e.xid::text AS xid, e.id, e.tenant_id, e.run_id, e.seq, e.kind, e.to_state, e.at FROM run_events e
WHERE (e.xid, e.id) > (CAST(sqlc.arg(after_xid)::text AS xid8), sqlc.arg(after_id)::bigint) AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY e.xid, e.id LIMIT @count;

-- name: FeedHorizon :one
-- Where the feed stands now: everything before it is settled.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS xid;
