-- +goose Up
-- Which files of a run's patches a person has viewed, and what each changed then: a file that a new revision changes in the same
-- way stays viewed, another one does not. Files are known by the SHA-256 of their path, which can be longer than an index takes.
CREATE TABLE viewed_files (
    tenant_id uuid NOT NULL CONSTRAINT viewed_files_tenant_fk REFERENCES tenants (id),
    user_id   uuid NOT NULL CONSTRAINT viewed_files_user_fk REFERENCES users (id),
    run_id    uuid NOT NULL,
    path_key  bytea NOT NULL,
    digest    bytea NOT NULL,
    viewed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT viewed_files_pk PRIMARY KEY (tenant_id, user_id, run_id, path_key),
    CONSTRAINT viewed_files_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
ALTER TABLE viewed_files ENABLE ROW LEVEL SECURITY;
ALTER TABLE viewed_files FORCE ROW LEVEL SECURITY;
CREATE POLICY viewed_files_app ON viewed_files TO signalbox_app
    USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
CREATE POLICY viewed_files_engine ON viewed_files TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT ON viewed_files TO signalbox_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON viewed_files TO signalbox_engine;

-- +goose Down
DROP TABLE viewed_files;
