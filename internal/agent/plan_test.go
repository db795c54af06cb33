package agent_test

import (
	"errors"
	"strings"
	"testing"

	"signalbox/internal/agent"
)

// R-PLAN-1: every part is needed, and the error names the one that is missing.
func TestParsePlan(t *testing.T) {
	t.Parallel()
	const good = `{"files":["a.go","lib/**"],"verifiers":["test"],"risks":[],"stop_condition":"tests pass","forbidden_changes":[],"steps":["edit"],"mood":"fine"}`
	if p, err := agent.ParsePlan([]byte(good)); err != nil || p.StopCondition != "tests pass" {
		t.Fatalf("plan %+v, error %v", p, err)
	}
	for name, c := range map[string]struct{ raw, field string }{
		"no JSON":                {`nope`, "document"},
		"empty":                  {``, "document"},
		"no files":               {strings.Replace(good, `"files":["a.go","lib/**"],`, "", 1), "files"},
		"empty files":            {strings.Replace(good, `["a.go","lib/**"]`, "[]", 1), "files"},
		"wrong type":             {strings.Replace(good, `["a.go","lib/**"]`, `"a.go"`, 1), "files"},
		"no verifiers":           {strings.Replace(good, `"verifiers":["test"],`, "", 1), "verifiers"},
		"no risks":               {strings.Replace(good, `"risks":[],`, "", 1), "risks"},
		"no stop condition":      {strings.Replace(good, `"tests pass"`, `" "`, 1), "stop_condition"},
		"no forbidden changes":   {strings.Replace(good, `"forbidden_changes":[],`, "", 1), "forbidden_changes"},
		"no steps":               {strings.Replace(good, `,"steps":["edit"]`, "", 1), "steps"},
		"an empty entry":         {strings.Replace(good, `"a.go"`, `""`, 1), "files[0]"},
		"a path outside":         {strings.Replace(good, `"lib/**"`, `"x/../../etc"`, 1), "files[1]"},
		"an absolute path":       {strings.Replace(good, `"a.go"`, `"/etc/passwd"`, 1), "files[0]"},
		"control characters":     {strings.Replace(good, `"edit"`, `"edit\u001b[2J"`, 1), "steps[0]"},
		"too long an entry":      {strings.Replace(good, `"edit"`, `"`+strings.Repeat("x", 5000)+`"`, 1), "steps[0]"},
		"too many entries":       {strings.Replace(good, `["edit"]`, `["e"`+strings.Repeat(`,"e"`, 600)+`]`, 1), "steps"},
		"null instead of a list": {strings.Replace(good, `"risks":[]`, `"risks":null`, 1), "risks"},
	} {
		_, err := agent.ParsePlan([]byte(c.raw))
		pe, ok := errors.AsType[*agent.PlanError](err)
		if !ok || pe.Field != c.field {
			t.Errorf("%s: error %v, want field %s", name, err, c.field)
		}
	}
}
