-- +goose Up
-- Tasks that the control plane runs by itself are looked for at every tick, in the order of their ids.
CREATE INDEX tasks_auto_idx ON tasks (id) WHERE auto_run;
DROP INDEX tasks_auto_run_idx;
-- Every submission counts its tenant's leases.
CREATE INDEX run_leases_tenant_idx ON run_leases (tenant_id);

-- +goose Down
DROP INDEX run_leases_tenant_idx;
CREATE INDEX tasks_auto_run_idx ON tasks (created_at) WHERE auto_run;
DROP INDEX tasks_auto_idx;
