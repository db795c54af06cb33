-- +goose Up
-- A campaign is one intent over many repositories. Its row is what internal/campaign reduces; specs never change once written;
-- events are what happened, in order, and seq equals the campaign's version.
CREATE TABLE campaigns (
    id             uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL CONSTRAINT campaigns_tenant_fk REFERENCES tenants (id),
    name           text NOT NULL CONSTRAINT campaigns_name_check CHECK (length(name) BETWEEN 1 AND 100),
    state          text NOT NULL CONSTRAINT campaigns_state_check CHECK (state IN ('DRAFT', 'PREVIEWED', 'RUNNING', 'AWAITING_PROMOTION',
                   'PAUSED', 'STOPPING', 'STOPPED', 'COMPLETED', 'COMPLETED_WITH_FAILURES')),
    version        bigint NOT NULL,
    spec_version   int NOT NULL,
    proven_version int NOT NULL DEFAULT 0,
    wave           int NOT NULL DEFAULT 0,
    wave_since     timestamptz,
    pause_by       text NOT NULL DEFAULT '' CONSTRAINT campaigns_pause_by_check CHECK (pause_by IN ('', 'person', 'rule', 'window', 'inconclusive')),
    pause_cause    text NOT NULL DEFAULT '',
    pause_until    timestamptz,
    resume_to      text NOT NULL DEFAULT '' CONSTRAINT campaigns_resume_to_check CHECK (resume_to IN ('', 'RUNNING', 'AWAITING_PROMOTION')),
    rule_since     timestamptz,
    accepted_at    timestamptz,
    launch_by      text NOT NULL DEFAULT '',
    cancel_running boolean NOT NULL DEFAULT false,
    created_by     uuid NOT NULL CONSTRAINT campaigns_user_fk REFERENCES users (id),
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    state_since    timestamptz NOT NULL DEFAULT clock_timestamp(),
    launched_at    timestamptz,
    ended_at       timestamptz,
    CONSTRAINT campaigns_paused_check CHECK ((state = 'PAUSED') = (pause_by <> '')),
    CONSTRAINT campaigns_tenant_id_key UNIQUE (tenant_id, id)
);
CREATE INDEX campaigns_tenant_created_idx ON campaigns (tenant_id, created_at DESC, id DESC);
CREATE INDEX campaigns_going_idx ON campaigns (id) WHERE state IN ('RUNNING', 'AWAITING_PROMOTION', 'PAUSED', 'STOPPING');

CREATE TABLE campaign_specs (
    tenant_id   uuid NOT NULL,
    campaign_id uuid NOT NULL,
    version     int NOT NULL,
    spec        jsonb NOT NULL,
    made_by     uuid NOT NULL CONSTRAINT campaign_specs_user_fk REFERENCES users (id),
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT campaign_specs_pk PRIMARY KEY (campaign_id, version),
    CONSTRAINT campaign_specs_campaign_fk FOREIGN KEY (tenant_id, campaign_id) REFERENCES campaigns (tenant_id, id)
);

-- A target's attempt names its task: the key of the request that makes the task is made of both, so that a crash between the two
-- leaves neither none nor two.
CREATE TABLE campaign_targets (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    campaign_id   uuid NOT NULL,
    repository_id uuid NOT NULL,
    ordinal       int NOT NULL,
    wave          int NOT NULL,
    owner         text NOT NULL DEFAULT '',
    vars          jsonb NOT NULL DEFAULT '{}',
    why           text NOT NULL,
    stage         text NOT NULL DEFAULT 'WAITING' CONSTRAINT campaign_targets_stage_check
                  CHECK (stage IN ('WAITING', 'RUNNING', 'HELD', 'OPEN', 'ENDED', 'EXCLUDED')),
    outcome       text NOT NULL DEFAULT '' CONSTRAINT campaign_targets_outcome_check CHECK (outcome IN ('', 'DELIVERED', 'MERGED', 'NO_CHANGE', 'FAILED',
                  'INFRA', 'REJECTED', 'CANCELLED', 'CLOSED', 'INCONCLUSIVE')),
    spec_version  int NOT NULL DEFAULT 0,
    attempt       int NOT NULL DEFAULT 0,
    task_id       uuid,
    instruction   text NOT NULL DEFAULT '',
    reason        text NOT NULL DEFAULT '',
    cause         text NOT NULL DEFAULT '',
    sample        text NOT NULL DEFAULT '',
    started_at    timestamptz,
    ended_at      timestamptz,
    opened_at     timestamptz,
    pull_open     boolean NOT NULL DEFAULT false,
    cancel_asked  boolean NOT NULL DEFAULT false,
    moved_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT campaign_targets_tenant_id_key UNIQUE (tenant_id, id),
    CONSTRAINT campaign_targets_repository_key UNIQUE (campaign_id, repository_id),
    CONSTRAINT campaign_targets_ended_check CHECK ((stage = 'ENDED') = (outcome <> '')),
    CONSTRAINT campaign_targets_campaign_fk FOREIGN KEY (tenant_id, campaign_id) REFERENCES campaigns (tenant_id, id),
    CONSTRAINT campaign_targets_target_repository_fk FOREIGN KEY (tenant_id, repository_id) REFERENCES repositories (tenant_id, id),
    CONSTRAINT campaign_targets_task_fk FOREIGN KEY (tenant_id, task_id) REFERENCES tasks (tenant_id, id)
);
CREATE INDEX campaign_targets_task_idx ON campaign_targets (task_id) WHERE task_id IS NOT NULL;

CREATE TABLE campaign_events (
    tenant_id   uuid NOT NULL,
    campaign_id uuid NOT NULL,
    seq         bigint NOT NULL,
    kind        text NOT NULL,
    actor_kind  text NOT NULL,
    actor_id    text NOT NULL,
    actor_name  text NOT NULL DEFAULT '',
    from_state  text NOT NULL,
    to_state    text NOT NULL,
    target_id   uuid,
    reason      text NOT NULL DEFAULT '',
    at          timestamptz NOT NULL,
    CONSTRAINT campaign_events_pk PRIMARY KEY (campaign_id, seq),
    CONSTRAINT campaign_events_campaign_fk FOREIGN KEY (tenant_id, campaign_id) REFERENCES campaigns (tenant_id, id)
);

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['campaigns', 'campaign_specs', 'campaign_targets', 'campaign_events'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY %I ON %I TO signalbox_app USING ((tenant_id = nullif(current_setting(''app.tenant'', true), '''')::uuid) IS TRUE) '
            'WITH CHECK (tenant_id = nullif(current_setting(''app.tenant'', true), '''')::uuid)', t || '_app', t);
        EXECUTE format('CREATE POLICY %I ON %I TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true)', t || '_engine', t);
        EXECUTE format('GRANT SELECT ON %I TO signalbox_app', t);
    END LOOP;
END $$;
-- +goose StatementEnd
GRANT SELECT, INSERT, UPDATE ON campaigns, campaign_targets TO signalbox_engine;
GRANT SELECT, INSERT ON campaign_specs, campaign_events TO signalbox_engine;
GRANT DELETE ON campaign_targets TO signalbox_engine; -- of a draft, whose preview is made anew
ALTER TABLE tasks ADD CONSTRAINT tasks_campaign_fk FOREIGN KEY (tenant_id, campaign_id) REFERENCES campaigns (tenant_id, id);
CREATE INDEX tasks_campaign_idx ON tasks (campaign_id) WHERE campaign_id IS NOT NULL;

-- +goose Down
DROP INDEX tasks_campaign_idx;
ALTER TABLE tasks DROP CONSTRAINT tasks_campaign_fk;
DROP TABLE campaign_events, campaign_targets, campaign_specs, campaigns;
