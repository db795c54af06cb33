-- +goose Up
-- What the files of a patch were before it, for the lines around it on a page. NOT VALID: every row that the old rule let in
-- keeps the new one, so that the table is not read under the lock.
ALTER TABLE artifacts DROP CONSTRAINT artifacts_kind_check;
ALTER TABLE artifacts ADD CONSTRAINT artifacts_kind_check CHECK (kind IN ('plan', 'patch', 'report', 'verification_report',
    'judge_report', 'context', 'repository_map', 'log', 'agent_session', 'attempt_failure', 'evidence', 'base_texts')) NOT VALID;

-- +goose Down
ALTER TABLE artifacts DROP CONSTRAINT artifacts_kind_check;
UPDATE artifacts SET kind = 'evidence' WHERE kind = 'base_texts';
ALTER TABLE artifacts ADD CONSTRAINT artifacts_kind_check CHECK (kind IN ('plan', 'patch', 'report', 'verification_report',
    'judge_report', 'context', 'repository_map', 'log', 'agent_session', 'attempt_failure', 'evidence'));
