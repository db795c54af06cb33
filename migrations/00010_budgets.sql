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

-- +goose Down
ALTER TABLE policy_decisions DROP COLUMN code, DROP COLUMN decision;
DROP INDEX usages_day_idx;
ALTER TABLE runs DROP COLUMN crashed, DROP COLUMN rate_limited, DROP COLUMN cost_exceeded_at;
