package policy_test

import (
	"strings"
	"testing"

	"signalbox/internal/policy"
)

// A draft is compared with the policy in force, run by run: what is refused, asked, or approved by more or fewer.
func TestCompare(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		draft string
		facts func(*policy.Facts)
		want  []policy.ChangeKind
		words string
	}{
		"nothing":  {"", nil, nil, ""},
		"refused":  {"admission: {repositories: [other/*]}\n", nil, []policy.ChangeKind{policy.ChangeRefused}, "acme/shop"},
		"asked":    {"gates: {patch: {when: always}}\n", nil, []policy.ChangeKind{policy.ChangeAsked}, "always asks"},
		"more":     {"gates: {patch: {when: always, quorum: 2}}\n", func(f *policy.Facts) { f.Risk = policy.RiskHigh }, []policy.ChangeKind{policy.ChangeMore}, "2 approvals instead of 1"},
		"attested": {"attestation: {required: true}\n", nil, []policy.ChangeKind{policy.ChangeAttested}, "attestation"},
		"by rule": {"rules: [{name: big, when: changed_files > 2, then: {gates: [patch], approvals: 3}}]\n", func(f *policy.Facts) { f.Risk, f.ChangedFiles = policy.RiskHigh, 3 },
			[]policy.ChangeKind{policy.ChangeMore}, `Rule "big" applies`},
		"a result that fails": {"rules: [{name: big, when: changed_files > 2, then: {deny: true}}]\n", func(f *policy.Facts) { f.ChangedFiles = 3 }, []policy.ChangeKind{policy.ChangeRefused}, "refused"},
		"no result yet":       {"gates: {patch: {when: always}}\n", func(f *policy.Facts) { f.Result = "" }, nil, ""},
	} {
		now, f := ruled(t, "")
		draft, _ := ruled(t, tc.draft)
		if tc.facts != nil {
			tc.facts(&f)
		}
		got := policy.Compare(now, draft, f, f)
		words := ""
		for i, c := range got {
			words += c.Words
			if i >= len(tc.want) || c.Kind != tc.want[i] || c.Kind.Words() == "" {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if len(got) != len(tc.want) || !strings.Contains(words, tc.words) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// The other way round, what was asked is asked no more.
	strict, f := ruled(t, "gates: {patch: {when: always, quorum: 2, role: admin}}\n")
	f.Risk = policy.RiskHigh
	plain, _ := ruled(t, "")
	if got := policy.Compare(strict, plain, f, f); len(got) != 2 || got[0].Kind != policy.ChangeFewer || got[1].Kind != policy.ChangeNotAsked {
		t.Errorf("%+v", got)
	}
}

// What a comparison of two documents keeps, removes and adds makes the one of the other.
func TestDiffLines(t *testing.T) {
	t.Parallel()
	for _, tc := range [][2]string{{"", ""}, {"a\nb\nc\n", "a\nc\nd\n"}, {"", "x\ny"}, {"x", ""}, {"a\nb\na\nb", "b\na\nb\na"}, {strings.Repeat("a\n", 5000), strings.Repeat("b\n", 5000)}} {
		var old, fresh []string
		for _, l := range policy.DiffLines(tc[0], tc[1]) {
			if l.Op != '+' {
				if old = append(old, l.Text); l.Old != len(old) {
					t.Errorf("line %d of the old text is numbered %d", len(old), l.Old)
				}
			}
			if l.Op != '-' {
				if fresh = append(fresh, l.Text); l.New != len(fresh) {
					t.Errorf("line %d of the new text is numbered %d", len(fresh), l.New)
				}
			}
		}
		if a, b := strings.Join(old, "\n"), strings.Join(fresh, "\n"); a != strings.TrimSuffix(tc[0], "\n") || b != strings.TrimSuffix(tc[1], "\n") {
			t.Errorf("%.20q and %.20q became %.20q and %.20q", tc[0], tc[1], a, b)
		}
	}
}

// Work that is under way keeps the stricter of the two policies in every permission, whichever came first.
func TestWithinIsTheStricter(t *testing.T) {
	t.Parallel()
	strict, f := ruled(t, "gates: {patch: {when: always, quorum: 3, role: admin}, plan: {when: always}}\njudge: {min_confidence: 0.9}\nattestation: {required: true}\npaths: {forbidden: [secret/**]}\nrules: [{name: r, when: 'true', then: {gates: [report]}}]\n")
	strict.Version = "strict"
	loose, _ := ruled(t, "gates: {patch: {when: never}}\n")
	for _, r := range []policy.Rules{loose.Within(strict), strict.Within(loose)} {
		g := r.Under(f).Gates
		if g.Patch.When != policy.Always || g.Patch.Quorum != 3 || g.Patch.Role != policy.RoleAdmin || g.Plan.When != policy.Always || g.Report.When != policy.Always ||
			r.Judge.MinConfidence != 0.9 || !r.Attestation.Required || len(r.Paths.Forbidden) != 1 {
			t.Errorf("%s: %+v", r.Version, g)
		}
	}
	if d := policy.Judged(loose.Within(strict), f); !strings.Contains(strings.Join(d.Reasons, " "), "admitted under policy strict") {
		t.Errorf("the reasons do not name the other policy: %v", d.Reasons)
	}
}
