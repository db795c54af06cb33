-- What people decide, what is done outside, and what is remembered about both.

-- +goose Up
CREATE TABLE gates (
    id             uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL,
    run_id         uuid NOT NULL,
    task_id        uuid NOT NULL,
    kind           text NOT NULL CONSTRAINT gates_kind_check CHECK (kind IN ('plan', 'patch', 'report', 'budget', 'reconcile')),
    state          text NOT NULL CONSTRAINT gates_state_check CHECK (state IN ('preparing', 'open', 'satisfied', 'changes_requested',
                   'rejected', 'superseded', 'expired', 'cancelled', 'bypassed')),
    revision       int NOT NULL CONSTRAINT gates_revision_check CHECK (revision >= 1),
    digest         text NOT NULL,
    artifact_id    text NOT NULL DEFAULT '',
    base_commit    text NOT NULL DEFAULT '',
    quorum         int NOT NULL CONSTRAINT gates_quorum_check CHECK (quorum >= 1),
    role           text NOT NULL,
    policy_version text NOT NULL,
    reasons        text[] NOT NULL DEFAULT '{}',
    opened_at      timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    closed_at      timestamptz,
    escalated_at   timestamptz,
    CONSTRAINT gates_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT gates_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id),
    CONSTRAINT gates_task_fk FOREIGN KEY (tenant_id, task_id) REFERENCES tasks (tenant_id, id)
);
CREATE UNIQUE INDEX gates_one_open_idx ON gates (run_id) WHERE state IN ('preparing', 'open', 'expired');
CREATE INDEX gates_open_idx ON gates (tenant_id, expires_at) WHERE state IN ('open', 'expired');
CREATE INDEX gates_run_idx ON gates (run_id, opened_at);

CREATE TABLE gate_revisions (
    tenant_id   uuid NOT NULL,
    gate_id     uuid NOT NULL,
    revision    int NOT NULL,
    digest      text NOT NULL,
    artifact_id text NOT NULL DEFAULT '',
    base_commit text NOT NULL DEFAULT '',
    opened_at   timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    CONSTRAINT gate_revisions_pk PRIMARY KEY (gate_id, revision),
    CONSTRAINT gate_revisions_gate_fk FOREIGN KEY (tenant_id, gate_id) REFERENCES gates (tenant_id, id)
);

CREATE TABLE decisions (
    id                uuid PRIMARY KEY,
    tenant_id         uuid NOT NULL,
    gate_id           uuid NOT NULL,
    revision          int NOT NULL,
    digest_seen       text NOT NULL,
    user_id           uuid NOT NULL CONSTRAINT decisions_user_fk REFERENCES users (id),
    verdict           text NOT NULL CONSTRAINT decisions_verdict_check CHECK (verdict IN ('approve', 'request_changes', 'reject', 'bypass', 'withdraw')),
    text              text NOT NULL DEFAULT '',
    channel           text NOT NULL CONSTRAINT decisions_channel_check CHECK (channel IN ('page', 'api')),
    auth_time         timestamptz NOT NULL,
    -- extra: given after the gate was satisfied; kept, and not needed.
    extra             boolean NOT NULL DEFAULT false,
    carried_over_from uuid,
    policy_version    text NOT NULL,
    at                timestamptz NOT NULL DEFAULT clock_timestamp(),
    seq               bigint GENERATED ALWAYS AS IDENTITY,
    CONSTRAINT decisions_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT decisions_gate_fk FOREIGN KEY (tenant_id, gate_id) REFERENCES gates (tenant_id, id)
);
CREATE INDEX decisions_gate_idx ON decisions (gate_id, seq);

CREATE TABLE policy_decisions (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id uuid NOT NULL,
    run_id    uuid,
    task_id   uuid,
    point     text NOT NULL,
    version   text NOT NULL,
    verdict   text NOT NULL,
    reasons   text[] NOT NULL DEFAULT '{}',
    inputs    jsonb NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT policy_decisions_tenant_fk FOREIGN KEY (tenant_id) REFERENCES tenants (id)
);
CREATE INDEX policy_decisions_run_idx ON policy_decisions (run_id, id);

-- One row per intended external effect, written before it is dispatched.
CREATE TABLE operations (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    run_id        uuid NOT NULL,
    kind          text NOT NULL CONSTRAINT operations_kind_check CHECK (kind IN ('push_branch', 'open_pull_request', 'update_pull_request', 'comment')),
    identity      text NOT NULL,
    state         text NOT NULL CONSTRAINT operations_state_check CHECK (state IN ('intended', 'dispatched', 'observed', 'ambiguous', 'reconciled')),
    outcome       text NOT NULL DEFAULT '' CONSTRAINT operations_outcome_check CHECK (outcome IN ('', 'succeeded', 'failed', 'ambiguous')),
    parameters    jsonb NOT NULL,
    result        jsonb NOT NULL DEFAULT '{}',
    lease_id      uuid NOT NULL,
    fencing_token bigint NOT NULL,
    intended_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    dispatched_at timestamptz,
    observed_at   timestamptz,
    CONSTRAINT operations_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT operations_identity_key UNIQUE (tenant_id, run_id, identity),
    CONSTRAINT operations_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);

CREATE TABLE pull_requests (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    repository_id uuid NOT NULL,
    task_id       uuid NOT NULL,
    run_id        uuid NOT NULL,
    number        bigint NOT NULL,
    state         text NOT NULL CONSTRAINT pull_requests_state_check CHECK (state IN ('OPEN', 'UPDATED', 'REVIEW_REQUESTED',
                  'CHANGES_REQUESTED', 'APPROVED', 'MERGED', 'CLOSED')),
    url           text NOT NULL,
    title         text NOT NULL,
    body          text NOT NULL,
    head_branch   text NOT NULL,
    base_branch   text NOT NULL,
    head_sha      text NOT NULL,
    merge_sha     text NOT NULL DEFAULT '',
    merged_by     uuid CONSTRAINT pull_requests_user_fk REFERENCES users (id),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pull_requests_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT pull_requests_number_key UNIQUE (repository_id, number),
    CONSTRAINT pull_requests_head_key UNIQUE (repository_id, head_branch),
    CONSTRAINT pull_requests_repository_fk FOREIGN KEY (tenant_id, repository_id) REFERENCES repositories (tenant_id, id),
    CONSTRAINT pull_requests_task_fk FOREIGN KEY (tenant_id, task_id) REFERENCES tasks (tenant_id, id),
    CONSTRAINT pull_requests_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX pull_requests_task_idx ON pull_requests (task_id);

CREATE TABLE attestations (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL,
    run_id     uuid NOT NULL,
    state      text NOT NULL CONSTRAINT attestations_state_check CHECK (state IN ('requested', 'accepted', 'refused', 'withdrawn', 'expired')),
    statement  text NOT NULL DEFAULT '',
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT attestations_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT attestations_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE UNIQUE INDEX attestations_one_idx ON attestations (run_id) WHERE state = 'requested';

-- Effects for the relay; a row goes when it is delivered.
CREATE TABLE outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  uuid NOT NULL,
    run_id     uuid NOT NULL,
    seq        bigint NOT NULL,
    topic      text NOT NULL,
    payload    jsonb NOT NULL DEFAULT '{}',
    attempts   int NOT NULL DEFAULT 0,
    next_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    dead       boolean NOT NULL DEFAULT false,
    last_error text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT outbox_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX outbox_run_idx ON outbox (run_id, id) WHERE NOT dead;

-- In-app messages that the relay delivers.
CREATE TABLE notices (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  uuid NOT NULL,
    outbox_id  bigint NOT NULL,
    run_id     uuid NOT NULL,
    topic      text NOT NULL,
    payload    jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT notices_outbox_key UNIQUE (outbox_id),
    CONSTRAINT notices_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX notices_tenant_idx ON notices (tenant_id, id);

CREATE TABLE drafts (
    tenant_id  uuid NOT NULL CONSTRAINT drafts_tenant_fk REFERENCES tenants (id),
    user_id    uuid NOT NULL CONSTRAINT drafts_user_fk REFERENCES users (id),
    key        text NOT NULL,
    body       text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT drafts_pk PRIMARY KEY (tenant_id, user_id, key)
);

-- Human and admin actions, in the transaction of the action itself. One sealer
-- chains them within a second (D-9); columns exist from the start.
CREATE TABLE audit_log (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid         xid8 NOT NULL DEFAULT pg_current_xact_id(),
    tenant_id   uuid NOT NULL CONSTRAINT audit_log_tenant_fk REFERENCES tenants (id),
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor_kind  text NOT NULL,
    actor_id    text NOT NULL,
    actor_name  text NOT NULL DEFAULT '',
    channel     text NOT NULL DEFAULT '',
    remote_addr text NOT NULL DEFAULT '',
    request_id  text NOT NULL DEFAULT '',
    action      text NOT NULL,
    object_type text NOT NULL,
    object_id   text NOT NULL,
    result      text NOT NULL,
    reason      text NOT NULL DEFAULT '',
    detail      jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT audit_log_tenant_id_key UNIQUE (tenant_id, id)
);

CREATE TABLE audit_chain (
    tenant_id uuid NOT NULL CONSTRAINT audit_chain_tenant_fk REFERENCES tenants (id),
    seq       bigint NOT NULL,
    audit_id  bigint NOT NULL,
    prev      bytea NOT NULL,
    hash      bytea NOT NULL,
    CONSTRAINT audit_chain_pk PRIMARY KEY (tenant_id, seq),
    CONSTRAINT audit_chain_audit_fk FOREIGN KEY (tenant_id, audit_id) REFERENCES audit_log (tenant_id, id),
    CONSTRAINT audit_chain_audit_key UNIQUE (audit_id)
);

CREATE TABLE chain_cursors (
    name text PRIMARY KEY,
    xid  xid8 NOT NULL,
    seq  bigint NOT NULL DEFAULT 0
);

CREATE TABLE feed_cursors (
    name text PRIMARY KEY,
    xid  xid8 NOT NULL,
    event_id bigint NOT NULL DEFAULT 0
);

-- +goose Down
DROP TABLE feed_cursors, chain_cursors, audit_chain, audit_log, drafts, notices, outbox, attestations, pull_requests,
    operations, policy_decisions, decisions, gate_revisions, gates;
