// Package dbtest gives each test a real, migrated Postgres database of its own, in about 40 ms.
//
// It owns the template (one per state of the migrations, made once under an advisory lock) and the clones. No binary
// links it. It refuses to fake anything: what a test sees is what production runs on, with fsync off (D-36).
//
// A package with database tests has
//
//	func TestMain(m *testing.M) { dbtest.Main(m) }
package dbtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/dbtest/throwaway"
	"signalbox/internal/pgserver"
	"signalbox/migrations"
)

// Database is one test's database, by the three roles of D-11.
type Database struct {
	Name      string
	OwnerURL  string
	EngineURL string
	AppURL    string

	admin string // superuser of the cluster that the database is in
}

// SuperuserURL is the database by the superuser of its cluster, past every right and rule: for tests of what somebody
// with all rights could alter.
func (d Database) SuperuserURL(t testing.TB) string {
	t.Helper()
	url, err := retarget(d.admin, pgserver.Superuser, d.Name)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	return url
}

// Main runs the tests of a package on the cluster that `make test` started, or on one of its own where `go test` was
// called directly. It does not return.
func Main(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(throwaway.Variable) != "" {
		return m.Run()
	}
	cluster, err := throwaway.Start(context.Background(), throwaway.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "dbtest:", err)
		return 1
	}
	defer func() {
		if err := cluster.Remove(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "dbtest:", err)
		}
	}()
	// The environment carries it rather than a package variable, so that child processes of tests find it too.
	if err := os.Setenv(throwaway.Variable, cluster.URL()); err != nil {
		fmt.Fprintln(os.Stderr, "dbtest:", err)
		return 1
	}
	return m.Run()
}

// New clones a migrated database for t and drops it when t ends.
func New(t testing.TB) Database {
	t.Helper()
	admin := os.Getenv(throwaway.Variable)
	if admin == "" {
		t.Fatal("dbtest: no cluster; the package needs func TestMain(m *testing.M) { dbtest.Main(m) }")
	}
	return clone(t, admin)
}

// NewCluster starts a cluster that belongs to t alone, with fsync on, and answers a migrated database in it. It is for
// tests of durability, for tests that stop the server, and for the feed, whose horizon spans all databases (D-8).
func NewCluster(t testing.TB, o throwaway.Options) (Database, *throwaway.Cluster) {
	t.Helper()
	cluster, err := throwaway.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.Remove(context.Background()); err != nil {
			t.Errorf("dbtest: %v", err)
		}
	})
	d := database(t, cluster.URL(), pgserver.Database)
	if err := migrations.Up(t.Context(), d.OwnerURL); err != nil {
		t.Fatalf("dbtest: migrate: %v", err)
	}
	return d, cluster
}

func clone(t testing.TB, admin string) Database {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		t.Fatalf("dbtest: connect: %v", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	template, err := ensureTemplate(ctx, conn, admin)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	name := "t_" + strings.ToLower(rand.Text())
	if _, err := conn.Exec(ctx, fmt.Sprintf(`CREATE DATABASE %s OWNER %s TEMPLATE %s STRATEGY FILE_COPY`, name, pgserver.Owner, template)); err != nil {
		t.Fatalf("dbtest: clone the template: %v", err)
	}
	t.Cleanup(func() { drop(t, admin, name) })
	return database(t, admin, name)
}

// drop uses a context of its own: the one of t has ended when cleanups run.
func drop(t testing.TB, admin, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		t.Logf("dbtest: drop %s: %v", name, err)
		return
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, fmt.Sprintf(`DROP DATABASE IF EXISTS %s WITH (FORCE)`, name)); err != nil {
		t.Logf("dbtest: drop %s: %v", name, err)
	}
}

// templateLock is an arbitrary number that no other advisory lock in the database postgres uses.
const templateLock = 0x5_1_6_0_a

// ensureTemplate answers the name of the migrated template and makes it when it is missing. It is migrated under
// another name and renamed at the end, so that an interrupted migration is never cloned.
func ensureTemplate(ctx context.Context, conn *pgx.Conn, admin string) (string, error) {
	hash := strings.ToLower(migrations.Hash())
	name := "template_" + hash[:min(16, len(hash))]
	var exists bool
	const find = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`
	if err := conn.QueryRow(ctx, find, name).Scan(&exists); err != nil || exists {
		return name, err
	}
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, templateLock); err != nil {
		return "", fmt.Errorf("wait for the template: %w", err)
	}
	defer func() { _, _ = conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, templateLock) }()
	if err := conn.QueryRow(ctx, find, name).Scan(&exists); err != nil || exists {
		return name, err
	}
	making := name + "_making"
	for _, statement := range []string{
		fmt.Sprintf(`DROP DATABASE IF EXISTS %s WITH (FORCE)`, making),
		fmt.Sprintf(`CREATE DATABASE %s OWNER %s`, making, pgserver.Owner),
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return "", fmt.Errorf("make the template: %w", err)
		}
	}
	owner, err := retarget(admin, pgserver.Owner, making)
	if err != nil {
		return "", err
	}
	if err := migrations.Up(ctx, owner); err != nil {
		return "", fmt.Errorf("migrate the template: %w", err)
	}
	if _, err := conn.Exec(ctx, fmt.Sprintf(`ALTER DATABASE %s RENAME TO %s`, making, name)); err != nil {
		return "", fmt.Errorf("finish the template: %w", err)
	}
	return name, nil
}

func database(t testing.TB, admin, name string) Database {
	t.Helper()
	d := Database{Name: name, admin: admin}
	for role, address := range map[string]*string{
		pgserver.Owner: &d.OwnerURL, pgserver.Engine: &d.EngineURL, pgserver.App: &d.AppURL,
	} {
		url, err := retarget(admin, role, name)
		if err != nil {
			t.Fatalf("dbtest: %v", err)
		}
		*address = url
	}
	return d
}

// retarget is the same server by another role in another database.
func retarget(address, role, dbname string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("address of the test cluster: %w", err)
	}
	u.User = url.User(role)
	u.Path = "/" + dbname
	return u.String(), nil
}
