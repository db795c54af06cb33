-- +goose Up
-- The audit log becomes a hash chain for each tenant: its rows are numbered 1, 2, … without a gap, and a row's hash is
-- SHA-256 over the hash before it and the row's canonical bytes. The database does it, for every program that writes a row: the head
-- is locked until the transaction ends, so nothing is locked after it. internal/evidence has the same encoding, to check it from outside.
DROP TABLE audit_chain;
DROP TABLE chain_cursors;

CREATE TABLE audit_heads (
    tenant_id uuid CONSTRAINT audit_heads_pk PRIMARY KEY CONSTRAINT audit_heads_tenant_fk REFERENCES tenants (id),
    seq       bigint NOT NULL,
    hash      bytea NOT NULL
) WITH (fillfactor = 50);
ALTER TABLE audit_heads ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_heads FORCE ROW LEVEL SECURITY;
CREATE POLICY audit_heads_app ON audit_heads TO signalbox_app
    USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
CREATE POLICY audit_heads_engine ON audit_heads TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT ON audit_heads TO signalbox_app, signalbox_engine;

ALTER TABLE audit_log ADD COLUMN seq bigint, ADD COLUMN hash bytea;

-- A field is its length in eight bytes and its bytes, so that no two rows have the same bytes.
CREATE FUNCTION audit_field(field text) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$ SELECT int8send(octet_length(convert_to(field, 'UTF8'))::bigint) || convert_to(field, 'UTF8') $$;
CREATE FUNCTION audit_record(r audit_log) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT convert_to(E'signalbox audit v1\n', 'UTF8') || uuid_send(r.tenant_id) || int8send(r.seq) || int8send(r.id) || timestamptz_send(r.at)
        || audit_field(r.xid::text) || audit_field(r.actor_kind) || audit_field(r.actor_id) || audit_field(r.actor_name) || audit_field(r.channel)
        || audit_field(r.remote_addr) || audit_field(r.request_id) || audit_field(r.action) || audit_field(r.object_type) || audit_field(r.object_id)
        || audit_field(r.result) || audit_field(r.reason) || audit_field(r.detail::text) $$;

-- Rows of before are chained in the order in which they were written.
-- +goose StatementBegin
DO $$
DECLARE r audit_log; tenant uuid; n bigint; prev bytea;
BEGIN
    FOR r IN SELECT * FROM audit_log ORDER BY tenant_id, id LOOP
        IF tenant IS DISTINCT FROM r.tenant_id THEN
            tenant := r.tenant_id; n := 0; prev := '';
        END IF;
        n := n + 1;
        r.seq := n;
        prev := sha256(prev || audit_record(r));
        UPDATE audit_log SET seq = n, hash = prev WHERE id = r.id;
        INSERT INTO audit_heads (tenant_id, seq, hash) VALUES (tenant, n, prev)
            ON CONFLICT (tenant_id) DO UPDATE SET seq = excluded.seq, hash = excluded.hash;
    END LOOP;
END $$;
-- +goose StatementEnd
ALTER TABLE audit_log ALTER COLUMN seq SET NOT NULL, ALTER COLUMN hash SET NOT NULL;
ALTER TABLE audit_log ADD CONSTRAINT audit_log_seq_key UNIQUE (tenant_id, seq);
CREATE INDEX audit_log_actor_idx ON audit_log (tenant_id, actor_id, seq);
CREATE INDEX audit_log_action_idx ON audit_log (tenant_id, action, seq);
CREATE INDEX audit_log_object_idx ON audit_log (tenant_id, object_id, seq);
CREATE INDEX audit_log_at_idx ON audit_log (tenant_id, at);

-- It runs with the owner's rights: who writes a row can neither choose its number nor move the head.
-- +goose StatementBegin
CREATE FUNCTION audit_log_chain() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE prev bytea;
BEGIN
    LOOP
        SELECT h.seq + 1, h.hash INTO NEW.seq, prev FROM audit_heads h WHERE h.tenant_id = NEW.tenant_id FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO audit_heads (tenant_id, seq, hash) VALUES (NEW.tenant_id, 0, '') ON CONFLICT DO NOTHING;
    END LOOP;
    -- The time is taken under the lock, so that the order of the numbers is that of the times.
    NEW.at := clock_timestamp();
    NEW.hash := sha256(prev || audit_record(NEW));
    UPDATE audit_heads SET seq = NEW.seq, hash = NEW.hash WHERE tenant_id = NEW.tenant_id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_log_chain BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_chain();

-- +goose Down
DROP TRIGGER audit_log_chain ON audit_log;
DROP FUNCTION audit_log_chain();
DROP INDEX audit_log_at_idx, audit_log_object_idx, audit_log_action_idx, audit_log_actor_idx;
DROP FUNCTION audit_record(audit_log);
DROP FUNCTION audit_field(text);
ALTER TABLE audit_log DROP COLUMN seq, DROP COLUMN hash;
DROP TABLE audit_heads;
CREATE TABLE audit_chain (
    tenant_id uuid NOT NULL CONSTRAINT audit_chain_tenant_fk REFERENCES tenants (id),
    seq       bigint NOT NULL,
    audit_id  bigint NOT NULL,
    prev      bytea NOT NULL,
    hash      bytea NOT NULL,
    CONSTRAINT audit_chain_pk PRIMARY KEY (tenant_id, seq),
    CONSTRAINT audit_chain_audit_fk FOREIGN KEY (tenant_id, audit_id) REFERENCES audit_log (tenant_id, id),
    CONSTRAINT audit_chain_audit_key UNIQUE (audit_id)
);
ALTER TABLE audit_chain ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_chain FORCE ROW LEVEL SECURITY;
CREATE POLICY audit_chain_app ON audit_chain TO signalbox_app
    USING (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant', true), '')::uuid);
CREATE POLICY audit_chain_engine ON audit_chain TO signalbox_engine, signalbox_owner USING (true) WITH CHECK (true);
GRANT SELECT ON audit_chain TO signalbox_app;
GRANT SELECT, INSERT ON audit_chain TO signalbox_engine;
CREATE TABLE chain_cursors (
    name text PRIMARY KEY,
    xid  xid8 NOT NULL,
    seq  bigint NOT NULL DEFAULT 0
);
GRANT SELECT, INSERT, UPDATE, DELETE ON chain_cursors TO signalbox_engine;
