-- When a worker was told to cancel, and when it first said that it is stopping: two steps of a cancellation that everybody
-- who looks at the run is shown, also after a reload and after the end.

-- +goose Up
ALTER TABLE run_leases ADD COLUMN cancel_told_at timestamptz, ADD COLUMN stopping_at timestamptz;
ALTER TABLE ended_leases ADD COLUMN cancel_told_at timestamptz, ADD COLUMN stopping_at timestamptz;

-- +goose Down
ALTER TABLE ended_leases DROP COLUMN stopping_at, DROP COLUMN cancel_told_at;
ALTER TABLE run_leases DROP COLUMN stopping_at, DROP COLUMN cancel_told_at;
