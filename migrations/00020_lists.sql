-- +goose Up
-- "Recently decided" is read by when gates were closed, which is written once.
CREATE INDEX gates_closed_idx ON gates (tenant_id, closed_at DESC) WHERE closed_at IS NOT NULL;

-- +goose Down
DROP INDEX gates_closed_idx;
