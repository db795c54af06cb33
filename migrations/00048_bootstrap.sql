-- +goose Up
-- A one-time link that makes whoever opens it and signs in an administrator. The database keeps its hash; a link that is made
-- takes the place of one that nobody used.
CREATE TABLE admin_links (
    hash       bytea CONSTRAINT admin_links_pk PRIMARY KEY,
    forced     boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    used_by    uuid CONSTRAINT admin_links_user_fk REFERENCES users (id),
    CONSTRAINT admin_links_used_check CHECK ((used_at IS NULL) = (used_by IS NULL))
);
GRANT SELECT, INSERT, UPDATE, DELETE ON admin_links TO signalbox_engine;

-- Why somebody is an administrator whatever their groups are: link or configuration; empty for everybody else.
ALTER TABLE memberships ADD COLUMN appointed text NOT NULL DEFAULT '' CONSTRAINT memberships_appointed_check CHECK (appointed IN ('', 'link', 'configuration'));

-- +goose Down
ALTER TABLE memberships DROP COLUMN appointed;
DROP TABLE admin_links;
