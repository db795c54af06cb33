-- What runs leave behind: artifacts, patches, steps, logs, usage, sandboxes.

-- +goose Up
CREATE TABLE artifacts (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL,
    run_id     uuid NOT NULL,
    attempt_no int NOT NULL,
    revision   int NOT NULL DEFAULT 0,
    kind       text NOT NULL CONSTRAINT artifacts_kind_check CHECK (kind IN ('plan', 'patch', 'report', 'verification_report',
               'judge_report', 'context', 'repository_map', 'log', 'agent_session', 'attempt_failure', 'evidence')),
    name       text NOT NULL,
    sha256     text NOT NULL,
    size       bigint NOT NULL CONSTRAINT artifacts_size_check CHECK (size >= 0),
    blob_key   text NOT NULL,
    lease_id   uuid,
    late       boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT artifacts_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT artifacts_content_key UNIQUE (run_id, attempt_no, kind, name, sha256),
    CONSTRAINT artifacts_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX artifacts_run_idx ON artifacts (run_id, created_at);

-- What the server found when it parsed and scanned a stored patch itself.
CREATE TABLE patches (
    artifact_id uuid PRIMARY KEY,
    tenant_id   uuid NOT NULL,
    run_id      uuid NOT NULL,
    digest      text NOT NULL,
    patch_id    text NOT NULL,
    files       int NOT NULL,
    added       int NOT NULL,
    removed     int NOT NULL,
    scan        text NOT NULL CONSTRAINT patches_scan_check CHECK (scan IN ('clean', 'findings', 'not_scanned')),
    fault       text NOT NULL DEFAULT '',
    facts       jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT patches_artifact_fk FOREIGN KEY (tenant_id, artifact_id) REFERENCES artifacts (tenant_id, id),
    CONSTRAINT patches_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);

-- What the server read in a stored verification report.
CREATE TABLE verifications (
    artifact_id    uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL,
    run_id         uuid NOT NULL,
    attempt_no     int NOT NULL,
    digest         text NOT NULL,
    patch_digest   text NOT NULL,
    passed         boolean NOT NULL,
    infrastructure boolean NOT NULL DEFAULT false,
    fingerprint    text NOT NULL DEFAULT '',
    summary        text NOT NULL DEFAULT '',
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT verifications_artifact_fk FOREIGN KEY (tenant_id, artifact_id) REFERENCES artifacts (tenant_id, id),
    CONSTRAINT verifications_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX verifications_run_idx ON verifications (run_id, created_at);

CREATE TABLE sandboxes (
    lease_id     uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL,
    run_id       uuid NOT NULL,
    phase        text NOT NULL,
    tier         text NOT NULL DEFAULT '',
    state        text NOT NULL CONSTRAINT sandboxes_state_check CHECK (state IN ('REQUESTED', 'READY', 'SAVING', 'DESTROYED', 'FAILED')),
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT sandboxes_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX sandboxes_run_idx ON sandboxes (run_id);

CREATE TABLE steps (
    id          uuid PRIMARY KEY,
    tenant_id   uuid NOT NULL,
    run_id      uuid NOT NULL,
    attempt_no  int NOT NULL,
    lease_id    uuid NOT NULL,
    phase       text NOT NULL,
    call_id     text NOT NULL,
    kind        text NOT NULL,
    name        text NOT NULL,
    state       text NOT NULL CONSTRAINT steps_state_check CHECK (state IN ('PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'TIMED_OUT', 'CANCELLED')),
    summary     text NOT NULL DEFAULT '',
    exit_code   int,
    duration_ms bigint,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    CONSTRAINT steps_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT steps_lease_call_key UNIQUE (lease_id, call_id),
    CONSTRAINT steps_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX steps_run_idx ON steps (run_id, seq);

CREATE TABLE log_chunks (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  uuid NOT NULL,
    run_id     uuid NOT NULL,
    attempt_no int NOT NULL,
    lease_id   uuid NOT NULL,
    stream     text NOT NULL,
    call_id    text NOT NULL DEFAULT '',
    data       bytea NOT NULL CONSTRAINT log_chunks_size_check CHECK (length(data) <= 65536),
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT log_chunks_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX log_chunks_run_idx ON log_chunks (run_id, id);

-- Usage is kept as reported, estimated or unknown; a sum never mixes them.
CREATE TABLE usages (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id        uuid NOT NULL,
    run_id           uuid NOT NULL,
    attempt_no       int NOT NULL,
    lease_id         uuid NOT NULL,
    model            text NOT NULL DEFAULT '',
    source           text NOT NULL DEFAULT 'reported' CONSTRAINT usages_source_check CHECK (source IN ('reported', 'estimated', 'unknown')),
    input_tokens     bigint NOT NULL DEFAULT 0,
    output_tokens    bigint NOT NULL DEFAULT 0,
    tool_calls       bigint NOT NULL DEFAULT 0,
    agent_iterations bigint NOT NULL DEFAULT 0,
    tool_ms          bigint NOT NULL DEFAULT 0,
    sandbox_ms       bigint NOT NULL DEFAULT 0,
    provider_calls   bigint NOT NULL DEFAULT 0,
    cost_micros      bigint NOT NULL DEFAULT 0,
    at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT usages_amounts_check CHECK (least(input_tokens, output_tokens, tool_calls, agent_iterations, tool_ms, sandbox_ms, provider_calls, cost_micros) >= 0
               AND greatest(input_tokens, output_tokens, tool_calls, agent_iterations, tool_ms, sandbox_ms, provider_calls, cost_micros) <= 1000000000000),
    CONSTRAINT usages_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX usages_run_idx ON usages (run_id);

-- The newest accepted batch number of a lease, per kind of fact.
CREATE TABLE fact_sequences (
    lease_id uuid NOT NULL,
    kind     text NOT NULL CONSTRAINT fact_sequences_kind_check CHECK (kind IN ('steps', 'logs', 'usage')),
    tenant_id uuid NOT NULL CONSTRAINT fact_sequences_tenant_fk REFERENCES tenants (id),
    sequence bigint NOT NULL,
    CONSTRAINT fact_sequences_pk PRIMARY KEY (lease_id, kind)
);

-- What the agent must hear in its next try. Belongs to the run, not to the attempt.
CREATE TABLE feedback (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id   uuid NOT NULL,
    run_id      uuid NOT NULL,
    seq         bigint NOT NULL,
    source      text NOT NULL CONSTRAINT feedback_source_check CHECK (source IN ('verifier', 'judge', 'human', 'system')),
    text        text NOT NULL,
    artifact_id text NOT NULL DEFAULT '',
    author      text NOT NULL DEFAULT '',
    gate_id     uuid,
    revision    int,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT feedback_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id)
);
CREATE INDEX feedback_run_idx ON feedback (run_id, id);

-- +goose Down
DROP TABLE feedback, fact_sequences, usages, log_chunks, steps, sandboxes, verifications, patches, artifacts;
