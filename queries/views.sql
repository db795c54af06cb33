-- Sets of filters that a person gave a name.

-- name: SavedViews :many
SELECT name, query FROM saved_views WHERE tenant_id = @tenant_id AND user_id = @user_id AND list = @list ORDER BY lower(name), name LIMIT 100;

-- name: SaveView :execrows
-- Under a name that is taken the filters are replaced; a new name is refused where there are as many as a person may have.
INSERT INTO saved_views (tenant_id, user_id, list, name, query)
SELECT @tenant_id, @user_id, @list, @name, @query
WHERE (SELECT count(*) FROM saved_views v WHERE v.tenant_id = @tenant_id AND v.user_id = @user_id AND v.list = @list AND v.name <> @name) < @most::int
ON CONFLICT ON CONSTRAINT saved_views_pk DO UPDATE SET query = excluded.query;

-- name: DeleteView :exec
DELETE FROM saved_views WHERE tenant_id = @tenant_id AND user_id = @user_id AND list = @list AND name = @name;
