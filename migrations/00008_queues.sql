-- Queues that somebody paused, and what readiness asks.

-- +goose Up
-- A queue that is paused gives out no work of this tenant; paused by the default tenant, whose policy is the
-- installation's too, it gives out nobody's.
CREATE TABLE paused_queues (
    tenant_id uuid NOT NULL CONSTRAINT paused_queues_tenant_fk REFERENCES tenants (id),
    queue     text NOT NULL CONSTRAINT paused_queues_queue_check CHECK (length(queue) BETWEEN 1 AND 100),
    reason    text NOT NULL CONSTRAINT paused_queues_reason_check CHECK (length(reason) BETWEEN 1 AND 2000),
    by_id     text NOT NULL,
    by_name   text NOT NULL,
    paused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT paused_queues_pk PRIMARY KEY (tenant_id, queue)
);
ALTER TABLE paused_queues ENABLE ROW LEVEL SECURITY;
ALTER TABLE paused_queues FORCE ROW LEVEL SECURITY;
CREATE POLICY paused_queues_app ON paused_queues TO signalbox_app
    USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
CREATE POLICY paused_queues_engine ON paused_queues TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT ON paused_queues TO signalbox_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON paused_queues TO signalbox_engine;

-- +goose StatementBegin
-- The newest migration that was applied. Not a query of the program's, because the table is the migration tool's.
CREATE FUNCTION schema_version() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied);
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION schema_version();
DROP TABLE paused_queues;
