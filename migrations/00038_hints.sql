-- +goose Up
-- Hints for newcomers that a person does not want to see again.
CREATE TABLE hints_dismissed (
    tenant_id    uuid NOT NULL CONSTRAINT hints_dismissed_tenant_fk REFERENCES tenants (id),
    user_id      uuid NOT NULL CONSTRAINT hints_dismissed_user_fk REFERENCES users (id),
    hint         text NOT NULL CONSTRAINT hints_dismissed_hint_check CHECK (hint IN ('repository', 'worker', 'task', 'gate')),
    dismissed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT hints_dismissed_pk PRIMARY KEY (tenant_id, user_id, hint)
);
ALTER TABLE hints_dismissed ENABLE ROW LEVEL SECURITY;
ALTER TABLE hints_dismissed FORCE ROW LEVEL SECURITY;
CREATE POLICY hints_dismissed_app ON hints_dismissed TO signalbox_app
    USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
CREATE POLICY hints_dismissed_engine ON hints_dismissed TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT ON hints_dismissed TO signalbox_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON hints_dismissed TO signalbox_engine;
-- Whether a person has ever decided.
CREATE INDEX decisions_user_idx ON decisions (tenant_id, user_id);

-- +goose Down
DROP INDEX decisions_user_idx;
DROP TABLE hints_dismissed;
