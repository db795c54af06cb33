-- What is asked for: forges, repositories, policies and tasks. Every table from
-- here on carries tenant_id, a unique (tenant_id, id) and composite foreign keys.

-- +goose Up
CREATE TABLE memberships (
    tenant_id  uuid NOT NULL CONSTRAINT memberships_tenant_fk REFERENCES tenants (id),
    user_id    uuid NOT NULL CONSTRAINT memberships_user_fk REFERENCES users (id),
    roles      text[] NOT NULL CONSTRAINT memberships_roles_check
               CHECK (roles <@ ARRAY['viewer', 'requester', 'approver', 'admin', 'breakglass']),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT memberships_pk PRIMARY KEY (tenant_id, user_id)
);

CREATE TABLE group_roles (
    tenant_id   uuid NOT NULL CONSTRAINT group_roles_tenant_fk REFERENCES tenants (id),
    provider_id uuid NOT NULL CONSTRAINT group_roles_provider_fk REFERENCES providers (id),
    group_name  text NOT NULL,
    role        text NOT NULL CONSTRAINT group_roles_role_check
                CHECK (role IN ('viewer', 'requester', 'approver', 'admin', 'breakglass')),
    CONSTRAINT group_roles_pk PRIMARY KEY (tenant_id, provider_id, group_name, role)
);

CREATE TABLE forges (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL CONSTRAINT forges_tenant_fk REFERENCES tenants (id),
    name       text NOT NULL,
    kind       text NOT NULL CONSTRAINT forges_kind_check CHECK (kind IN ('local', 'github', 'gitlab', 'gitea')),
    base_url   text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT forges_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT forges_name_key UNIQUE (tenant_id, name)
);
INSERT INTO forges (id, tenant_id, name, kind)
VALUES ('01920000-0000-7000-8000-000000000002', '01920000-0000-7000-8000-000000000001', 'local', 'local');

CREATE TABLE repositories (
    id             uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL CONSTRAINT repositories_tenant_fk REFERENCES tenants (id),
    forge_id       uuid NOT NULL,
    name           text NOT NULL CONSTRAINT repositories_name_check CHECK (length(name) BETWEEN 1 AND 200),
    clone_url      text NOT NULL,
    default_branch text NOT NULL,
    verification   jsonb NOT NULL DEFAULT '[]',
    scope          text[] NOT NULL DEFAULT '{}',
    forbidden      text[] NOT NULL DEFAULT '{}',
    created_by     uuid CONSTRAINT repositories_user_fk REFERENCES users (id),
    created_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT repositories_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT repositories_name_key UNIQUE (tenant_id, name),
    CONSTRAINT repositories_forge_fk FOREIGN KEY (tenant_id, forge_id) REFERENCES forges (tenant_id, id)
);

-- Policy documents are never changed: the newest row of a tenant is in force.
CREATE TABLE policies (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL CONSTRAINT policies_tenant_fk REFERENCES tenants (id),
    version    text NOT NULL,
    document   text NOT NULL,
    created_by uuid CONSTRAINT policies_user_fk REFERENCES users (id),
    created_at timestamptz NOT NULL DEFAULT now(),
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    CONSTRAINT policies_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT policies_version_key UNIQUE (tenant_id, version)
);

CREATE TABLE task_templates (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL CONSTRAINT task_templates_tenant_fk REFERENCES tenants (id),
    name       text NOT NULL,
    version    int NOT NULL,
    body       jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT task_templates_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT task_templates_name_key UNIQUE (tenant_id, name, version)
);

CREATE TABLE tasks (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL CONSTRAINT tasks_tenant_fk REFERENCES tenants (id),
    repository_id    uuid NOT NULL,
    kind             text NOT NULL DEFAULT 'ordinary' CONSTRAINT tasks_kind_check CHECK (kind IN ('ordinary', 'feedback', 'follow_up')),
    title            text NOT NULL CONSTRAINT tasks_title_check CHECK (length(title) BETWEEN 1 AND 200),
    goal             text NOT NULL CONSTRAINT tasks_goal_check CHECK (length(goal) BETWEEN 1 AND 50000),
    base_ref         text NOT NULL DEFAULT '',
    mode             text NOT NULL CONSTRAINT tasks_mode_check
                     CHECK (mode IN ('pr_created', 'pr_merged', 'patch_ready_for_review', 'analysis_report_created')),
    risk             text NOT NULL CONSTRAINT tasks_risk_check CHECK (risk IN ('LOW', 'MEDIUM', 'HIGH', 'CRITICAL')),
    contract         jsonb NOT NULL,
    contract_digest  text NOT NULL,
    agent_profile    text NOT NULL DEFAULT '',
    parent_task_id   uuid,
    template_id      uuid,
    template_version int,
    campaign_id      uuid,
    requested_by     uuid NOT NULL CONSTRAINT tasks_user_fk REFERENCES users (id),
    state            text NOT NULL CONSTRAINT tasks_state_check CHECK (state IN ('DRAFT', 'SUBMITTED', 'VALIDATING', 'READY',
                     'RUNNING', 'WAITING_FOR_APPROVAL', 'COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED')),
    version          bigint NOT NULL DEFAULT 1,
    max_runs         int NOT NULL CONSTRAINT tasks_max_runs_check CHECK (max_runs >= 1),
    runs_used        int NOT NULL DEFAULT 0,
    active_run_id    uuid,
    cancel_requested boolean NOT NULL DEFAULT false,
    awaits_merge     boolean NOT NULL DEFAULT false,
    auto_run         boolean NOT NULL DEFAULT false,
    reason           text NOT NULL DEFAULT '',
    reason_words     text NOT NULL DEFAULT '',
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT tasks_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT tasks_runs_check CHECK (runs_used BETWEEN 0 AND max_runs),
    CONSTRAINT tasks_terminal_check CHECK (state NOT IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED') OR active_run_id IS NULL),
    CONSTRAINT tasks_repository_fk FOREIGN KEY (tenant_id, repository_id) REFERENCES repositories (tenant_id, id),
    CONSTRAINT tasks_parent_fk FOREIGN KEY (tenant_id, parent_task_id) REFERENCES tasks (tenant_id, id)
);
CREATE INDEX tasks_tenant_created_idx ON tasks (tenant_id, created_at DESC, id DESC);
CREATE INDEX tasks_auto_run_idx ON tasks (created_at) WHERE auto_run;

-- What happened to a task, in order; seq equals the task's version.
CREATE TABLE task_events (
    tenant_id  uuid NOT NULL,
    task_id    uuid NOT NULL,
    seq        bigint NOT NULL,
    kind       text NOT NULL,
    actor_kind text NOT NULL,
    actor_id   text NOT NULL,
    actor_name text NOT NULL DEFAULT '',
    from_state text NOT NULL,
    to_state   text NOT NULL,
    reason     text NOT NULL DEFAULT '',
    run_id     uuid,
    at         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT task_events_pk PRIMARY KEY (task_id, seq),
    CONSTRAINT task_events_task_fk FOREIGN KEY (tenant_id, task_id) REFERENCES tasks (tenant_id, id)
);

-- +goose Down
DROP TABLE task_events, tasks, task_templates, policies, repositories, forges, group_roles, memberships;
