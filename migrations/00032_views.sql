-- +goose Up
-- A set of filters of a list that a person gave a name. Only they see it.
CREATE TABLE saved_views (
    tenant_id  uuid NOT NULL CONSTRAINT saved_views_tenant_fk REFERENCES tenants (id),
    user_id    uuid NOT NULL CONSTRAINT saved_views_user_fk REFERENCES users (id),
    list       text NOT NULL CONSTRAINT saved_views_list_check CHECK (list IN ('runs', 'tasks')),
    name       text NOT NULL CONSTRAINT saved_views_name_check CHECK (length(name) BETWEEN 1 AND 60),
    query      text NOT NULL CONSTRAINT saved_views_query_check CHECK (length(query) BETWEEN 1 AND 2000),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT saved_views_pk PRIMARY KEY (tenant_id, user_id, list, name)
);
ALTER TABLE saved_views ENABLE ROW LEVEL SECURITY;
ALTER TABLE saved_views FORCE ROW LEVEL SECURITY;
CREATE POLICY saved_views_app ON saved_views TO signalbox_app
    USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
CREATE POLICY saved_views_engine ON saved_views TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT ON saved_views TO signalbox_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON saved_views TO signalbox_engine;

-- +goose Down
DROP TABLE saved_views;
