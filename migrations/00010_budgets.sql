-- Budgets of their own: crashes and rate limits apart from attempts; what a run, a tenant and a day cost.

-- +goose Up
-- The reducer owns both: attempts that a lost worker or the model's provider ended.
ALTER TABLE runs
    ADD COLUMN crashed int NOT NULL DEFAULT 0,
    ADD COLUMN rate_limited int NOT NULL DEFAULT 0,
    -- When the run was first seen to have reached its limit of cost; a fact.
    ADD COLUMN cost_exceeded_at timestamptz;

-- What a tenant spent on a day, without reading the day before.
CREATE INDEX usages_day_idx ON usages (tenant_id, at);

-- What admission answered, in full and deterministic: the decision with queue, priority, limits, requirements and when
-- to ask again, and the facts that it stands on.
ALTER TABLE policy_decisions
    ADD COLUMN code text NOT NULL DEFAULT '',
    ADD COLUMN decision jsonb;

-- What was spent may be told after the run has ended.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED')
       AND (to_jsonb(OLD) - ARRAY['updated_at', 'head_hash', 'state_since', 'active_ms', 'base_commit', 'branch', 'isolation',
                                  'stop_signal', 'stop_signal_at', 'agent_profile', 'adapter_version', 'cost_exceeded_at'])
           IS DISTINCT FROM
           (to_jsonb(NEW) - ARRAY['updated_at', 'head_hash', 'state_since', 'active_ms', 'base_commit', 'branch', 'isolation',
                                  'stop_signal', 'stop_signal_at', 'agent_profile', 'adapter_version', 'cost_exceeded_at'])
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

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION runs_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
ALTER TABLE policy_decisions DROP COLUMN code, DROP COLUMN decision;
DROP INDEX usages_day_idx;
ALTER TABLE runs DROP COLUMN crashed, DROP COLUMN rate_limited, DROP COLUMN cost_exceeded_at;
