-- People, sessions, tokens and workers. These tables are global: they carry no
-- row-level security and signalbox_app has no grant on them (D-10).
-- The database roles are made by the launcher or an operator, never here (D-11).

-- +goose Up
CREATE TABLE tenants (
    id         uuid PRIMARY KEY,
    name       text NOT NULL CONSTRAINT tenants_name_key UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO tenants (id, name) VALUES ('01920000-0000-7000-8000-000000000001', 'default');

CREATE TABLE users (
    id          uuid PRIMARY KEY,
    name        text NOT NULL,
    email       text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT now(),
    disabled_at timestamptz
);

CREATE TABLE providers (
    id            uuid PRIMARY KEY,
    name          text NOT NULL CONSTRAINT providers_name_key UNIQUE,
    issuer        text NOT NULL,
    client_id     text NOT NULL,
    client_secret text NOT NULL DEFAULT '',
    groups_claim  text NOT NULL DEFAULT 'groups',
    dev           boolean NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE identities (
    provider_id uuid NOT NULL CONSTRAINT identities_provider_fk REFERENCES providers (id),
    subject     text NOT NULL,
    user_id     uuid NOT NULL CONSTRAINT identities_user_fk REFERENCES users (id),
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT identities_pk PRIMARY KEY (provider_id, subject)
);

CREATE TABLE login_states (
    state_hash  bytea PRIMARY KEY,
    provider_id uuid NOT NULL CONSTRAINT login_states_provider_fk REFERENCES providers (id),
    nonce       text NOT NULL,
    verifier    text NOT NULL,
    return_to   text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL
);

CREATE TABLE sessions (
    id_hash          bytea PRIMARY KEY,
    user_id          uuid NOT NULL CONSTRAINT sessions_user_fk REFERENCES users (id),
    tenant_id        uuid NOT NULL CONSTRAINT sessions_tenant_fk REFERENCES tenants (id),
    provider_id      uuid CONSTRAINT sessions_provider_fk REFERENCES providers (id),
    subject          text NOT NULL DEFAULT '',
    data             bytea NOT NULL DEFAULT '',
    auth_time        timestamptz NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    last_seen_at     timestamptz NOT NULL DEFAULT now(),
    idle_expires_at  timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    revoked_at       timestamptz
);
CREATE INDEX sessions_user_idx ON sessions (user_id);

-- sbp_ (a person's login from the command line) and sbt_ (an API token).
CREATE TABLE api_tokens (
    id           uuid PRIMARY KEY,
    tenant_id    uuid CONSTRAINT api_tokens_tenant_fk REFERENCES tenants (id),
    user_id      uuid NOT NULL CONSTRAINT api_tokens_user_fk REFERENCES users (id),
    kind         text NOT NULL CONSTRAINT api_tokens_kind_check CHECK (kind IN ('login', 'api')),
    name         text NOT NULL,
    hash         bytea NOT NULL CONSTRAINT api_tokens_hash_key UNIQUE,
    scopes       text[] NOT NULL DEFAULT '{}',
    auth_time    timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    last_used_at timestamptz,
    revoked_at   timestamptz
);
CREATE INDEX api_tokens_user_idx ON api_tokens (user_id);

-- One-time codes of `signalbox login`.
CREATE TABLE login_codes (
    code_hash  bytea PRIMARY KEY,
    user_id    uuid NOT NULL CONSTRAINT login_codes_user_fk REFERENCES users (id),
    tenant_id  uuid NOT NULL CONSTRAINT login_codes_tenant_fk REFERENCES tenants (id),
    challenge  text NOT NULL,
    auth_time  timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);

-- A worker's identity is its credential: another worker means another credential (D-22).
CREATE TABLE worker_credentials (
    id           uuid PRIMARY KEY,
    tenant_id    uuid CONSTRAINT worker_credentials_tenant_fk REFERENCES tenants (id),
    name         text NOT NULL,
    hash         bytea NOT NULL CONSTRAINT worker_credentials_hash_key UNIQUE,
    phases       text[] NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz,
    revoked_at   timestamptz
);

CREATE TABLE worker_boots (
    id              uuid PRIMARY KEY,
    worker_id       uuid NOT NULL CONSTRAINT worker_boots_worker_fk REFERENCES worker_credentials (id),
    name            text NOT NULL,
    version         text NOT NULL,
    phases          text[] NOT NULL,
    capabilities    text[] NOT NULL DEFAULT '{}',
    isolation       text NOT NULL CONSTRAINT worker_boots_isolation_check CHECK (isolation IN ('process', 'bwrap', 'container')),
    probes          jsonb NOT NULL DEFAULT '[]',
    max_concurrent  int NOT NULL CONSTRAINT worker_boots_max_check CHECK (max_concurrent BETWEEN 1 AND 1000),
    state           text NOT NULL CONSTRAINT worker_boots_state_check CHECK (state IN ('STARTING', 'READY', 'DRAINING', 'STOPPED', 'DEAD')),
    drain_requested boolean NOT NULL DEFAULT false,
    started_at      timestamptz NOT NULL DEFAULT now(),
    heartbeat_at    timestamptz NOT NULL DEFAULT now(),
    stopped_at      timestamptz
) WITH (fillfactor = 70);
CREATE INDEX worker_boots_worker_idx ON worker_boots (worker_id, started_at);

-- +goose Down
DROP TABLE worker_boots, worker_credentials, login_codes, api_tokens, sessions, login_states, identities, providers, users, tenants;
