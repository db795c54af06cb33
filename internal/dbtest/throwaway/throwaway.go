// Package throwaway starts a Postgres cluster in a temporary folder and removes both. It owns the settings that tests
// run with and refuses to know the schema, so that the command that wraps `go test` builds in a moment.
package throwaway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"signalbox/internal/pgserver"
)

// Variable is the environment variable that carries the address of a running cluster (its superuser, the database
// postgres) to the tests.
const Variable = "SIGNALBOX_TEST_CLUSTER"

// Options of a cluster.
type Options struct {
	// Fsync makes commits durable: for durability, chaos and bench only (D-36).
	Fsync bool
	// Settings win over the ones that tests run with.
	Settings map[string]string
}

// Cluster is a running cluster that will be removed.
type Cluster struct {
	server  *pgserver.Server
	dir     string
	options pgserver.Options
}

// Start makes and starts a cluster below the system's folder for temporary files.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "sb-test-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the test cluster: %w", err)
	}
	// The server may run as another user, who must be able to pass through.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, errors.Join(fmt.Errorf("open the folder of the test cluster: %w", err), os.RemoveAll(dir))
	}
	settings := map[string]string{"max_connections": "500", "shared_buffers": "256MB"}
	for key, value := range o.Settings {
		settings[key] = value
	}
	options := pgserver.Options{Dir: dir, Fsync: o.Fsync, Settings: settings}
	server, err := pgserver.Start(ctx, options)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Cluster{server: server, dir: dir, options: options}, nil
}

// URL is the address of the superuser in the database postgres; dbtest makes the other addresses from it.
func (c *Cluster) URL() string { return c.server.URL(pgserver.Superuser, "postgres") }

// Server is the running server, for tests that stop or kill it.
func (c *Cluster) Server() *pgserver.Server { return c.server }

// Crash stops the server at once, as a power cut does: no checkpoint, every session cut. It returns when it has ended.
func (c *Cluster) Crash() error {
	pid, err := c.postmaster()
	if err != nil {
		return fmt.Errorf("crash the test cluster: %w", err)
	}
	// SIGQUIT is Postgres's "immediate": the whole family ends.
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		return fmt.Errorf("crash the test cluster: %w", err)
	}
	<-c.server.Exited()
	return nil
}

func (c *Cluster) postmaster() (int, error) {
	raw, err := os.ReadFile(filepath.Join(c.dir, "data", "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	return strconv.Atoi(strings.TrimSpace(first))
}

// Freeze stops the server in its tracks, every session with it: it is there and answers nobody. Thaw undoes it.
func (c *Cluster) Freeze() error { return c.family(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (c *Cluster) Thaw() error { return c.family(syscall.SIGCONT) }

// family signals the server's first process, which starts all others, and then those.
func (c *Cluster) family(s syscall.Signal) error {
	pid, err := c.postmaster()
	if err != nil {
		return fmt.Errorf("signal the test cluster: %w", err)
	}
	if err := syscall.Kill(pid, s); err != nil {
		return fmt.Errorf("signal the test cluster: %w", err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return fmt.Errorf("signal the test cluster: %w", err)
	}
	for _, word := range strings.Fields(string(children)) {
		child, err := strconv.Atoi(word)
		if err != nil {
			return fmt.Errorf("signal the test cluster: %w", err)
		}
		if err := syscall.Kill(child, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal the test cluster: %w", err)
		}
	}
	return nil
}

// Again starts the server after Crash, at the same address; it recovers by itself.
func (c *Cluster) Again(ctx context.Context) error {
	server, err := pgserver.Start(ctx, c.options)
	if err != nil {
		return fmt.Errorf("start the test cluster again: %w", err)
	}
	c.server = server
	return nil
}

// Remove stops the server and deletes its folder.
func (c *Cluster) Remove(ctx context.Context) error {
	return errors.Join(c.server.Stop(ctx), os.RemoveAll(c.dir))
}
