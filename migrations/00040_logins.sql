-- +goose Up
-- A session has a name that a person may see (its cookie's hash is none), says what browser it is in, and keeps what its
-- provider needs to end it there (id_token) and to end it from there (provider_sid).
ALTER TABLE sessions
    ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid(),
    ADD COLUMN browser text NOT NULL DEFAULT '',
    ADD COLUMN provider_sid text NOT NULL DEFAULT '',
    ADD COLUMN id_token text NOT NULL DEFAULT '';
CREATE INDEX sessions_subject_idx ON sessions (provider_id, subject);
CREATE INDEX sessions_tenant_idx ON sessions (tenant_id);

-- Who is to confirm who they are; empty for a login of anybody.
ALTER TABLE login_states ADD COLUMN confirms uuid CONSTRAINT login_states_user_fk REFERENCES users (id);

-- Logout tokens that were used, until they run out: none works twice.
CREATE TABLE logout_tokens (
    provider_id uuid NOT NULL CONSTRAINT logout_tokens_provider_fk REFERENCES providers (id),
    jti_hash    bytea NOT NULL,
    expires_at  timestamptz NOT NULL,
    CONSTRAINT logout_tokens_pk PRIMARY KEY (provider_id, jti_hash)
);
CREATE INDEX logout_tokens_expires_idx ON logout_tokens (expires_at);

GRANT SELECT, INSERT, UPDATE, DELETE ON logout_tokens TO signalbox_engine;

-- +goose Down
DROP TABLE logout_tokens;
ALTER TABLE login_states DROP COLUMN confirms;
DROP INDEX sessions_tenant_idx, sessions_subject_idx;
ALTER TABLE sessions DROP COLUMN id, DROP COLUMN browser, DROP COLUMN provider_sid, DROP COLUMN id_token;
