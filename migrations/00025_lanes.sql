-- +goose Up
-- Who waits where, and what makes items alike to a claim, as numbers: an index of numbers is a level lower than one of the columns
-- they stand for once a million items wait, and a claim can begin anywhere in it. Two things may have one number: what a claim
-- decides on are the columns.
CREATE FUNCTION work_place(phase text, queue text, tenant_id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$ SELECT hashtextextended(phase || ' ' || queue, uuid_hash_extended(tenant_id, 0)) $$;
CREATE FUNCTION work_who(user_id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$ SELECT uuid_hash_extended(user_id, 0) $$;
CREATE FUNCTION work_kind(repository_id uuid, provider text, risk text, pool text, requires text[]) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$ SELECT hash_array_extended(ARRAY[provider, risk, pool] || requires, uuid_hash_extended(repository_id, 0)) $$;
DROP INDEX run_queue_lane_idx;
DROP INDEX run_queue_group_idx;
ALTER TABLE run_queue
    ADD COLUMN place bigint NOT NULL GENERATED ALWAYS AS (work_place(phase, queue, tenant_id)) STORED,
    ADD COLUMN who bigint NOT NULL GENERATED ALWAYS AS (work_who(user_id)) STORED,
    ADD COLUMN kind bigint NOT NULL GENERATED ALWAYS AS (work_kind(repository_id, provider, risk, pool, requires)) STORED;
CREATE INDEX run_queue_lane_idx ON run_queue (place, who, rank, run_id);
CREATE INDEX run_queue_group_idx ON run_queue (place, who, kind, rank, run_id);

-- +goose Down
DROP INDEX run_queue_group_idx;
DROP INDEX run_queue_lane_idx;
ALTER TABLE run_queue DROP COLUMN place, DROP COLUMN who, DROP COLUMN kind;
DROP FUNCTION work_kind(uuid, text, text, text, text[]);
DROP FUNCTION work_who(uuid);
DROP FUNCTION work_place(text, text, uuid);
CREATE INDEX run_queue_lane_idx ON run_queue (phase, queue, tenant_id, user_id, rank, run_id);
CREATE INDEX run_queue_group_idx ON run_queue (phase, queue, tenant_id, user_id, repository_id, provider, risk, pool, needs(requires), rank, run_id);
