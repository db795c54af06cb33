-- +goose Up
-- Every bypass of a gate is looked at by somebody else within a day. The decision and the run's event say what was bypassed; this
-- says until when it is to be reviewed, by whom it was, and what they found.
CREATE TABLE bypass_reviews (
    gate_id     uuid CONSTRAINT bypass_reviews_pk PRIMARY KEY,
    tenant_id   uuid NOT NULL,
    run_id      uuid NOT NULL,
    user_id     uuid NOT NULL CONSTRAINT bypass_reviews_user_fk REFERENCES users (id),
    reason      text NOT NULL,
    ticket      text NOT NULL,
    at          timestamptz NOT NULL,
    due_at      timestamptz NOT NULL,
    reviewed_by uuid CONSTRAINT bypass_reviews_reviewer_fk REFERENCES users (id),
    reviewed_at timestamptz,
    note        text NOT NULL DEFAULT '',
    CONSTRAINT bypass_reviews_gate_fk FOREIGN KEY (tenant_id, gate_id) REFERENCES gates (tenant_id, id),
    CONSTRAINT bypass_reviews_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id),
    CONSTRAINT bypass_reviews_reviewed_check CHECK ((reviewed_at IS NULL) = (reviewed_by IS NULL)),
    CONSTRAINT bypass_reviews_other_check CHECK (reviewed_by <> user_id),
    CONSTRAINT bypass_reviews_tenant_id_key UNIQUE (tenant_id, gate_id)
);
CREATE INDEX bypass_reviews_run_idx ON bypass_reviews (tenant_id, run_id);
CREATE INDEX bypass_reviews_open_idx ON bypass_reviews (tenant_id, due_at) WHERE reviewed_at IS NULL;
ALTER TABLE bypass_reviews ENABLE ROW LEVEL SECURITY;
ALTER TABLE bypass_reviews FORCE ROW LEVEL SECURITY;
CREATE POLICY bypass_reviews_app ON bypass_reviews TO signalbox_app
    USING ((tenant_id = nullif(current_setting('app.tenant', true), '')::uuid) IS TRUE) WITH CHECK (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
CREATE POLICY bypass_reviews_engine ON bypass_reviews TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT ON bypass_reviews TO signalbox_app;
GRANT SELECT, INSERT, UPDATE ON bypass_reviews TO signalbox_engine;

-- +goose Down
DROP TABLE bypass_reviews;
