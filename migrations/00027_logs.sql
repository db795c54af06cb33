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

-- A server that is older than this schema counts nothing; until the last one is replaced, the database counts for it.
-- +goose StatementBegin
CREATE FUNCTION log_chunks_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.lines := length(encode(NEW.data, 'escape')) - length(replace(encode(NEW.data, 'escape'), E'\n', ''));
    SELECT l.line_end, l.byte_end INTO NEW.line_end, NEW.byte_end FROM log_chunks l
    WHERE l.run_id = NEW.run_id AND l.lease_id = NEW.lease_id AND l.call_id = NEW.call_id ORDER BY l.line_end DESC, l.id DESC LIMIT 1;
    NEW.line_end := coalesce(NEW.line_end, 0) + NEW.lines;
    NEW.byte_end := coalesce(NEW.byte_end, 0) + length(NEW.data);
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER log_chunks_count BEFORE INSERT ON log_chunks FOR EACH ROW WHEN (NEW.byte_end = 0) EXECUTE FUNCTION log_chunks_count();

-- +goose Down
DROP TRIGGER log_chunks_count ON log_chunks;
DROP FUNCTION log_chunks_count();
DROP INDEX log_chunks_lines_idx;
ALTER TABLE log_chunks DROP COLUMN lines, DROP COLUMN line_end, DROP COLUMN byte_end;
