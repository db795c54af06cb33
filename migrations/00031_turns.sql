-- +goose Up
-- What people say about whose turn it is at a gate. All of it is advice: it moves an item between lists and tells others, and
-- decides nothing about who may decide.
CREATE TABLE turns (
    tenant_id       uuid NOT NULL,
    gate_id         uuid NOT NULL,
    user_id         uuid NOT NULL CONSTRAINT turns_user_fk REFERENCES users (id),
    -- Snoozed at this revision; a newer one ends that, and so does the time, where there is one.
    snooze_revision int,
    snooze_until    timestamptz,
    -- "I am on it", for everybody to see.
    claimed_until   timestamptz,
    -- Passed on to somebody else at this revision.
    passed_to       uuid CONSTRAINT turns_passed_to_fk REFERENCES users (id),
    passed_revision int,
    -- Given by somebody else.
    given_by        uuid CONSTRAINT turns_given_by_fk REFERENCES users (id),
    given_at        timestamptz,
    CONSTRAINT turns_pk PRIMARY KEY (tenant_id, gate_id, user_id),
    CONSTRAINT turns_gate_fk FOREIGN KEY (tenant_id, gate_id) REFERENCES gates (tenant_id, id)
);
ALTER TABLE turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE turns FORCE ROW LEVEL SECURITY;
CREATE POLICY turns_app ON turns TO signalbox_app USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
CREATE POLICY turns_engine ON turns TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT ON turns TO signalbox_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON turns TO signalbox_engine;

-- +goose Down
DROP TABLE turns;
