package devmode

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program writes a shell program that notes each of its process ids in a file.
func program(t *testing.T, body string) (path, pids string) {
	t.Helper()
	dir := t.TempDir()
	path, pids = filepath.Join(dir, "worker"), filepath.Join(dir, "pids")
	text := "#!/bin/sh\necho $$ >>" + pids + "\n" + body + "\n"
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path, pids
}

// await polls until the file has n lines and answers the last one as a process id.
func await(t *testing.T, pids string, n int) int {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		text, _ := os.ReadFile(pids)
		if lines := strings.Fields(string(text)); len(lines) >= n {
			pid, err := strconv.Atoi(lines[n-1])
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatalf("the program was not started %d times", n)
	return 0
}

func TestAKilledWorkerIsStartedAgainAndAStoppedOneIsNot(t *testing.T) {
	t.Parallel()
	binary, pids := program(t, "trap 'exit 0' TERM\nwhile :; do sleep 0.05; done")
	log := filepath.Join(t.TempDir(), "log")
	s, err := supervise(binary, os.Environ(), log, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first := await(t, pids, 1)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := await(t, pids, 2)
	if err := s.broken(log); err != nil {
		t.Errorf("one kill is taken for a broken worker: %v", err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(second, 0); err != syscall.ESRCH {
		t.Errorf("after the stop process %d answers %v, want that it is gone", second, err)
	}
}

func TestAWorkerThatDoesNotStayUpIsReportedWithItsOwnWords(t *testing.T) {
	t.Parallel()
	binary, pids := program(t, "echo 'no sandbox here'; exit 3")
	log := filepath.Join(t.TempDir(), "log")
	s, err := supervise(binary, os.Environ(), log, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	await(t, pids, patience+1)
	if err := s.broken(log); err == nil || !strings.Contains(err.Error(), "no sandbox here") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v, want the exit status and the log", err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}
