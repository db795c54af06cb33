-- Files of a run's patches that a person has viewed.

-- name: MarkViewed :exec
INSERT INTO viewed_files (tenant_id, user_id, run_id, path_key, digest) VALUES (@tenant_id, @user_id, @run_id, @path_key, @digest)
ON CONFLICT ON CONSTRAINT viewed_files_pk DO UPDATE SET digest = excluded.digest, viewed_at = now();

-- name: UnmarkViewed :exec
DELETE FROM viewed_files WHERE tenant_id = @tenant_id AND user_id = @user_id AND run_id = @run_id AND path_key = @path_key;

-- name: ViewedFiles :many
SELECT path_key, digest FROM viewed_files WHERE tenant_id = @tenant_id AND user_id = @user_id AND run_id = @run_id;

-- name: DeleteOldViews :exec
-- Of one person, at their login.
DELETE FROM viewed_files WHERE user_id = @user_id AND viewed_at < now() - interval '90 days';
