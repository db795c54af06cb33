-- +goose Up
-- Which workers fell silent is looked for among those that live, not among all that ever were. The state is the same at every
-- heartbeat, so that these stay heap-only.
CREATE INDEX worker_boots_live_idx ON worker_boots (id) WHERE state NOT IN ('STOPPED', 'DEAD');
-- What is old enough to go is found by when it began, which never changes.
CREATE INDEX worker_boots_ended_idx ON worker_boots (started_at) WHERE state IN ('STOPPED', 'DEAD');

-- +goose Down
DROP INDEX worker_boots_ended_idx;
DROP INDEX worker_boots_live_idx;
