-- +goose Up
-- What admission asks about the last minute and the last hour.
CREATE INDEX artifacts_rate_idx ON artifacts (tenant_id, created_at);
CREATE INDEX pull_requests_rate_idx ON pull_requests (tenant_id, created_at);

-- +goose Down
DROP INDEX pull_requests_rate_idx;
DROP INDEX artifacts_rate_idx;
