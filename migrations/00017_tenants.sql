-- +goose Up
-- Every submission counts what waits of its tenant, beside any number of others' items.
CREATE INDEX run_queue_tenant_idx ON run_queue (tenant_id);
CREATE INDEX run_delayed_tenant_idx ON run_delayed (tenant_id);

-- +goose Down
DROP INDEX run_delayed_tenant_idx;
DROP INDEX run_queue_tenant_idx;
