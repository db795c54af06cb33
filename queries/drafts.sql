-- What a person has written and not sent yet. A key names a form; what hangs on it with a colon is a part of that form.

-- name: SaveDraft :exec
INSERT INTO drafts (tenant_id, user_id, key, body) VALUES (@tenant_id, @user_id, @key, @body)
ON CONFLICT ON CONSTRAINT drafts_pk DO UPDATE SET body = excluded.body, updated_at = now();

-- name: DraftsOf :many
-- The parts of one form, whatever is older than 30 days left out: it is deleted at the next login.
SELECT key, body, updated_at FROM drafts
WHERE tenant_id = @tenant_id AND user_id = @user_id AND (key = @form::text OR starts_with(key, @form::text || ':'))
  AND updated_at > now() - interval '30 days'
ORDER BY key;

-- name: DeleteDrafts :exec
DELETE FROM drafts WHERE tenant_id = @tenant_id AND user_id = @user_id AND (key = @form::text OR starts_with(key, @form::text || ':'));

-- name: DeleteOldDrafts :exec
DELETE FROM drafts WHERE updated_at < now() - interval '30 days';

-- name: DeleteDraft :exec
-- One text alone: emptying a form's own text leaves its parts.
DELETE FROM drafts WHERE tenant_id = @tenant_id AND user_id = @user_id AND key = @key;
