-- The policies of the app's role are filters and never the way to a row: each look-up names its tenant itself, and its plan is the
-- same as without them. As a condition on an index the tenant drew plans that were made among few rows to read all of a tenant's.

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE p record;
BEGIN
    FOR p IN SELECT tablename, policyname FROM pg_policies WHERE schemaname = current_schema() AND policyname = tablename || '_app'
        AND tablename NOT IN ('users', 'worker_credentials', 'worker_boots')
    LOOP
        EXECUTE format('ALTER POLICY %I ON %I USING ((tenant_id = nullif(current_setting(''app.tenant'', true), '''')::uuid) IS TRUE)', p.policyname, p.tablename);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE p record;
BEGIN
    FOR p IN SELECT tablename, policyname FROM pg_policies WHERE schemaname = current_schema() AND policyname = tablename || '_app'
        AND tablename NOT IN ('users', 'worker_credentials', 'worker_boots')
    LOOP
        EXECUTE format('ALTER POLICY %I ON %I USING (tenant_id = nullif(current_setting(''app.tenant'', true), '''')::uuid)', p.policyname, p.tablename);
    END LOOP;
END $$;
-- +goose StatementEnd
