// Package pgserver starts and stops private Postgres clusters: dev mode keeps one, the tests throw them away.
//
// It owns a folder, the processes in it and the roles inside (D-11). It listens on a unix socket in that folder and on
// nothing else; a connection is known by its operating-system user (peer), so there is neither a password nor a port.
// It refuses to run Postgres as root (it drops to the user postgres or nobody), to share a folder with another running
// server, and to know anything about the schema: that is the migrations' work.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The roles of D-11, made by every Start. Superuser is for the launcher and for tests that create databases; no pool
// of the product uses it.
const (
	Superuser = "postgres"
	Owner     = "signalbox_owner"
	Engine    = "signalbox_engine"
	App       = "signalbox_app"
)

// Database is the name of the database that every cluster has from its first start, owned by Owner.
const Database = "signalbox"

// maxSocketPath is the limit of sun_path (108 bytes with its closing NUL).
const maxSocketPath = 107

// Options say where a cluster lives and how much it promises.
type Options struct {
	// Dir is the folder of the cluster, made when missing; it must be reachable by the user that Postgres runs as.
	Dir string
	// Fsync keeps a commit through a power failure. Off is for tests alone.
	Fsync bool
	// Settings go into the server's configuration and win over the defaults of this package.
	Settings map[string]string
	// Log receives what happens, nil for nothing.
	Log *slog.Logger
}

// Server is a running cluster.
type Server struct {
	dir  string
	proc *process
}

// Start makes the cluster in o.Dir when there is none, starts it and waits until it answers. Starting again on the
// folder of a stopped or killed cluster continues with its data. A folder in which a server is running is an error.
// The server is stopped by Stop and dies with this process; ctx limits only the start.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("postgres folder %s: %w", o.Dir, err)
	}
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	who, err := account()
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := s.prepareFolders(who); err != nil {
		return nil, err
	}
	if err := s.awaitFolder(ctx); err != nil {
		return nil, err
	}
	fresh, err := s.initdb(ctx, bin, who)
	if err != nil {
		return nil, err
	}
	if err := s.configure(o, who); err != nil {
		return nil, err
	}
	if s.proc, err = startProcess(bin.postgres, []string{"-D", s.data()}, who, s.logFile()); err != nil {
		return nil, fmt.Errorf("start postgres in %s: %w", dir, err)
	}
	if err := os.WriteFile(s.starterFile(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("note who started postgres: %w", err), s.Stop(context.WithoutCancel(ctx)))
	}
	if err := s.await(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	if err := s.ensureRoles(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	o.Log.Info("postgres started", "dir", dir, "fresh", fresh, "version", bin.version, "user", who.name)
	return s, nil
}

// URL is the address of one database for one role, for pgx and for libpq.
func (s *Server) URL(role, dbname string) string { return socketURL(s.socketDir(), role, dbname) }

// Dir is the folder of the cluster.
func (s *Server) Dir() string { return s.dir }

// Exited is closed when the server process has ended, wanted or not.
func (s *Server) Exited() <-chan struct{} { return s.proc.exited }

// Stop ends the server by a fast shutdown (open transactions are rolled back), at the latest after ten seconds or with
// ctx by killing it, from which the next Start recovers. Stopping twice is no error.
func (s *Server) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return s.proc.stop(ctx)
}

func (s *Server) data() string      { return filepath.Join(s.dir, "data") }
func (s *Server) socketDir() string { return filepath.Join(s.dir, "run") }
func (s *Server) logFile() string   { return filepath.Join(s.dir, "postgres.log") }

// starterFile holds the process id of the program that started the newest server.
func (s *Server) starterFile() string { return filepath.Join(s.dir, "starter") }

func socketURL(socketDir, role, dbname string) string {
	q := url.Values{"host": {socketDir}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", User: url.User(role), Host: "", Path: "/" + dbname, RawQuery: q.Encode()}).String()
}

// initdb makes the data folder when there is none. It works in a folder beside it and renames at the end, so that an
// interrupted first start leaves nothing that looks like a cluster.
func (s *Server) initdb(ctx context.Context, bin binaries, who identity) (bool, error) {
	version, err := os.ReadFile(filepath.Join(s.data(), "PG_VERSION"))
	if err == nil {
		if have := strings.TrimSpace(string(version)); have != bin.major() {
			return false, fmt.Errorf("the data in %s was made by Postgres %s and %s is version %s: install Postgres %s, or move the folder away to begin with empty data",
				s.data(), have, bin.postgres, bin.version, have)
		}
		return false, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("read the version of the data in %s: %w", s.data(), err)
	}
	making := s.data() + ".making"
	if err := os.RemoveAll(making); err != nil {
		return false, fmt.Errorf("remove the unfinished %s: %w", making, err)
	}
	out, err := runAs(ctx, who, s.dir, bin.initdb, "-D", making, "-U", Superuser, "-E", "UTF8", "--no-locale", "-N",
		"--auth=reject", "--no-instructions")
	if err != nil {
		return false, fmt.Errorf("initdb in %s: %w: %s", making, err, strings.TrimSpace(out))
	}
	if err := os.Rename(making, s.data()); err != nil {
		return false, fmt.Errorf("put the new cluster in place: %w", err)
	}
	return true, nil
}

// configure writes the files that say who may connect and how the server behaves; they are ours and are written anew
// by every start.
func (s *Server) configure(o Options, who identity) error {
	settings := map[string]string{
		"listen_addresses":        "",
		"unix_socket_directories": s.socketDir(),
		"max_connections":         "200",
		"shared_buffers":          "128MB",
		"max_wal_size":            "1GB",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"logging_collector":       "off",
		"log_destination":         "stderr",
		"log_line_prefix":         "%m [%p] %u@%d ",
		"jit":                     "off",
	}
	if !o.Fsync {
		maps.Copy(settings, map[string]string{
			"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "checkpoint_timeout": "30min",
			"autovacuum_naptime": "60s",
		})
	}
	maps.Copy(settings, o.Settings)
	var conf strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&conf, "%s = '%s'\n", key, strings.ReplaceAll(settings[key], "'", "''"))
	}
	// The server's own user and the user of this process may be any of the four roles; nobody else may be one.
	var ident strings.Builder
	for _, name := range slices.Compact([]string{who.name, currentUser()}) {
		for _, role := range []string{Superuser, Owner, Engine, App} {
			fmt.Fprintf(&ident, "signalbox %q %s\n", name, role)
		}
	}
	files := map[string]string{
		"postgresql.conf": conf.String(),
		"pg_hba.conf":     "local all all peer map=signalbox\n",
		"pg_ident.conf":   ident.String(),
	}
	for name, text := range files {
		if err := who.writeFile(filepath.Join(s.data(), name), text); err != nil {
			return err
		}
	}
	return nil
}
