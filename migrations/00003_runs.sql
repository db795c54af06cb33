-- Runs, their log, and who works on them. No index on a mutable column of runs:
-- updates stay heap-only. Queue membership is a narrow table of its own.

-- +goose Up
CREATE SEQUENCE fencing_tokens;

CREATE TABLE runs (
    id                    uuid PRIMARY KEY,
    tenant_id             uuid NOT NULL CONSTRAINT runs_tenant_fk REFERENCES tenants (id),
    task_id               uuid NOT NULL,
    repository_id         uuid NOT NULL,
    campaign_id           uuid,
    mode                  text NOT NULL CONSTRAINT runs_mode_check
                          CHECK (mode IN ('pr_created', 'pr_merged', 'patch_ready_for_review', 'analysis_report_created')),
    risk                  text NOT NULL CONSTRAINT runs_risk_check CHECK (risk IN ('LOW', 'MEDIUM', 'HIGH', 'CRITICAL')),
    state                 text NOT NULL CONSTRAINT runs_state_check CHECK (state IN ('CREATED', 'QUEUED', 'LEASED', 'PREPARING',
                          'CONTEXT_BUILDING', 'PLANNING', 'EXECUTING', 'PATCH_READY', 'VERIFYING', 'JUDGING', 'WAITING_FOR_APPROVAL',
                          'PR_CREATING', 'PR_CREATED', 'AWAITING_VERIFICATION', 'CANCELLING', 'SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED')),
    version               bigint NOT NULL,
    policy_version        text NOT NULL DEFAULT '',
    limits                jsonb NOT NULL DEFAULT '{}',
    attempt_no            int NOT NULL DEFAULT 0,
    attempt_id            uuid,
    released              int NOT NULL DEFAULT 0,
    repairs               int NOT NULL DEFAULT 0,
    verify_redeliveries   int NOT NULL DEFAULT 0,
    publish_redeliveries  int NOT NULL DEFAULT 0,
    base_moves            int NOT NULL DEFAULT 0,
    fencing_token         bigint NOT NULL DEFAULT 0,
    lease_id              uuid,
    lease_phase           text CONSTRAINT runs_lease_phase_check CHECK (lease_phase IN ('execute', 'verify', 'publish')),
    lease_worker          text,
    lease_boot            text,
    queued                text CONSTRAINT runs_queued_check CHECK (queued IN ('execute', 'verify', 'publish')),
    gate_id               uuid,
    gate_kind             text CONSTRAINT runs_gate_kind_check CHECK (gate_kind IN ('plan', 'patch', 'report', 'budget', 'reconcile')),
    gate_revision         int,
    gate_digest           text,
    gate_resume_to        text,
    gate_expired          boolean,
    dispatched            jsonb,
    context_digest        text NOT NULL DEFAULT '',
    plan_digest           text NOT NULL DEFAULT '',
    approved_plan_digest  text NOT NULL DEFAULT '',
    plan_revision         int NOT NULL DEFAULT 0,
    outcome               text NOT NULL DEFAULT '' CONSTRAINT runs_outcome_check CHECK (outcome IN ('', 'patch', 'report', 'no_change')),
    patch                 jsonb,
    patch_revision        int NOT NULL DEFAULT 0,
    report_digest         text NOT NULL DEFAULT '',
    verification_digest   text NOT NULL DEFAULT '',
    approved_patch_id     text NOT NULL DEFAULT '',
    verdict               text NOT NULL DEFAULT '',
    attested              boolean NOT NULL DEFAULT false,
    pr_url                text,
    pr_sha                text,
    pr_branch             text,
    pr_number             bigint,
    failure_category      text CONSTRAINT runs_failure_category_check CHECK (failure_category IN ('INFRASTRUCTURE', 'REPOSITORY_ACCESS',
                          'POLICY_DENIED', 'PLANNING_FAILED', 'TOOL_FAILED', 'VERIFICATION_FAILED', 'JUDGE_REJECTED', 'BUDGET_EXCEEDED',
                          'PR_CREATION_FAILED', 'USER_CANCELLED', 'UNKNOWN')),
    failure_code          text,
    failure_retryable     boolean,
    failure_summary       text,
    failure_evidence      text,
    cancel_by             jsonb,
    cancel_reason         text,
    cancel_at             timestamptz,
    cancel_forced         boolean,
    reason_code           text NOT NULL DEFAULT '',
    created_at            timestamptz NOT NULL,
    finished_at           timestamptz,
    -- Facts: not owned by the reducer and not compared by replay.
    head_hash             bytea NOT NULL,
    updated_at            timestamptz NOT NULL,
    state_since           timestamptz NOT NULL,
    active_ms             bigint NOT NULL DEFAULT 0,
    base_commit           text NOT NULL DEFAULT '',
    branch                text NOT NULL DEFAULT '',
    isolation             text NOT NULL DEFAULT '',
    stop_signal           text NOT NULL DEFAULT '' CONSTRAINT runs_stop_signal_check CHECK (stop_signal IN ('', 'budget', 'timeout', 'drain')),
    stop_signal_at        timestamptz,
    agent_profile         text NOT NULL DEFAULT '',
    adapter_version       text NOT NULL DEFAULT '',

    CONSTRAINT runs_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT runs_task_fk FOREIGN KEY (tenant_id, task_id) REFERENCES tasks (tenant_id, id),
    CONSTRAINT runs_repository_fk FOREIGN KEY (tenant_id, repository_id) REFERENCES repositories (tenant_id, id),
    CONSTRAINT runs_version_check CHECK (version >= 1),
    CONSTRAINT runs_lease_complete_check CHECK (num_nonnulls(lease_id, lease_phase, lease_worker, lease_boot) IN (0, 4)),
    CONSTRAINT runs_lease_or_item_check CHECK (lease_id IS NULL OR queued IS NULL),
    CONSTRAINT runs_work_check CHECK (state NOT IN ('QUEUED', 'LEASED', 'PREPARING', 'CONTEXT_BUILDING', 'PLANNING', 'EXECUTING',
               'PATCH_READY', 'VERIFYING', 'JUDGING', 'PR_CREATING') OR lease_id IS NOT NULL OR queued IS NOT NULL),
    CONSTRAINT runs_leased_check CHECK (state NOT IN ('LEASED', 'PREPARING', 'CANCELLING') OR lease_id IS NOT NULL),
    CONSTRAINT runs_attempt_check CHECK (attempt_no = 0 OR attempt_id IS NOT NULL),
    CONSTRAINT runs_admitted_check CHECK (state IN ('CREATED', 'FAILED', 'CANCELLED', 'EXPIRED') OR policy_version <> ''),
    CONSTRAINT runs_planned_check CHECK (state NOT IN ('EXECUTING', 'PATCH_READY', 'VERIFYING', 'JUDGING') OR plan_digest <> ''),
    CONSTRAINT runs_patch_check CHECK (state NOT IN ('PATCH_READY', 'VERIFYING', 'PR_CREATING', 'PR_CREATED') OR patch IS NOT NULL),
    CONSTRAINT runs_judging_check CHECK (state <> 'JUDGING' OR (outcome = 'patch' AND verification_digest <> '')
               OR (outcome IN ('report', 'no_change') AND report_digest <> '')),
    CONSTRAINT runs_waiting_check CHECK (state <> 'WAITING_FOR_APPROVAL'
               OR (gate_id IS NOT NULL AND lease_id IS NULL AND queued IS NULL)),
    CONSTRAINT runs_gate_check CHECK (gate_id IS NULL OR state = 'WAITING_FOR_APPROVAL'),
    CONSTRAINT runs_awaiting_check CHECK (state <> 'AWAITING_VERIFICATION' OR (lease_id IS NULL AND queued IS NULL)),
    CONSTRAINT runs_pr_check CHECK (state <> 'PR_CREATED' OR num_nonnulls(pr_url, pr_sha, pr_branch) = 3),
    CONSTRAINT runs_succeeded_check CHECK (state <> 'SUCCEEDED' OR verdict <> ''),
    CONSTRAINT runs_failed_check CHECK (state <> 'FAILED' OR num_nonnulls(failure_category, failure_code, failure_retryable) = 3),
    CONSTRAINT runs_cancelled_check CHECK (state NOT IN ('CANCELLING', 'CANCELLED') OR num_nonnulls(cancel_reason, cancel_at, cancel_by) = 3),
    CONSTRAINT runs_expired_check CHECK (state <> 'EXPIRED' OR reason_code <> ''),
    CONSTRAINT runs_terminal_check CHECK (state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED')
               OR (lease_id IS NULL AND queued IS NULL AND gate_id IS NULL)),
    CONSTRAINT runs_finished_check CHECK ((finished_at IS NOT NULL) = (state IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED')))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX runs_tenant_created_idx ON runs (tenant_id, created_at DESC, id DESC);
CREATE INDEX runs_task_idx ON runs (task_id);

-- +goose StatementBegin
CREATE FUNCTION runs_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED')
       AND (to_jsonb(OLD) - ARRAY['updated_at', 'head_hash', 'state_since', 'active_ms', 'base_commit', 'branch', 'isolation',
                                  'stop_signal', 'stop_signal_at', 'agent_profile', 'adapter_version'])
           IS DISTINCT FROM
           (to_jsonb(NEW) - ARRAY['updated_at', 'head_hash', 'state_since', 'active_ms', 'base_commit', 'branch', 'isolation',
                                  'stop_signal', 'stop_signal_at', 'agent_profile', 'adapter_version'])
    THEN
        RAISE EXCEPTION 'run % is %, which is final', OLD.id, OLD.state
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'runs_terminal_is_final';
    END IF;
    IF NEW.state <> OLD.state AND NEW.version <= OLD.version THEN
        RAISE EXCEPTION 'run % cannot change its state without an event', OLD.id
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'runs_state_needs_event';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER runs_guard BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION runs_guard();

-- The log. body holds the exact canonical bytes; hash = SHA-256(previous hash of
-- the run, body); payload is a derived copy that replay compares (D-9).
CREATE TABLE run_events (
    id         bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT run_events_pk PRIMARY KEY,
    xid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    tenant_id  uuid NOT NULL,
    run_id     uuid NOT NULL,
    seq        bigint NOT NULL,
    schema     smallint NOT NULL,
    event_id   text NOT NULL,
    kind       text NOT NULL,
    actor_kind text NOT NULL,
    actor_id   text NOT NULL,
    actor_name text NOT NULL DEFAULT '',
    from_state text NOT NULL,
    to_state   text NOT NULL,
    attempt_no int NOT NULL,
    at         timestamptz NOT NULL,
    body       bytea NOT NULL,
    payload    jsonb NOT NULL,
    hash       bytea NOT NULL,
    CONSTRAINT run_events_run_seq_key UNIQUE (run_id, seq),
    CONSTRAINT run_events_run_event_id_key UNIQUE (run_id, event_id),
    CONSTRAINT run_events_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX run_events_feed_idx ON run_events (xid, id);

CREATE TABLE idempotency_keys (
    -- No foreign key: it would make every transition of a tenant lock that tenant's one row. Rows come from principals.
    tenant_id    uuid NOT NULL,
    scope        text NOT NULL,
    key          text NOT NULL CONSTRAINT idempotency_keys_key_check CHECK (length(key) BETWEEN 1 AND 200),
    request_hash bytea NOT NULL,
    status       int NOT NULL,
    answer       jsonb NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT idempotency_keys_pk PRIMARY KEY (tenant_id, scope, key)
);
CREATE INDEX idempotency_keys_created_idx ON idempotency_keys (created_at);

-- READY items only: inserted when ready, deleted by the claim.
CREATE TABLE run_queue (
    run_id        uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    phase         text NOT NULL CONSTRAINT run_queue_phase_check CHECK (phase IN ('execute', 'verify', 'publish')),
    repository_id uuid NOT NULL,
    user_id       uuid NOT NULL,
    queue         text NOT NULL DEFAULT 'default',
    risk          text NOT NULL,
    provider      text NOT NULL DEFAULT '',
    pool          text NOT NULL DEFAULT '',
    priority      smallint NOT NULL DEFAULT 0,
    visible_at    timestamptz NOT NULL DEFAULT now(),
    seq           bigint GENERATED ALWAYS AS IDENTITY,
    CONSTRAINT run_queue_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX run_queue_head_idx ON run_queue (phase, seq);

-- The future: moved to run_queue when its time has come.
CREATE TABLE run_delayed (
    run_id       uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL,
    phase        text NOT NULL CONSTRAINT run_delayed_phase_check CHECK (phase IN ('execute', 'verify', 'publish')),
    available_at timestamptz NOT NULL,
    CONSTRAINT run_delayed_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX run_delayed_available_idx ON run_delayed (available_at);

-- Runs that admission put off, until it looks again.
CREATE TABLE run_admissions (
    run_id    uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    due_at    timestamptz NOT NULL,
    CONSTRAINT run_admissions_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX run_admissions_due_idx ON run_admissions (due_at);

-- Active leases only; expires_at is deliberately not indexed (heartbeats stay heap-only).
CREATE TABLE run_leases (
    run_id        uuid PRIMARY KEY,
    lease_id      uuid NOT NULL CONSTRAINT run_leases_lease_id_key UNIQUE,
    tenant_id     uuid NOT NULL,
    fencing_token bigint NOT NULL,
    phase         text NOT NULL CONSTRAINT run_leases_phase_check CHECK (phase IN ('execute', 'verify', 'publish')),
    worker_id     uuid NOT NULL CONSTRAINT run_leases_worker_fk REFERENCES worker_credentials (id),
    boot_id       uuid NOT NULL CONSTRAINT run_leases_boot_fk REFERENCES worker_boots (id),
    attempt_id    uuid NOT NULL,
    repository_id uuid NOT NULL,
    user_id       uuid NOT NULL,
    claim_id      text NOT NULL,
    acquired_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at    timestamptz NOT NULL,
    CONSTRAINT run_leases_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
) WITH (fillfactor = 50);
CREATE INDEX run_leases_claim_idx ON run_leases (claim_id);

-- How each lease ended: kept, because late evidence is accepted for some minutes
-- and a worker is told why its lease is gone.
CREATE TABLE ended_leases (
    lease_id      uuid CONSTRAINT ended_leases_pk PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    run_id        uuid NOT NULL,
    fencing_token bigint NOT NULL,
    phase         text NOT NULL CONSTRAINT ended_leases_phase_check CHECK (phase IN ('execute', 'verify', 'publish')),
    worker_id     uuid NOT NULL,
    boot_id       uuid NOT NULL,
    attempt_id    uuid NOT NULL,
    acquired_at   timestamptz NOT NULL,
    state         text NOT NULL CONSTRAINT ended_leases_state_check CHECK (state IN ('RELEASED', 'EXPIRED', 'REVOKED')),
    reason        text NOT NULL,
    ended_at      timestamptz NOT NULL,
    CONSTRAINT ended_leases_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX ended_leases_run_idx ON ended_leases (run_id);

CREATE TABLE attempts (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL,
    run_id     uuid NOT NULL,
    attempt_no int NOT NULL CONSTRAINT attempts_no_check CHECK (attempt_no >= 1),
    state      text NOT NULL CONSTRAINT attempts_state_check CHECK (state IN ('STARTED', 'SUCCEEDED', 'FAILED', 'ABORTED')),
    code       text NOT NULL DEFAULT '',
    worker_id  uuid NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    -- The run's active time when the attempt began: people's time does not count against an attempt.
    run_active_ms bigint NOT NULL DEFAULT 0,
    CONSTRAINT attempts_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT attempts_run_no_key UNIQUE (run_id, attempt_no),
    CONSTRAINT attempts_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id),
    CONSTRAINT attempts_ended_check CHECK ((ended_at IS NULL) = (state = 'STARTED'))
);

-- All five states of a queue item (D-7): three of them are events.
CREATE VIEW queue_items AS
    SELECT q.tenant_id, q.run_id, q.phase, 'READY' AS state, q.visible_at, NULL::text AS last_error FROM run_queue q
    UNION ALL
    SELECT d.tenant_id, d.run_id, d.phase, 'READY', d.available_at, NULL FROM run_delayed d
    UNION ALL
    SELECT l.tenant_id, l.run_id, l.phase, 'CLAIMED', l.acquired_at, NULL FROM run_leases l
    UNION ALL
    SELECT r.tenant_id, r.id, coalesce(r.lease_phase, 'execute'),
           CASE r.state WHEN 'CANCELLED' THEN 'CANCELLED' WHEN 'SUCCEEDED' THEN 'DONE' ELSE 'DEAD' END, r.finished_at, r.failure_code
    FROM runs r WHERE r.finished_at IS NOT NULL;

-- +goose Down
DROP VIEW queue_items;
DROP TABLE attempts, ended_leases, run_leases, run_admissions, run_delayed, run_queue, idempotency_keys, run_events, runs;
DROP FUNCTION runs_guard();
DROP SEQUENCE fencing_tokens;
