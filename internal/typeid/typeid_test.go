package typeid_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"signalbox/internal/fault"
	"signalbox/internal/typeid"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range []typeid.Prefix{
		typeid.Task, typeid.Run, typeid.Attempt, typeid.Step, typeid.Lease, typeid.Gate, typeid.Worker,
		typeid.Boot, typeid.Repo, typeid.Artifact, typeid.Pull, typeid.Op, typeid.User, typeid.Forge,
		typeid.Policy, typeid.Decision, typeid.Campaign, typeid.Tenant, typeid.Token, typeid.Session,
		typeid.Provider, typeid.Event, typeid.Revision, typeid.Patch, typeid.Template, typeid.Audit,
	} {
		if seen[p] {
			t.Errorf("prefix %s is used twice", p)
		}
		seen[p] = true
		id := typeid.New()
		if id.Version() != 7 {
			t.Fatalf("version %d, want 7", id.Version())
		}
		s := typeid.Format(p, id)
		if !strings.HasPrefix(s, p+"_") || len(s) != len(p)+27 {
			t.Errorf("format %q", s)
		}
		back, err := typeid.Parse(p, s)
		if err != nil || back != id {
			t.Errorf("parse %q: %v %v, want %v", s, back, err, id)
		}
	}
	if typeid.Format(typeid.Run, uuid.Nil) != "" {
		t.Error("an absent reference must be shown as nothing")
	}
}

func TestNewIsOrdered(t *testing.T) {
	t.Parallel()
	last := ""
	for range 1000 {
		s := typeid.Format(typeid.Run, typeid.New())
		if s <= last {
			t.Fatalf("%s does not come after %s", s, last)
		}
		last = s
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good := typeid.Format(typeid.Run, typeid.New())
	for _, s := range []string{
		"", "run", "run_", "_", good + "x", " " + good, good + "\n", strings.ToUpper(good),
		"task" + good[3:], "run_" + strings.Repeat("z", 26), "run_" + strings.Repeat("0", 26),
		"run_" + strings.ToUpper(good[4:]), "run_8zzzzzzzzzzzzzzzzzzzzzzzzz", "run_0000000000000000000000000!",
		"run__" + good[4:], "../" + good, typeid.New().String(), "run_" + strings.Repeat("é", 13),
	} {
		id, err := typeid.Parse(typeid.Run, s)
		if err == nil || id != uuid.Nil {
			t.Errorf("%q was accepted as %v", s, id)
			continue
		}
		if fault.KindOf(err) != fault.NotFound {
			t.Errorf("%q: kind %v", s, fault.KindOf(err))
		}
	}
	_, err := typeid.ParseField("task_id", typeid.Task, good)
	f, ok := fault.Find(err)
	if !ok || f.Kind != fault.Invalid || f.Field != "task_id" {
		t.Errorf("field error: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("run_01jd2x1v9cf2qtv5a0m4gb6k2r")
	f.Add("run_00000000000000000000000001")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := typeid.Parse(typeid.Run, s)
		if err == nil && typeid.Format(typeid.Run, id) != s {
			t.Errorf("%q has a second spelling %q", s, typeid.Format(typeid.Run, id))
		}
	})
}
