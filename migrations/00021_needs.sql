-- +goose Up
-- A claim passes over all items at once that nobody who asks is able to do: what they require is part of what makes them alike.
-- A list may be longer than an index row, so the index holds its digest. No requirement holds the separator.
-- +goose StatementBegin
CREATE FUNCTION needs(requires text[]) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT sha256(convert_to(array_to_string(requires, E'\x1f'), 'UTF8'))
$$;
-- +goose StatementEnd
DROP INDEX run_queue_group_idx;
CREATE INDEX run_queue_group_idx ON run_queue (phase, queue, tenant_id, user_id, repository_id, provider, risk, pool, needs(requires), rank, run_id);

-- +goose Down
DROP INDEX run_queue_group_idx;
CREATE INDEX run_queue_group_idx ON run_queue (phase, queue, tenant_id, user_id, repository_id, provider, risk, pool, rank, run_id);
DROP FUNCTION needs(text[]);
