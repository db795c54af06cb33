-- Row-level security on every tenant table: signalbox_app sees app.tenant only,
-- engine and owner see all (their tenant predicates come from the principal).

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOR t IN
        SELECT c.table_name FROM information_schema.columns c
        JOIN information_schema.tables b ON b.table_schema = c.table_schema AND b.table_name = c.table_name
        WHERE c.table_schema = current_schema() AND c.column_name = 'tenant_id' AND b.table_type = 'BASE TABLE'
          AND c.table_name NOT IN ('sessions', 'api_tokens', 'login_codes', 'worker_credentials')
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY %I ON %I TO signalbox_app USING (tenant_id = nullif(current_setting(''app.tenant'', true), '''')::uuid) WITH CHECK (tenant_id = nullif(current_setting(''app.tenant'', true), '''')::uuid)', t || '_app', t);
        EXECUTE format('CREATE POLICY %I ON %I TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true)', t || '_engine', t);
        EXECUTE format('GRANT SELECT ON %I TO signalbox_app', t);
    END LOOP;
END $$;
-- +goose StatementEnd
ALTER VIEW queue_items SET (security_invoker = true);
GRANT SELECT ON queue_items TO signalbox_app, signalbox_engine;
GRANT INSERT, UPDATE, DELETE ON drafts TO signalbox_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO signalbox_engine;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO signalbox_engine;
-- The log and the audit are append-only for everything that runs (R-DOM-10).
REVOKE UPDATE, DELETE, TRUNCATE ON run_events, task_events, audit_log, audit_chain, decisions, gate_revisions, ended_leases FROM signalbox_engine;
REVOKE DELETE, TRUNCATE ON runs, tasks, attempts, gates, artifacts, patches, verifications, operations FROM signalbox_engine;

-- +goose Down
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM signalbox_app, signalbox_engine;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM signalbox_engine;
-- +goose StatementBegin
DO $$
DECLARE p record;
BEGIN
    FOR p IN SELECT tablename, policyname FROM pg_policies WHERE schemaname = current_schema() LOOP
        EXECUTE format('DROP POLICY %I ON %I', p.policyname, p.tablename);
        EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY', p.tablename);
        EXECUTE format('ALTER TABLE %I DISABLE ROW LEVEL SECURITY', p.tablename);
    END LOOP;
END $$;
-- +goose StatementEnd
