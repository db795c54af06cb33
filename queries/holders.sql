-- name: TenantOfLease :one
-- Where a worker works under a lease that it has or had.
SELECT l.tenant_id FROM run_leases l WHERE l.lease_id = @lease_id AND l.run_id = @run_id AND l.worker_id = @worker_id
UNION ALL
SELECT e.tenant_id FROM ended_leases e WHERE e.lease_id = @lease_id AND e.run_id = @run_id AND e.worker_id = @worker_id
LIMIT 1;

-- name: TenantOfRun :one
-- Where a worker works on a run whose lease it has or had.
SELECT l.tenant_id FROM run_leases l WHERE l.run_id = @run_id AND l.worker_id = @worker_id
UNION ALL
SELECT e.tenant_id FROM ended_leases e WHERE e.run_id = @run_id AND e.worker_id = @worker_id
LIMIT 1;

-- name: TenantOfArtifact :one
-- Where an artifact lies, for a worker that holds the lease of its run.
SELECT a.tenant_id FROM artifacts a JOIN run_leases l ON l.run_id = a.run_id WHERE a.id = @artifact_id AND l.worker_id = @worker_id;

-- name: TenantOfRepository :one
-- Where a repository is, for a worker that holds a lease of one of its runs.
SELECT l.tenant_id FROM run_leases l WHERE l.repository_id = @repository_id AND l.worker_id = @worker_id LIMIT 1;

-- name: TenantOfPull :one
-- Where a pull request is, for a worker that holds a lease of a run of its repository.
SELECT l.tenant_id FROM pull_requests p JOIN run_leases l ON l.tenant_id = p.tenant_id AND l.repository_id = p.repository_id
WHERE p.id = @pull_id AND l.worker_id = @worker_id LIMIT 1;
