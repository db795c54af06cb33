-- What lies sealed in the database. A row is sealed again only as it was read, so that a change in between is never lost.

-- name: ListStaleClientSecrets :many
SELECT id, issuer, client_secret, client_secret_sealed FROM providers
WHERE client_secret <> '' OR (client_secret_sealed <> '' AND split_part(client_secret_sealed, '.', 2) <> @newest::text)
ORDER BY id LIMIT 500;

-- name: ResealClientSecret :execrows
UPDATE providers SET client_secret = '', client_secret_sealed = @sealed
WHERE id = @id AND client_secret = @was_plain AND client_secret_sealed = @was_sealed;

-- name: ListStaleIDTokens :many
SELECT id_hash, id_token, id_token_sealed FROM sessions
WHERE (id_token <> '' OR (id_token_sealed <> '' AND split_part(id_token_sealed, '.', 2) <> @newest::text)) AND id_hash > @after
ORDER BY id_hash LIMIT 500;

-- name: ResealIDToken :execrows
UPDATE sessions SET id_token = '', id_token_sealed = @sealed
WHERE id_hash = @id_hash AND id_token = @was_plain AND id_token_sealed = @was_sealed;

-- name: DropPlainIDTokens :execrows
-- Without a key an ID token is not kept: a logout then does not reach the provider.
UPDATE sessions SET id_token = '' WHERE id_token <> '';

-- name: CountSecretsByKey :many
SELECT key, count(*)::int AS secrets FROM (
    SELECT split_part(client_secret_sealed, '.', 2) AS key FROM providers WHERE client_secret_sealed <> ''
    UNION ALL SELECT '' FROM providers WHERE client_secret <> ''
    UNION ALL SELECT split_part(id_token_sealed, '.', 2) FROM sessions WHERE id_token_sealed <> ''
    UNION ALL SELECT '' FROM sessions WHERE id_token <> ''
) s GROUP BY key ORDER BY key;
