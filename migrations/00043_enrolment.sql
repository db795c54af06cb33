-- +goose Up
-- A one-time token by which a worker gets a credential of its own. The database keeps its hash; used_at and worker_id say
-- which worker it made.
CREATE TABLE worker_enrolments (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL CONSTRAINT worker_enrolments_tenant_fk REFERENCES tenants (id),
    name       text NOT NULL CONSTRAINT worker_enrolments_name_check CHECK (length(name) BETWEEN 1 AND 100),
    phases     text[] NOT NULL,
    hash       bytea NOT NULL CONSTRAINT worker_enrolments_hash_key UNIQUE,
    created_by uuid NOT NULL CONSTRAINT worker_enrolments_user_fk REFERENCES users (id),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    worker_id  uuid CONSTRAINT worker_enrolments_worker_fk REFERENCES worker_credentials (id),
    revoked_at timestamptz,
    CONSTRAINT worker_enrolments_used_check CHECK ((used_at IS NULL) = (worker_id IS NULL)),
    CONSTRAINT worker_enrolments_tenant_id_key UNIQUE (tenant_id, id)
);
CREATE INDEX worker_enrolments_list_idx ON worker_enrolments (tenant_id, created_at);
ALTER TABLE worker_enrolments ENABLE ROW LEVEL SECURITY;
ALTER TABLE worker_enrolments FORCE ROW LEVEL SECURITY;
CREATE POLICY worker_enrolments_app ON worker_enrolments TO signalbox_app
    USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
CREATE POLICY worker_enrolments_engine ON worker_enrolments TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT ON worker_enrolments TO signalbox_app;
GRANT SELECT, INSERT, UPDATE ON worker_enrolments TO signalbox_engine;

-- Where a membership comes from: the provider of the last sign-in, and those of its groups that give a role here.
ALTER TABLE memberships ADD COLUMN provider_id uuid CONSTRAINT memberships_provider_fk REFERENCES providers (id);
ALTER TABLE memberships ADD COLUMN groups text[] NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE memberships DROP COLUMN groups;
ALTER TABLE memberships DROP COLUMN provider_id;
DROP TABLE worker_enrolments;
