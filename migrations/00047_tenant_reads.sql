-- What pages read of tables that have no tenant: the app's role sees the people whom its tenant knows, and the workers and
-- tokens that are its own or, of workers, the installation's. It has no grant on a column that holds a secret.

-- +goose Up
-- Who has, or ever had, rights in a tenant: their names stay beside what they did.
CREATE TABLE people (
    tenant_id uuid NOT NULL CONSTRAINT people_tenant_fk REFERENCES tenants (id),
    user_id   uuid NOT NULL CONSTRAINT people_user_fk REFERENCES users (id),
    CONSTRAINT people_pk PRIMARY KEY (tenant_id, user_id)
);
ALTER TABLE people ENABLE ROW LEVEL SECURITY;
ALTER TABLE people FORCE ROW LEVEL SECURITY;
CREATE POLICY people_app ON people TO signalbox_app
    USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
CREATE POLICY people_engine ON people TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT ON people TO signalbox_app;
GRANT SELECT, INSERT ON people TO signalbox_engine;
INSERT INTO people (tenant_id, user_id)
    SELECT tenant_id, user_id FROM memberships
    UNION SELECT tenant_id, requested_by FROM tasks
    UNION SELECT tenant_id, user_id FROM decisions
    UNION SELECT tenant_id, user_id FROM api_tokens WHERE tenant_id IS NOT NULL;
-- +goose StatementBegin
CREATE FUNCTION memberships_people() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO people (tenant_id, user_id) VALUES (NEW.tenant_id, NEW.user_id) ON CONFLICT ON CONSTRAINT people_pk DO NOTHING;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER memberships_people AFTER INSERT ON memberships FOR EACH ROW EXECUTE FUNCTION memberships_people();

ALTER TABLE users ENABLE ROW LEVEL SECURITY;
ALTER TABLE users FORCE ROW LEVEL SECURITY;
CREATE POLICY users_app ON users TO signalbox_app
    USING (EXISTS (SELECT 1 FROM people p WHERE p.user_id = users.id AND p.tenant_id = nullif(current_setting('app.tenant', true), '')::uuid));
CREATE POLICY users_engine ON users TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT (id, name, email, created_at, disabled_at) ON users TO signalbox_app;

ALTER TABLE api_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE api_tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY api_tokens_app ON api_tokens TO signalbox_app USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
CREATE POLICY api_tokens_engine ON api_tokens TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT (id, tenant_id, user_id, kind, name, scopes, auth_time, created_at, expires_at, last_used_at, revoked_at) ON api_tokens TO signalbox_app;

-- A worker without a tenant serves all of them.
ALTER TABLE worker_credentials ENABLE ROW LEVEL SECURITY;
ALTER TABLE worker_credentials FORCE ROW LEVEL SECURITY;
CREATE POLICY worker_credentials_app ON worker_credentials TO signalbox_app
    USING (nullif(current_setting('app.tenant', true), '') IS NOT NULL AND (tenant_id IS NULL OR tenant_id = nullif(current_setting('app.tenant', true), '')::uuid));
CREATE POLICY worker_credentials_engine ON worker_credentials TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT (id, tenant_id, name, phases, created_at, last_used_at, revoked_at) ON worker_credentials TO signalbox_app;
ALTER TABLE worker_boots ENABLE ROW LEVEL SECURITY;
ALTER TABLE worker_boots FORCE ROW LEVEL SECURITY;
CREATE POLICY worker_boots_app ON worker_boots TO signalbox_app USING (EXISTS (SELECT 1 FROM worker_credentials w WHERE w.id = worker_boots.worker_id));
CREATE POLICY worker_boots_engine ON worker_boots TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT ON worker_boots TO signalbox_app;

-- Providers are the installation's, and the login page names them to everybody.
GRANT SELECT (id, name, issuer, groups_claim, dev) ON providers TO signalbox_app;

-- What the app writes itself, beside drafts: nothing that moves work.
GRANT INSERT, UPDATE, DELETE ON viewed_files, saved_views TO signalbox_app;
GRANT INSERT ON hints_dismissed TO signalbox_app;

-- +goose Down
REVOKE INSERT ON hints_dismissed FROM signalbox_app;
REVOKE INSERT, UPDATE, DELETE ON viewed_files, saved_views FROM signalbox_app;
REVOKE ALL ON providers FROM signalbox_app;
REVOKE ALL ON users, api_tokens, worker_credentials, worker_boots FROM signalbox_app;
REVOKE SELECT (id, name, issuer, groups_claim, dev) ON providers FROM signalbox_app;
DROP POLICY worker_boots_app ON worker_boots;
DROP POLICY worker_boots_engine ON worker_boots;
ALTER TABLE worker_boots NO FORCE ROW LEVEL SECURITY;
ALTER TABLE worker_boots DISABLE ROW LEVEL SECURITY;
DROP POLICY worker_credentials_app ON worker_credentials;
DROP POLICY worker_credentials_engine ON worker_credentials;
ALTER TABLE worker_credentials NO FORCE ROW LEVEL SECURITY;
ALTER TABLE worker_credentials DISABLE ROW LEVEL SECURITY;
DROP POLICY api_tokens_app ON api_tokens;
DROP POLICY api_tokens_engine ON api_tokens;
ALTER TABLE api_tokens NO FORCE ROW LEVEL SECURITY;
ALTER TABLE api_tokens DISABLE ROW LEVEL SECURITY;
DROP POLICY users_app ON users;
DROP POLICY users_engine ON users;
ALTER TABLE users NO FORCE ROW LEVEL SECURITY;
ALTER TABLE users DISABLE ROW LEVEL SECURITY;
DROP TRIGGER memberships_people ON memberships;
DROP FUNCTION memberships_people();
DROP TABLE people;
