package pgserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/pgserver"
)

// TestMain lets the test binary play a program that starts a cluster and is then killed (see TestDiesWithItsStarter).
func TestMain(m *testing.M) {
	if dir := os.Getenv("PGSERVER_TEST_CHILD"); dir != "" {
		s, err := pgserver.Start(context.Background(), pgserver.Options{Dir: dir})
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println("started", s.URL(pgserver.Owner, pgserver.Database))
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// folder is a temporary folder that the server's user may pass through; t.TempDir is private to its owner.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sb-pg-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func start(t *testing.T, dir string, fsync bool) *pgserver.Server {
	t.Helper()
	began := time.Now()
	s, err := pgserver.Start(t.Context(), pgserver.Options{Dir: dir, Fsync: fsync})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %s", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func scan[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func TestStartStopRestartKeepsData(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s := start(t, dir, true)
	owner := connect(t, s.URL(pgserver.Owner, pgserver.Database))
	if _, err := owner.Exec(t.Context(), `CREATE TABLE kept (n int); INSERT INTO kept VALUES (42)`); err != nil {
		t.Fatal(err)
	}
	if got := scan[string](t, owner, `SHOW fsync`); got != "on" {
		t.Errorf("fsync is %s, want on", got)
	}
	if got := scan[string](t, owner, `SHOW listen_addresses`); got != "" {
		t.Errorf("the server listens on %q, want no address", got)
	}
	for _, role := range []string{pgserver.Owner, pgserver.Engine, pgserver.App} {
		conn := connect(t, s.URL(role, pgserver.Database))
		if scan[bool](t, conn, `SELECT rolsuper OR rolbypassrls OR rolcreaterole FROM pg_roles WHERE rolname = current_user`) {
			t.Errorf("%s can step over row-level security", role)
		}
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("a second stop: %v", err)
	}
	select {
	case <-s.Exited():
	default:
		t.Error("stopped, and Exited is still open")
	}
	again := start(t, dir, true)
	if got := scan[int](t, connect(t, again.URL(pgserver.Owner, pgserver.Database)), `SELECT n FROM kept`); got != 42 {
		t.Errorf("after the restart n = %d, want 42", got)
	}
}

func TestSecondServerOnOneFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s := start(t, dir, false)
	_, err := pgserver.Start(t.Context(), pgserver.Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "already running") {
		t.Fatalf("the second start answered %v, want a refusal that says a server is running", err)
	}
	if got := scan[int](t, connect(t, s.URL(pgserver.Superuser, "postgres")), `SELECT 1`); got != 1 {
		t.Error("the first server was hurt")
	}
}

// A kill -9 leaves postmaster.pid behind, here with the id of a stranger that is alive (this test itself).
func TestStalePidFileIsNoObstacle(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s := start(t, dir, true)
	conn := connect(t, s.URL(pgserver.Owner, pgserver.Database))
	if _, err := conn.Exec(t.Context(), `CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)`); err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(dir, "data", "postmaster.pid")
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.SplitN(string(text), "\n", 2)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Exited()
	rest := strings.SplitN(string(text), "\n", 2)[1]
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	again := start(t, dir, true)
	if got := scan[int](t, connect(t, again.URL(pgserver.Owner, pgserver.Database)), `SELECT n FROM kept`); got != 7 {
		t.Errorf("after the crash n = %d, want 7", got)
	}
}

func TestDiesWithItsStarter(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "PGSERVER_TEST_CHILD="+dir)
	hold, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "started ") {
		t.Fatalf("the child said %q (%v)", line, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	// The old server is shutting down at this moment; the next start waits for it.
	again := start(t, dir, false)
	if got := scan[int](t, connect(t, again.URL(pgserver.Owner, pgserver.Database)), `SELECT 1`); got != 1 {
		t.Error("the server does not answer after its first starter was killed")
	}
}

func TestUnreachableFolderIsNamed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("not exercised: only root drops to another user")
		return
	}
	private := filepath.Join(folder(t), "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := pgserver.Start(t.Context(), pgserver.Options{Dir: filepath.Join(private, "pg")})
	if err == nil || !strings.Contains(err.Error(), "chmod o+x "+private) {
		t.Fatalf("got %v, want an error that names %s and the way on", err, private)
	}
}

func TestTooLongFolderIsNamed(t *testing.T) {
	t.Parallel()
	_, err := pgserver.Start(t.Context(), pgserver.Options{Dir: filepath.Join(folder(t), strings.Repeat("x", 100))})
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Fatalf("got %v, want an error about the length of the path", err)
	}
}

func TestBadSettingShowsTheServersOwnWords(t *testing.T) {
	t.Parallel()
	_, err := pgserver.Start(t.Context(), pgserver.Options{Dir: folder(t), Settings: map[string]string{"shared_buffers": "nonsense"}})
	if err == nil || !strings.Contains(err.Error(), "shared_buffers") {
		t.Fatalf("got %v, want the server's message about shared_buffers", err)
	}
}
