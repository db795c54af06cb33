-- +goose Up
-- Claims that find a limit reached look past all items that it holds back at once.
CREATE INDEX run_queue_group_idx ON run_queue (phase, queue, tenant_id, user_id, repository_id, provider, risk, pool, rank, run_id);

-- +goose Down
DROP INDEX run_queue_group_idx;
