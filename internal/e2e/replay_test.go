package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/typeid"
)

// R-TRN-3: the command replays a database of 500 generated runs without a difference, and after one altered byte ends
// with 1 and names run and event.
func TestReplayCommand(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	g := drive.Generate(t, d, 11, 500)
	t.Logf("generated %d runs, %d events, %d states, %d of %d edges", g.Runs, g.Events, len(g.Ends), len(g.Pairs), len(drive.Pairs()))
	signalbox := rig.Binary(t, "./cmd/signalbox")
	replay := func() (string, int) {
		cmd := exec.CommandContext(t.Context(), signalbox, "replay", "--all")
		cmd.Env = append(os.Environ(), "SIGNALBOX_DATABASE_URL="+d.EngineURL)
		out, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return string(out), exit.ExitCode()
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(out), 0
	}
	out, code := replay()
	t.Log(strings.TrimSpace(out))
	if code != 0 || !strings.Contains(out, fmt.Sprintf("%d runs, %d events", g.Runs, g.Events)) || !strings.Contains(out, ": 0 differences") {
		t.Fatalf("ended with %d: %s", code, out)
	}
	conn, err := pgx.Connect(t.Context(), d.SuperuserURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var victim uuid.UUID
	var seq int64
	err = conn.QueryRow(t.Context(), `UPDATE run_events SET body = set_byte(body, length(body) / 2, get_byte(body, length(body) / 2) # 1)
		WHERE id = (SELECT max(id) / 2 FROM run_events) RETURNING run_id, seq`).Scan(&victim, &seq)
	if err != nil {
		t.Fatal(err)
	}
	out, code = replay()
	if want := fmt.Sprintf("%s, event %d:", typeid.Format(typeid.Run, victim), seq); code != 1 || !strings.Contains(out, want) || !strings.Contains(out, ": 1 differences") {
		t.Errorf("ended with %d, want 1 and %q: %s", code, want, out)
	}
}
