-- name: BeatControl :one
-- Says that a server is there, unless nobody had said so for longer than is tolerated or the database server is another
-- one: then nothing is answered and the outage is settled first.
UPDATE control_heartbeat SET beat_at = clock_timestamp(), patience = @patience_seconds::float8
WHERE beat_at > clock_timestamp() - make_interval(secs => @patience_seconds::float8) AND server = extract(epoch FROM pg_postmaster_start_time())::text
RETURNING up_since, (hold_until > clock_timestamp())::boolean AS holding, hold_until;

-- name: LockControl :one
SELECT (beat_at <= clock_timestamp() - make_interval(secs => @patience_seconds::float8) OR server <> extract(epoch FROM pg_postmaster_start_time())::text)::boolean AS away,
    extract(epoch FROM clock_timestamp() - beat_at)::float8 AS silent_seconds, patience
FROM control_heartbeat FOR UPDATE;

-- name: OutageUnsettled :one
-- Whether nobody has noticed the end of an outage yet, by what the last beat tolerated, or one ended so lately that leases may have been prolonged just now.
SELECT (beat_at <= clock_timestamp() - make_interval(secs => patience) OR server <> extract(epoch FROM pg_postmaster_start_time())::text)::boolean AS away,
    (hold_until > clock_timestamp())::boolean AS holding, patience
FROM control_heartbeat;

-- name: StartControl :execrows
-- The first beat ever. Nobody knows how long nobody was there, so what runs is given a full lease time.
INSERT INTO control_heartbeat (beat_at, patience, server, up_since, hold_until)
SELECT clock_timestamp(), @patience_seconds::float8, extract(epoch FROM pg_postmaster_start_time())::text, clock_timestamp(),
    clock_timestamp() + CASE WHEN EXISTS (SELECT 1 FROM run_leases) THEN make_interval(secs => @ttl_seconds::float8) ELSE interval '0' END
ON CONFLICT DO NOTHING;

-- name: EndOutage :exec
UPDATE control_heartbeat SET beat_at = clock_timestamp(), patience = @patience_seconds::float8, server = extract(epoch FROM pg_postmaster_start_time())::text,
    up_since = clock_timestamp(), hold_until = clock_timestamp() + make_interval(secs => @ttl_seconds::float8), outages = outages + 1;

-- name: ProlongLeases :execrows
-- Every lease that was not reaped before an outage gets a full lease time after it: its worker could say nothing meanwhile.
UPDATE run_leases SET expires_at = clock_timestamp() + make_interval(secs => @ttl_seconds::float8)
WHERE run_id IN (SELECT l.run_id FROM run_leases l WHERE l.expires_at < clock_timestamp() + make_interval(secs => @ttl_seconds::float8) ORDER BY l.lease_id FOR UPDATE);
