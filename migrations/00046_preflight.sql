-- +goose Up
-- What was found the last time that somebody looked whether a repository can be worked on: a list of {name, state, words}.
ALTER TABLE repositories
    ADD COLUMN preflight jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN preflight_at timestamptz;

-- +goose Down
ALTER TABLE repositories DROP COLUMN preflight_at, DROP COLUMN preflight;
