-- +goose Up
-- "Failed today" and "Recently decided" are read by when something ended. Both columns are written once, so that no other change of a
-- run or gate pays for these.
CREATE INDEX runs_finished_idx ON runs (tenant_id, finished_at DESC) WHERE finished_at IS NOT NULL;
CREATE INDEX gates_closed_idx ON gates (tenant_id, closed_at DESC) WHERE closed_at IS NOT NULL;

-- +goose Down
DROP INDEX gates_closed_idx;
DROP INDEX runs_finished_idx;
