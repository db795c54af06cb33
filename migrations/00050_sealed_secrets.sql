-- +goose Up
-- Secrets lie here under keys that are not here. An older server writes the columns without seal; what it left there is sealed
-- and emptied by the next look of a newer one.
ALTER TABLE providers ADD COLUMN client_secret_sealed text NOT NULL DEFAULT ''
    CONSTRAINT providers_client_secret_sealed_check CHECK (client_secret_sealed = '' OR client_secret_sealed ~ '^v1\.[a-z0-9-]+\.[A-Za-z0-9_-]+$');
ALTER TABLE sessions ADD COLUMN id_token_sealed text NOT NULL DEFAULT ''
    CONSTRAINT sessions_id_token_sealed_check CHECK (id_token_sealed = '' OR id_token_sealed ~ '^v1\.[a-z0-9-]+\.[A-Za-z0-9_-]+$');

-- +goose Down
ALTER TABLE sessions DROP COLUMN id_token_sealed;
ALTER TABLE providers DROP COLUMN client_secret_sealed;
