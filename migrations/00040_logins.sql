-- +goose Up
-- A session has a name that a person may see (its cookie's hash is none), says what browser it is in, and keeps what its
-- provider needs to end it there (id_token) and to end it from there (provider_sid).
ALTER TABLE sessions
    ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid(),
    ADD COLUMN browser text NOT NULL DEFAULT '',
    ADD COLUMN provider_sid text NOT NULL DEFAULT '',
    ADD COLUMN id_token text NOT NULL DEFAULT '';
CREATE INDEX sessions_subject_idx ON sessions (provider_id, subject);
CREATE INDEX sessions_tenant_idx ON sessions (tenant_id);

-- Who is to confirm who they are; empty for a login of anybody.
ALTER TABLE login_states ADD COLUMN confirms uuid CONSTRAINT login_states_user_fk REFERENCES users (id);

-- Logout tokens that were used, until they run out: none works twice.
CREATE TABLE logout_tokens (
    provider_id uuid NOT NULL CONSTRAINT logout_tokens_provider_fk REFERENCES providers (id),
    jti_hash    bytea NOT NULL,
    expires_at  timestamptz NOT NULL,
    CONSTRAINT logout_tokens_pk PRIMARY KEY (provider_id, jti_hash)
);
CREATE INDEX logout_tokens_expires_idx ON logout_tokens (expires_at);

-- One-time links that make whoever signs in and opens one an administrator. A used one stays, to be known as used.
CREATE TABLE admin_links (
    code_hash  bytea PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    used_by    uuid CONSTRAINT admin_links_user_fk REFERENCES users (id)
);

-- Roles of one identity beside those of its groups. Names and addresses can be had by others; issuer and subject cannot.
CREATE TABLE identity_roles (
    tenant_id   uuid NOT NULL CONSTRAINT identity_roles_tenant_fk REFERENCES tenants (id),
    provider_id uuid NOT NULL CONSTRAINT identity_roles_provider_fk REFERENCES providers (id),
    subject     text NOT NULL,
    role        text NOT NULL CONSTRAINT identity_roles_role_check CHECK (role IN ('viewer', 'requester', 'approver', 'admin', 'breakglass')),
    source      text NOT NULL CONSTRAINT identity_roles_source_check CHECK (source IN ('configured', 'link')),
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT identity_roles_pk PRIMARY KEY (tenant_id, provider_id, subject, role, source)
);
ALTER TABLE identity_roles ENABLE ROW LEVEL SECURITY;
ALTER TABLE identity_roles FORCE ROW LEVEL SECURITY;
CREATE POLICY identity_roles_app ON identity_roles TO signalbox_app
    USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
CREATE POLICY identity_roles_engine ON identity_roles TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT ON identity_roles TO signalbox_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON identity_roles, logout_tokens, admin_links TO signalbox_engine;

-- +goose Down
DROP TABLE identity_roles, admin_links, logout_tokens;
ALTER TABLE login_states DROP COLUMN confirms;
DROP INDEX sessions_tenant_idx, sessions_subject_idx;
ALTER TABLE sessions DROP COLUMN id, DROP COLUMN browser, DROP COLUMN provider_sid, DROP COLUMN id_token;
