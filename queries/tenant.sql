-- The first statement of everything that is asked as signalbox_app: until its transaction ends, the app's role sees one tenant.

-- name: ReadAsTenant :exec
SELECT set_config('app.tenant', @tenant::text, true), set_config('transaction_read_only', 'on', true);

-- name: WriteAsTenant :exec
SELECT set_config('app.tenant', @tenant::text, true);

-- name: AppRole :one
-- Who asks, and whether the policies of signalbox_app hold for them and those of nobody else do.
SELECT current_user::text AS name, (pg_has_role('signalbox_app', 'USAGE') AND NOT pg_has_role('signalbox_engine', 'USAGE')
    AND NOT pg_has_role('signalbox_owner', 'USAGE') AND row_security_active('runs'))::bool AS held;
