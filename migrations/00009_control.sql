-- What keeps the control plane honest about itself: whether it was away, what it repaired, and what it set aside.

-- +goose Up
-- When a server last said that it was there. One row for all replicas: while any of them runs and the database answers,
-- workers can prolong their leases. Global, like workers.
CREATE TABLE control_heartbeat (
    only_one  boolean PRIMARY KEY DEFAULT true CONSTRAINT control_heartbeat_one_check CHECK (only_one),
    beat_at   timestamptz NOT NULL,
    -- Silence longer than this was an outage.
    patience  double precision NOT NULL,
    -- Which start of the database server was seen last; not an instant of ours, so kept as it is told.
    server    text NOT NULL,
    -- When the last outage was over, and until when nothing is taken from a worker because of it.
    up_since  timestamptz NOT NULL,
    hold_until timestamptz NOT NULL,
    outages   bigint NOT NULL DEFAULT 0
);

-- What the reconciler found wrong and put right. No event stands for it where the run itself did not change.
CREATE TABLE repairs (
    id        uuid PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT repairs_tenant_fk REFERENCES tenants (id),
    run_id    uuid,
    task_id   uuid,
    code      text NOT NULL,
    detail    text NOT NULL DEFAULT '',
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT repairs_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT repairs_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id),
    CONSTRAINT repairs_task_fk FOREIGN KEY (tenant_id, task_id) REFERENCES tasks (tenant_id, id)
);
CREATE INDEX repairs_tenant_at_idx ON repairs (tenant_id, at DESC, id DESC);
CREATE INDEX repairs_run_idx ON repairs (run_id);

-- Runs that could not be handled again and again. The loops leave them alone until a person releases them.
CREATE TABLE quarantine (
    run_id    uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    -- What failed: a loop of the control plane, or the claim.
    by_loop   text NOT NULL,
    reason    text NOT NULL,
    failures  int NOT NULL,
    since     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT quarantine_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);

-- What the reconciler looks through: an open run is its task's active run. The table of runs itself gets no index for it,
-- so that its updates stay heap-only.
CREATE INDEX tasks_active_run_idx ON tasks (active_run_id) WHERE active_run_id IS NOT NULL;
CREATE INDEX tasks_busy_idx ON tasks (id) WHERE state IN ('RUNNING', 'WAITING_FOR_APPROVAL');
CREATE INDEX attempts_open_idx ON attempts (id) WHERE state = 'STARTED';
CREATE INDEX sandboxes_open_idx ON sandboxes (lease_id) WHERE state IN ('REQUESTED', 'READY', 'SAVING');

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['repairs', 'quarantine'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY %I ON %I TO signalbox_app USING (tenant_id = nullif(current_setting(''app.tenant'', true), '''')::uuid) WITH CHECK (tenant_id = nullif(current_setting(''app.tenant'', true), '''')::uuid)', t || '_app', t);
        EXECUTE format('CREATE POLICY %I ON %I TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true)', t || '_engine', t);
        EXECUTE format('GRANT SELECT ON %I TO signalbox_app', t);
    END LOOP;
END $$;
-- +goose StatementEnd
GRANT SELECT, INSERT, UPDATE ON control_heartbeat TO signalbox_engine;
-- What was repaired is on record like the log itself.
GRANT SELECT, INSERT ON repairs TO signalbox_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON quarantine TO signalbox_engine;

-- +goose Down
DROP INDEX tasks_active_run_idx, tasks_busy_idx, attempts_open_idx, sandboxes_open_idx;
DROP TABLE quarantine, repairs, control_heartbeat;
