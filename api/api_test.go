package api_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"signalbox/api"
)

func parse(t *testing.T) *api.Document {
	t.Helper()
	doc, err := api.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// The reference is generated from the document, so everything in it must say what it is.
func TestEverythingIsDescribed(t *testing.T) {
	t.Parallel()
	doc := parse(t)
	var tags []string
	for _, tag := range doc.Tags {
		tags = append(tags, tag.Name)
	}
	for _, op := range doc.Operations() {
		if op.Summary == "" || len(op.Tags) != 1 || !slices.Contains(tags, op.Tags[0]) {
			t.Errorf("%s: summary or tag missing", op.OperationID)
		}
		for _, p := range op.Parameters {
			if p.Description == "" || p.Name == "" {
				t.Errorf("%s: parameter %q has no description", op.OperationID, p.Name)
			}
		}
		if schema := op.BodySchema(); schema != "" && len(doc.Components.Schemas.Map[schema].Description) == 0 {
			t.Errorf("%s: body %s has no description", op.OperationID, schema)
		}
	}
	for _, name := range doc.Components.Schemas.Keys {
		s := doc.Components.Schemas.Map[name]
		if s.Description == "" {
			t.Errorf("schema %s has no description", name)
		}
		for _, field := range s.Properties.Keys {
			p := s.Properties.Map[field]
			if p.RefName() == "" && p.Description == "" {
				t.Errorf("schema %s: %s has no description", name, field)
			}
			if ref := p.RefName(); ref != "" && doc.Components.Schemas.Map[ref].Description == "" {
				t.Errorf("schema %s: %s points to %s, which does not exist", name, field, ref)
			}
			if p.Pattern != "" {
				regexp.MustCompile(p.Pattern)
			}
		}
	}
}

// An unquoted comma inside a flow mapping cuts a sentence and leaves a member without a value.
func TestNoSentenceIsCut(t *testing.T) {
	t.Parallel()
	var whole any
	if err := yaml.Unmarshal(api.OpenAPI, &whole); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case nil:
			t.Errorf("%s has no value", path)
		case map[string]any:
			for k, member := range v {
				walk(path+"/"+k, member)
			}
		case []any:
			for _, item := range v {
				walk(path, item)
			}
		}
	}
	walk("", whole)
}

// R-TRN-1: clients post commands; no request of the contract takes a state of a run, task or gate.
func TestNoRequestTakesAState(t *testing.T) {
	t.Parallel()
	doc := parse(t)
	for _, op := range doc.Operations() {
		schema := op.BodySchema()
		if schema == "" {
			continue
		}
		for _, field := range doc.Components.Schemas.Map[schema].Properties.Keys {
			ref := doc.Components.Schemas.Map[schema].Properties.Map[field].RefName()
			if strings.HasSuffix(ref, "State") && ref != "StepState" {
				t.Errorf("%s takes %s.%s", op.OperationID, schema, field)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	doc := parse(t)
	cases := map[string]struct {
		schema, body string
		want         []string
	}{
		"a whole task":        {"TaskCreate", `{"title":"t","goal":"g","repository_id":"repo_1","scope":["a/**"],"plan_gate":true}`, nil},
		"missing":             {"TaskCreate", `{"title":"t"}`, []string{"goal", "repository_id"}},
		"unknown field":       {"TaskCreate", `{"title":"t","goal":"g","repository_id":"r","state":"READY"}`, []string{"state"}},
		"nested unknown":      {"TaskCreate", `{"title":"t","goal":"g","repository_id":"r","limits":{"money":1}}`, []string{"limits.money"}},
		"wrong type in list":  {"TaskCreate", `{"title":"t","goal":"g","repository_id":"r","scope":["a",2]}`, []string{"scope.1"}},
		"enum through ref":    {"TaskCreate", `{"title":"t","goal":"g","repository_id":"r","risk":"TINY"}`, []string{"risk"}},
		"empty text":          {"TaskCreate", `{"title":"","goal":"g","repository_id":"r"}`, []string{"title"}},
		"NUL":                 {"TaskCreate", `{"title":"a\u0000","goal":"g","repository_id":"r"}`, []string{"title"}},
		"null is not a value": {"TaskCreate", `{"title":null,"goal":"g","repository_id":"r"}`, []string{"title"}},
		"a list for object":   {"TaskCreate", `[]`, []string{""}},
		"fraction":            {"BootRef", `{"boot_id":7}`, []string{"boot_id"}},
		"whole numbers":       {"HeldLease", `{"lease_id":"l","run_id":"r","fencing_token":1.5}`, []string{"fencing_token"}},
		"too large a number":  {"HeldLease", `{"lease_id":"l","run_id":"r","fencing_token":99999999999999999999}`, []string{"fencing_token"}},
		"range":               {"Claim", `{"claim_id":"12345678","boot_id":"b","phases":["execute"],"max":0}`, []string{"max"}},
		"pattern":             {"BaseMoved", `{"new_base":"HEAD"}`, []string{"new_base"}},
		"free members":        {"OperationIntended", `{"kind":"comment","identity":"i","parameters":{"a":"b"}}`, nil},
		"typed free members":  {"OperationIntended", `{"kind":"comment","identity":"i","parameters":{"a":1}}`, []string{"parameters.a"}},
		"a command's content": {"RunCommand", `{"command":"stopped","lease_id":"l","fencing_token":1,"stopped":{"why":"bored"}}`, []string{"stopped.why"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := json.NewDecoder(strings.NewReader(c.body))
			d.UseNumber()
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, violation := range doc.Check(c.schema, v) {
				got = append(got, violation.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A hostile body cannot make an answer that is larger than a page.
func TestCheckIsBounded(t *testing.T) {
	t.Parallel()
	v := map[string]any{}
	for range 10000 {
		v[strings.Repeat("x", 40)+string(rune('a'+len(v)%26))+strings.Repeat("y", len(v)%300)] = 1
	}
	if n := len(parse(t).Check("Reason", v)); n != 20 {
		t.Errorf("%d violations answered, want 20", n)
	}
}
