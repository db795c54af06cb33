-- +goose Up
-- Who changed a policy, who agreed, and why. What was in force stays as it was.
ALTER TABLE policies
    ADD COLUMN reason text NOT NULL DEFAULT '',
    ADD COLUMN confirmed_by uuid CONSTRAINT policies_confirmer_fk REFERENCES users (id),
    ADD CONSTRAINT policies_two_check CHECK (confirmed_by IS NULL OR confirmed_by <> created_by);
REVOKE UPDATE, DELETE, TRUNCATE ON policies FROM signalbox_engine;

-- Changes that wait for a second administrator.
CREATE TABLE policy_proposals (
    id          uuid PRIMARY KEY,
    tenant_id   uuid NOT NULL CONSTRAINT policy_proposals_tenant_fk REFERENCES tenants (id),
    version     text NOT NULL,
    document    text NOT NULL,
    based_on    text NOT NULL,
    reason      text NOT NULL,
    proposed_by uuid NOT NULL CONSTRAINT policy_proposals_user_fk REFERENCES users (id),
    proposed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    decided_by  uuid CONSTRAINT policy_proposals_decider_fk REFERENCES users (id),
    decided_at  timestamptz,
    confirmed   boolean NOT NULL DEFAULT false,
    CONSTRAINT policy_proposals_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT policy_proposals_two_check CHECK (NOT confirmed OR decided_by <> proposed_by)
);
-- One change at a time, so that what was looked at is what comes into force.
CREATE UNIQUE INDEX policy_proposals_open_key ON policy_proposals (tenant_id) WHERE decided_at IS NULL;
ALTER TABLE policy_proposals ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy_proposals FORCE ROW LEVEL SECURITY;
CREATE POLICY policy_proposals_app ON policy_proposals TO signalbox_app
    USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
CREATE POLICY policy_proposals_engine ON policy_proposals TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT ON policy_proposals TO signalbox_app;
GRANT SELECT, INSERT, UPDATE ON policy_proposals TO signalbox_engine;

-- +goose Down
DROP TABLE policy_proposals;
GRANT UPDATE, DELETE ON policies TO signalbox_engine;
ALTER TABLE policies DROP CONSTRAINT policies_two_check, DROP COLUMN confirmed_by, DROP COLUMN reason;
