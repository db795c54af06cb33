-- +goose Up
-- What the loops look for at every tick is found without reading what is not due.
CREATE INDEX tasks_idle_idx ON tasks (id) WHERE state = 'READY' AND NOT auto_run;
CREATE INDEX tasks_merge_idx ON tasks (id) WHERE awaits_merge;
CREATE INDEX outbox_live_idx ON outbox (id) WHERE NOT dead;

-- +goose Down
DROP INDEX outbox_live_idx;
DROP INDEX tasks_merge_idx;
DROP INDEX tasks_idle_idx;
