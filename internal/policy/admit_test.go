package policy_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"signalbox/internal/fault"
	"signalbox/internal/money"
	"signalbox/internal/policy"
)

func bounded() policy.Rules {
	r := policy.Default()
	r.Version = "bounded-1"
	r.Admission.Quota = policy.QuotaRules{MaxQueued: 2, MaxActive: 3}
	r.Admission.Reviewers = policy.ReviewerRules{OpenGates: 4, OpenPulls: 5, OpenGatesOfOne: 1, OpenPullsOfOne: 2}
	r.Admission.Rates = policy.RateRules{ProviderTokens: map[string]int64{"fast": 1000}, ForgePulls: 6, RepositoryPulls: 7, ArtifactBytes: 4096, WritesWaiting: 8}
	r.Admission.AnalysisOnly = []string{"vault/**"}
	r.Budget.DailyCents = 100
	r.Routing.Queues = []policy.QueueRule{{Queue: "java", Repositories: []string{"sample/*"}, Requires: []string{"jdk >= 21"}}}
	return r
}

func asking() policy.Facts {
	return policy.Facts{Repository: "sample/app", Requester: "u-ana", RequesterRoles: []policy.Role{policy.RoleRequester}, Risk: policy.RiskLow,
		Mode: policy.ModePRCreated, AgentProfile: "fast", Priority: 2}
}

// R-ADM-1, R-ADM-5, R-Q-11, R-TEST-1, R-TEST-2: each thing that admission weighs changes the answer, each answer has a code
// and words, and what is put off says when to ask again.
func TestAdmissionWeighs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*policy.Rules, *policy.Facts)
		verdict policy.AdmissionVerdict
		code    string
		after   time.Duration
		words   string
	}{
		"nothing against it": {func(*policy.Rules, *policy.Facts) {}, policy.Admit, policy.CodeAdmitted, 0, "admits"},
		"no live worker":     {func(_ *policy.Rules, f *policy.Facts) { f.NoLiveWorker = true }, policy.Admit, policy.CodeAdmitted, 0, "No worker is there"},
		"task type":          {func(r *policy.Rules, _ *policy.Facts) { r.Admission.Modes = []policy.Mode{policy.ModeReport} }, policy.Deny, policy.CodeMode, 0, "completion mode"},
		"repository":         {func(r *policy.Rules, _ *policy.Facts) { r.Admission.Repositories = []string{"other/*"} }, policy.Deny, policy.CodeRepository, 0, "sample/app"},
		"analysis only":      {func(_ *policy.Rules, f *policy.Facts) { f.Repository = "vault/keys" }, policy.Deny, policy.CodeAnalysisOnly, 0, "only analysis"},
		"risk":               {func(r *policy.Rules, _ *policy.Facts) { r.Admission.Risks = []policy.Risk{policy.RiskHigh} }, policy.Deny, policy.CodeRisk, 0, "risk"},
		"permission":         {func(_ *policy.Rules, f *policy.Facts) { f.RequesterRoles = nil }, policy.Deny, policy.CodeRole, 0, "role requester"},
		"incident": {func(r *policy.Rules, _ *policy.Facts) {
			r.Admission.Incident = policy.IncidentRules{On: true, RetryAfter: policy.Duration(time.Minute)}
		},
			policy.Defer, policy.CodeIncident, time.Minute, "Incident"},
		"daily budget": {func(_ *policy.Rules, f *policy.Facts) {
			f.SpentToday, f.Currency, f.DayLeft = 1_000_000, money.USD, policy.Duration(7*time.Hour)
		},
			policy.Defer, policy.CodeDailyBudget, 7 * time.Hour, "1.00\u00a0USD of 1.00\u00a0USD today"},
		"provider":        {func(_ *policy.Rules, f *policy.Facts) { f.ProviderOff = policy.Duration(40 * time.Second) }, policy.Defer, policy.CodeProviderOff, 40 * time.Second, "fast asked to slow down"},
		"queue quota":     {func(_ *policy.Rules, f *policy.Facts) { f.Queued = 2 }, policy.Defer, policy.CodeQueueQuota, 30 * time.Second, "2 runs of the tenant wait"},
		"active quota":    {func(_ *policy.Rules, f *policy.Facts) { f.Active = 3 }, policy.Defer, policy.CodeActiveQuota, 30 * time.Second, "allows 3"},
		"reviewers":       {func(_ *policy.Rules, f *policy.Facts) { f.OpenGates = 4 }, policy.Defer, policy.CodeReviewers, 30 * time.Second, "4 decisions"},
		"one's gates":     {func(_ *policy.Rules, f *policy.Facts) { f.OwnGates = 1 }, policy.Defer, policy.CodeReviewers, 30 * time.Second, "this requester's"},
		"pull requests":   {func(_ *policy.Rules, f *policy.Facts) { f.OpenPulls = 5 }, policy.Defer, policy.CodeReviewers, 30 * time.Second, "pull requests of the tenant"},
		"one's pulls":     {func(_ *policy.Rules, f *policy.Facts) { f.OwnPulls = 2 }, policy.Defer, policy.CodeReviewers, 30 * time.Second, "of this requester"},
		"tokens":          {func(_ *policy.Rules, f *policy.Facts) { f.ProviderTokens = 1000 }, policy.Defer, policy.CodeProviderRate, 30 * time.Second, "1000 tokens of provider fast"},
		"another's":       {func(_ *policy.Rules, f *policy.Facts) { f.AgentProfile, f.ProviderTokens = "other", 1000 }, policy.Admit, policy.CodeAdmitted, 0, ""},
		"forge":           {func(_ *policy.Rules, f *policy.Facts) { f.ForgePulls = 6 }, policy.Defer, policy.CodeForgeRate, 30 * time.Second, "in the last hour"},
		"repository's CI": {func(_ *policy.Rules, f *policy.Facts) { f.RepositoryPulls = 7 }, policy.Defer, policy.CodeRepositoryCI, 30 * time.Second, "7 pull requests of this repository"},
		"bandwidth":       {func(_ *policy.Rules, f *policy.Facts) { f.ArtifactBytes = 5000 }, policy.Defer, policy.CodeArtifactRate, 30 * time.Second, "allows 4096"},
		"database":        {func(_ *policy.Rules, f *policy.Facts) { f.WritesWaiting = 8 }, policy.Defer, policy.CodeWrites, 30 * time.Second, "wait for the database"},
		"capacity":        {func(_ *policy.Rules, f *policy.Facts) { f.CapacityWords = "The disk is full." }, policy.Defer, policy.CodeCapacity, 30 * time.Second, "disk"},
		"denied, not put": {func(_ *policy.Rules, f *policy.Facts) { f.RequesterRoles, f.Queued = nil, 9 }, policy.Deny, policy.CodeRole, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, f := bounded(), asking()
			c.change(&r, &f)
			d := policy.Admission(r, f)
			if d.Verdict != c.verdict || d.Code != c.code || d.RetryAfter.Std() != c.after || !strings.Contains(strings.Join(d.Reasons, " "), c.words) || d.PolicyVersion != "bounded-1" {
				t.Errorf("%+v", d)
			}
			if d.Verdict == policy.Admit && (d.Route.Queue != "java" || d.Route.Priority != 2 || len(d.Route.Requires) != 1 || d.Limits.MaxAttempts != 3) {
				t.Errorf("admitted with %+v and %+v", d.Route, d.Limits)
			}
			// Deterministic, also over what is stored.
			raw, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			var stored policy.Facts
			if err := json.Unmarshal(raw, &stored); err != nil {
				t.Fatal(err)
			}
			if again := policy.Admission(r, stored); !reflect.DeepEqual(again, d) {
				t.Errorf("the same facts give %+v", again)
			}
		})
	}
}

// R-ADM-5: a document may set every bound, and one that makes no sense is refused by its field.
func TestAdmissionBoundsParse(t *testing.T) {
	t.Parallel()
	r, err := policy.Parse([]byte("version: b-1\nadmission: {quota: {max_queued: 5, max_active: 9}, reviewers: {open_gates: 3}}\nbudget: {daily_cents: 5000, time_zone: Asia/Jakarta}\nretry: {cautious: [CRITICAL]}\n"))
	if err != nil || r.Admission.Quota.MaxActive != 9 || r.Budget.TimeZone != "Asia/Jakarta" {
		t.Fatalf("%+v, %v", r.Admission, err)
	}
	for _, bad := range []string{"admission: {quota: {max_queued: -1}}", "budget: {daily_cents: -5}", "budget: {time_zone: '../etc/passwd'}", "retry: {cautious: [HUGE]}", "limits: {max_crashes: 0}"} {
		if _, err := policy.Parse([]byte("version: b-1\n" + bad + "\n")); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// R-ADM-5: a new policy with a time zone that does not exist is refused with its line; one that is stored is still read,
// and what it puts off says which day it means.
func TestTimeZoneThatDoesNotExist(t *testing.T) {
	t.Parallel()
	doc := []byte("version: b-1\nbudget:\n  daily_cents: 100\n  time_zone: Mars/Olympus\n")
	asked := ""
	_, err := policy.Accept(doc, func(name string) bool { asked = name; return false })
	e, ok := errors.AsType[*policy.ParseError](err)
	if !ok || len(e.Problems) != 1 || e.Problems[0].Line != 4 || e.Problems[0].Path != "budget.time_zone" || asked != "Mars/Olympus" || fault.KindOf(err) != fault.Invalid {
		t.Fatalf("%v, asked for %q", err, asked)
	}
	if _, err := policy.Accept(doc, func(string) bool { return true }); err != nil {
		t.Error(err)
	}
	r, err := policy.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	d := policy.Admission(r, policy.Facts{Mode: "pr_created", Repository: "acme/api", Risk: policy.RiskLow, RequesterRoles: []policy.Role{policy.RoleRequester},
		SpentToday: 1_000_000, DayLeft: policy.Duration(time.Hour), NoSuchZone: true})
	if d.Code != policy.CodeDailyBudget || !strings.Contains(strings.Join(d.Reasons, " "), `no time zone "Mars/Olympus"`) {
		t.Errorf("%+v", d)
	}
}
