-- What a newcomer has not done yet, and the hints about it that they do not want to see again.

-- name: FirstSteps :one
SELECT EXISTS (SELECT 1 FROM repositories r WHERE r.tenant_id = @tenant_id) AS repository,
       EXISTS (SELECT 1 FROM worker_boots b JOIN worker_credentials w ON w.id = b.worker_id WHERE w.tenant_id IS NULL OR w.tenant_id = @tenant_id) AS worker,
       EXISTS (SELECT 1 FROM tasks t WHERE t.tenant_id = @tenant_id) AS task,
       EXISTS (SELECT 1 FROM decisions d WHERE d.tenant_id = @tenant_id AND d.user_id = @user_id) AS decision,
       coalesce((SELECT array_agg(h.hint) FROM hints_dismissed h WHERE h.tenant_id = @tenant_id AND h.user_id = @user_id), '{}')::text[] AS dismissed;

-- name: DismissHint :exec
INSERT INTO hints_dismissed (tenant_id, user_id, hint) VALUES (@tenant_id, @user_id, @hint) ON CONFLICT ON CONSTRAINT hints_dismissed_pk DO NOTHING;
