-- +goose Up
-- Where a chunk stands in its log, which is what one lease printed for one call: line ends in it, and line ends and bytes up to
-- its end. Any window of a log is found by its line numbers, at the cost of what it shows.
ALTER TABLE log_chunks
    ADD COLUMN lines    int NOT NULL DEFAULT 0,
    ADD COLUMN line_end bigint NOT NULL DEFAULT 0,
    ADD COLUMN byte_end bigint NOT NULL DEFAULT 0;

UPDATE log_chunks c SET lines = w.lines, line_end = w.line_end, byte_end = w.byte_end
FROM (
    SELECT n.id, n.lines, sum(n.lines) OVER log AS line_end, sum(n.size) OVER log AS byte_end
    FROM (SELECT id, run_id, lease_id, call_id, length(data) AS size,
                 length(encode(data, 'escape')) - length(replace(encode(data, 'escape'), E'\n', '')) AS lines FROM log_chunks) n
    WINDOW log AS (PARTITION BY n.run_id, n.lease_id, n.call_id ORDER BY n.id)
) w WHERE w.id = c.id;

CREATE INDEX log_chunks_lines_idx ON log_chunks (run_id, lease_id, call_id, line_end, id);

-- +goose Down
DROP INDEX log_chunks_lines_idx;
ALTER TABLE log_chunks DROP COLUMN lines, DROP COLUMN line_end, DROP COLUMN byte_end;
