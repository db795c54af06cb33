-- What a cost is of, and that a cost which nobody named is not 0.

-- +goose Up
-- Who served the model.
ALTER TABLE usages ADD COLUMN provider text NOT NULL DEFAULT '';
-- Until now nobody could say that a call had no price: it was stored as one that cost nothing.
UPDATE usages SET source = 'unknown'
WHERE source = 'reported' AND cost_micros = 0 AND (provider_calls > 0 OR input_tokens > 0 OR output_tokens > 0);
-- Each tenant's runs that are to be looked at again, the oldest first.
CREATE INDEX run_admissions_tenant_idx ON run_admissions (tenant_id, due_at, run_id);

-- +goose Down
DROP INDEX run_admissions_tenant_idx;
ALTER TABLE usages DROP COLUMN provider;
