package policy_test

import (
	"errors"
	"strings"
	"testing"

	"signalbox/internal/policy"
)

const withExamples = `schema: 1
version: team-2
paths:
  protected: ["db/**"]
rules:
  - name: migrations
    when: paths.exists(p, p.glob("db/migrations/**"))
    why: A migration cannot be taken back.
    then: {gates: [patch], approvals: 2, role: admin}
  - name: no-large-changes
    when: changed_files > 50
    why: A change of this size is split first.
    then: {deny: true}
tests:
  - name: a migration asks two administrators
    facts: {repository: acme/api, paths: [DB/migrations/1.sql]}
    expect: {admission: admit, approvals: 2, role: admin, reason: cannot be taken back}
  - name: an ordinary change asks one
    facts: {repository: acme/api, paths: [a.txt]}
    expect: {approvals: 1, plan_approvals: 0, attestation: false}
`

func accept(document string) ([]policy.Problem, error) {
	_, err := policy.Accept([]byte(document), func(string) bool { return true })
	if p, ok := errors.AsType[*policy.ParseError](err); ok {
		return p.Problems, err
	}
	return nil, err
}

// A document's examples are tried where it is put in force: one that comes out differently refuses it, with its line, its name and
// what came out instead. A stored document is read whatever its examples say.
func TestExamplesAreTried(t *testing.T) {
	t.Parallel()
	if _, err := accept(strings.Replace(withExamples, "DB/migrations", "db/migrations", 1)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		from, to string
		line     int
		says     string
	}{
		"approvals": {"approvals: 1,", "approvals: 3,", 20, `example "an ordinary change asks one" comes out differently: the result needs 1 approvals and not 3`},
		"plan":      {"plan_approvals: 0", "plan_approvals: 1", 20, "the plan needs 0 approvals and not 1"},
		"admission": {"expect: {approvals: 1, plan_approvals: 0", "expect: {admission: deny", 20, "admission is admit and not deny: "},
		"attested":  {"attestation: false", "attestation: true", 20, "an attestation is asked: false, and not true"},
		"role":      {"role: admin, reason", "role: approver, reason", 17, "the role admin decides about the result and not approver"},
		"reason":    {"reason: cannot be", "reason: never to be", 17, `no reason says "never to be taken back"; they are: `},
		"no name":   {"name: an ordinary change asks one", `name: ""`, 18, "every example has a name of its own"},
		"same name": {"name: an ordinary change asks one", "name: a migration asks two administrators", 18, "every example has a name of its own"},
		"nothing":   {"expect: {approvals: 1, plan_approvals: 0, attestation: false}", "expect: {}", 20, "say what must come out"},
		"word":      {"admission: admit", "admission: perhaps", 17, `"perhaps" is none of admit, deny, defer`},
		"risk":      {"repository: acme/api, paths: [a.txt]", "repository: acme/api, risk: SOME", 19, `"SOME" is no risk`},
	} {
		document := strings.Replace(strings.Replace(withExamples, "DB/migrations", "db/migrations", 1), c.from, c.to, 1)
		problems, err := accept(document)
		if len(problems) != 1 || problems[0].Line != c.line || !strings.Contains(problems[0].Words, c.says) {
			t.Errorf("%s: %v, want line %d: %s", name, err, c.line, c.says)
		}
		if _, err := policy.Parse([]byte(document)); (err != nil) != (name == "impossible") {
			t.Errorf("%s: a stored document is not read: %v", name, err)
		}
	}
	if problems, _ := accept(withExamples); len(problems) != 1 || !strings.Contains(problems[0].Words, "the result needs 1 approvals and not 2") {
		t.Errorf("rules match by case: %v", problems)
	}
}
