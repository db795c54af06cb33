-- What claims decide on: where work waits and what it needs, by tenant, requester and rank.

-- +goose Up
ALTER TABLE tasks ADD COLUMN priority smallint NOT NULL DEFAULT 0
    CONSTRAINT tasks_priority_check CHECK (priority BETWEEN -5 AND 5);
ALTER TABLE repositories ADD COLUMN requires text[] NOT NULL DEFAULT '{}';

-- Where the run waits and what its workers must offer, as admission found it. The reducer owns it.
ALTER TABLE runs ADD COLUMN route jsonb NOT NULL DEFAULT '{}';

ALTER TABLE run_queue
    ADD COLUMN requires text[] NOT NULL DEFAULT '{}',
    -- When the item got ready, moved back for its priority: the order among the items of one requester.
    ADD COLUMN rank timestamptz NOT NULL DEFAULT clock_timestamp(),
    ALTER COLUMN visible_at SET DEFAULT clock_timestamp();
DROP INDEX run_queue_head_idx;
CREATE INDEX run_queue_lane_idx ON run_queue (phase, queue, tenant_id, user_id, rank, run_id);

ALTER TABLE run_delayed
    ADD COLUMN queue text NOT NULL DEFAULT 'default',
    ADD COLUMN provider text NOT NULL DEFAULT '',
    ADD COLUMN pool text NOT NULL DEFAULT '',
    ADD COLUMN priority smallint NOT NULL DEFAULT 0,
    ADD COLUMN requires text[] NOT NULL DEFAULT '{}';

-- What the limits count leases by.
ALTER TABLE run_leases
    ADD COLUMN queue text NOT NULL DEFAULT 'default',
    ADD COLUMN risk text NOT NULL DEFAULT '',
    ADD COLUMN provider text NOT NULL DEFAULT '',
    ADD COLUMN pool text NOT NULL DEFAULT '';

-- A claim asks what its boot holds; an answer that was lost is found there, too.
CREATE INDEX run_leases_boot_idx ON run_leases (boot_id);
DROP INDEX run_leases_claim_idx;

ALTER TABLE worker_boots
    ADD COLUMN queues text[] NOT NULL DEFAULT '{default}',
    ADD COLUMN pools text[] NOT NULL DEFAULT '{}';

-- Providers that asked to slow down: nobody's work with them is given out before the time. Global, like workers.
CREATE TABLE provider_pauses (
    provider text PRIMARY KEY,
    until    timestamptz NOT NULL,
    -- How often in a row it asked; each doubles the pause.
    failures int NOT NULL DEFAULT 1,
    -- The one run that tries first when the pause is over.
    probe    uuid,
    reason   text NOT NULL DEFAULT '',
    since    timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT, INSERT, UPDATE, DELETE ON provider_pauses TO signalbox_engine;

-- +goose Down
DROP TABLE provider_pauses;
CREATE INDEX run_leases_claim_idx ON run_leases (claim_id);
DROP INDEX run_leases_boot_idx;
ALTER TABLE worker_boots DROP COLUMN queues, DROP COLUMN pools;
ALTER TABLE run_leases DROP COLUMN queue, DROP COLUMN risk, DROP COLUMN provider, DROP COLUMN pool;
ALTER TABLE run_delayed DROP COLUMN queue, DROP COLUMN provider, DROP COLUMN pool, DROP COLUMN priority, DROP COLUMN requires;
DROP INDEX run_queue_lane_idx;
CREATE INDEX run_queue_head_idx ON run_queue (phase, seq);
ALTER TABLE run_queue DROP COLUMN requires, DROP COLUMN rank, ALTER COLUMN visible_at SET DEFAULT now();
ALTER TABLE runs DROP COLUMN route;
ALTER TABLE repositories DROP COLUMN requires;
ALTER TABLE tasks DROP COLUMN priority;
