-- +goose Up
-- Which run's worker said last that the provider asked for a pause, so that people can look whom to ask; NULL for pauses of
-- older versions. It holds nothing together: the pause outlives the run.
ALTER TABLE provider_pauses ADD COLUMN run_id uuid;

-- +goose Down
ALTER TABLE provider_pauses DROP COLUMN run_id;
