package db_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox/db"
	"signalbox/internal/campaign"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// words turns a list of a string type into strings.
func words[T ~string](of []T, also ...string) []string {
	out := slices.Clone(also)
	for _, w := range of {
		out = append(out, string(w))
	}
	return out
}

func lifecycle(t *testing.T, name string) []string {
	t.Helper()
	for _, l := range run.Lifecycles() {
		if l.Name == name {
			return l.States
		}
	}
	t.Fatalf("there is no lifecycle %q", name)
	return nil
}

func where(keep func(run.State) bool) []string {
	var out []string
	for _, s := range run.States() {
		if keep(s) {
			out = append(out, string(s))
		}
	}
	return out
}

var literal = regexp.MustCompile(`'([^']*)'::text`)

// constraints reads the definitions of one type ('c', 'f', 'u', 'p') by name.
func (w *world) constraints(t testing.TB, types string) map[string]string {
	t.Helper()
	rows, err := w.Owner.Query(t.Context(), `SELECT conname, conrelid::regclass || ': ' || pg_get_constraintdef(oid) FROM pg_constraint
		WHERE connamespace = 'public'::regnamespace AND strpos($1, contype::text) > 0 AND conrelid::regclass::text <> 'goose_db_version'`, types)
	must(t, err)
	out := map[string]string{}
	for rows.Next() {
		var name, def string
		must(t, rows.Scan(&name, &def))
		out[name] = def
	}
	must(t, rows.Err())
	return out
}

// R-DOM-1 to R-DOM-8: the lists of words in the schema are the lists in the code; a new list breaks this test until it
// is compared with its source.
func TestWordListsAreTheCodesOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	phases := words(run.Phases())
	terminal := where(run.State.Terminal)
	want := map[string][]string{
		"runs_state_check": words(run.States()), "runs_mode_check": words(run.Modes()), "tasks_mode_check": words(run.Modes()),
		"runs_risk_check": words(policy.Risks()), "tasks_risk_check": words(policy.Risks()), "tasks_state_check": words(run.TaskStates()),
		"runs_lease_phase_check": phases, "runs_queued_check": phases, "run_queue_phase_check": phases, "run_delayed_phase_check": phases,
		"run_leases_phase_check": phases, "ended_leases_phase_check": phases,
		"runs_gate_kind_check": words(run.GateKinds()), "gates_kind_check": words(run.GateKinds()),
		"runs_outcome_check":          {"", string(run.OutcomePatch), string(run.OutcomeReport), string(run.OutcomeNoChange)},
		"runs_failure_category_check": words(run.Categories()),
		"attempts_state_check":        lifecycle(t, "attempt"), "steps_state_check": lifecycle(t, "step"), "sandboxes_state_check": lifecycle(t, "sandbox"),
		"gates_state_check": lifecycle(t, "gate"), "operations_state_check": lifecycle(t, "operation"),
		"pull_requests_state_check": lifecycle(t, "pull request"), "worker_boots_state_check": lifecycle(t, "worker"),
		"ended_leases_state_check": slices.DeleteFunc(slices.Clone(lifecycle(t, "lease")), func(s string) bool { return s == "ACTIVE" }),
		"memberships_roles_check":  words(policy.Roles()), "group_roles_role_check": words(policy.Roles()),
		"decisions_verdict_check":      {string(policy.Approve), string(policy.RequestChanges), string(policy.Reject), "bypass", "withdraw"},
		"worker_boots_isolation_check": {string(policy.IsolationProcess), string(policy.IsolationBwrap), string(policy.IsolationContainer)},

		"hints_dismissed_hint_check": words(db.Hints()),
		"campaigns_state_check":      words(campaign.States()), "campaigns_pause_by_check": words(campaign.PauseBys(), ""),
		"campaign_targets_stage_check": words(campaign.Stages()), "campaign_targets_outcome_check": words(campaign.Outcomes(), ""),

		// Lists of states within the invariants.
		"runs_terminal_check": terminal, "runs_finished_check": terminal, "runs_work_check": where(run.State.NeedsWork),
		"tasks_terminal_check": func() []string {
			var out []string
			for _, s := range run.TaskStates() {
				if s.Terminal() {
					out = append(out, string(s))
				}
			}
			return out
		}(),
	}
	// Lists that have no source in the code.
	own := map[string]bool{"api_tokens_kind_check": true, "forges_kind_check": true, "tasks_kind_check": true, "runs_stop_signal_check": true,
		"artifacts_kind_check": true, "patches_scan_check": true, "usages_source_check": true, "fact_sequences_kind_check": true,
		"feedback_source_check": true, "operations_kind_check": true, "operations_outcome_check": true, "decisions_channel_check": true,
		"attestations_state_check": true, "campaigns_resume_to_check": true, "memberships_appointed_check": true,
		// Invariants, under test one by one.
		"runs_leased_check": true, "runs_admitted_check": true, "runs_planned_check": true, "runs_patch_check": true, "runs_judging_check": true,
		"runs_cancelled_check": true}
	seen := 0
	for name, def := range w.constraints(t, "c") {
		var has []string
		for _, m := range literal.FindAllStringSubmatch(def, -1) {
			has = append(has, m[1])
		}
		list, known := want[name]
		if !known {
			if len(has) > 2 && !own[name] {
				t.Errorf("%s lists %v and is compared with nothing", name, has)
			}
			continue
		}
		seen++
		slices.Sort(has)
		has = slices.Compact(has)
		if d := cmp.Diff(list, has, cmpopts.SortSlices(func(a, b string) bool { return a < b })); d != "" {
			t.Errorf("%s (-code +schema):\n%s", name, d)
		}
	}
	if seen != len(want) {
		t.Errorf("%d of %d lists exist in the schema", seen, len(want))
	}
}

// Every rule that a request can break has a sentence of its own, and every sentence has a rule.
func TestEveryRuleHasASentence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	// Tables that only the server itself fills: a violation there is a fault of ours and stays internal. runs is among
	// them, since the reducer holds its invariants before the schema does; what it refuses has its own sentences.
	ours := []string{"runs", "run_events", "run_queue", "run_delayed", "run_admissions", "run_leases", "ended_leases", "attempts", "sandboxes", "gates",
		"gate_revisions", "feedback", "attestations", "policy_decisions", "outbox", "notices", "audit_log", "audit_heads", "feed_cursors",
		"task_events", "verifications", "patches", "fact_sequences", "tenants", "users", "identities", "sessions", "login_states", "login_codes",
		"api_tokens", "logout_tokens", "worker_credentials", "worker_enrolments", "admin_links", "bypass_reviews", "control_heartbeat", "repairs", "quarantine",
		"campaigns", "campaign_specs", "campaign_targets", "campaign_events"}
	// Rules of other tables that no request can break, with the reason.
	cannot := map[string]string{
		"tasks_state_check": "only the reducer sets it", "tasks_max_runs_check": "checked by policy", "tasks_runs_check": "held by the reducer",
		"tasks_terminal_check": "held by the reducer", "worker_boots_state_check": "only the server sets it", "operations_state_check": "only the server sets it",
		"decisions_verdict_check": "policy refuses other words before", "decisions_notes_check": "counted by the server",
		"turns_pk": "upserted", "turns_gate_fk": "the gate is locked before", "turns_user_fk": "taken from the login", "turns_passed_to_fk": "chosen from those who may decide",
		"turns_given_by_fk": "taken from the login", "artifacts_content_key": "a repeat is the same artifact",
		"steps_lease_call_key": "a repeat is the same step", "operations_identity_key": "a repeat is the same operation",
		"pull_requests_number_key": "numbered under the repository's lock", "task_templates_name_key": "no request makes templates yet",
		"idempotency_keys_pk": "a repeat is answered", "memberships_pk": "upserted", "memberships_appointed_check": "only the server sets it", "people_pk": "a repeat changes nothing", "group_roles_pk": "upserted", "drafts_pk": "upserted", "viewed_files_pk": "upserted",
		"pull_requests_repository_fk": "taken from the run", "pull_requests_task_fk": "taken from the run", "tasks_campaign_fk": "taken from the campaign", "decisions_gate_fk": "the gate is locked before",
		"worker_boots_worker_fk": "taken from the credential", "paused_queues_pk": "a repeat changes nothing", "paused_queues_queue_check": "checked before",
		"paused_queues_reason_check": "checked before", "saved_views_pk": "upserted", "saved_views_list_check": "checked before",
		"saved_views_name_check": "checked before", "saved_views_query_check": "checked before",
		"policies_two_check": "checked before", "policies_confirmer_fk": "taken from the login", "policy_proposals_two_check": "checked before", "policy_proposals_decider_fk": "taken from the login",
		"providers_client_secret_sealed_check": "sealed by the server",
		"hints_dismissed_pk":                   "a repeat changes nothing", "hints_dismissed_hint_check": "checked before",
	}
	obvious := regexp.MustCompile(`_(pkey|tenant_fk|user_fk|run_fk|tenant_id_key|provider_fk)$`)
	sentences := db.Sentences()
	exists := map[string]bool{"runs_terminal_is_final": true, "runs_state_needs_event": true} // raised by the trigger
	for name, def := range w.constraints(t, "cfup") {
		exists[name] = true
		table, _, _ := strings.Cut(def, ":")
		_, told := sentences[name]
		_, never := cannot[name]
		if told && never {
			t.Errorf("%s has a sentence and is said to be unbreakable", name)
		}
		if !told && !never && !slices.Contains(ours, table) && !obvious.MatchString(name) {
			t.Errorf("%s has no sentence: %s", name, def)
		}
	}
	for name, s := range sentences {
		if !exists[name] {
			t.Errorf("there is no rule %s", name)
		}
		if s.Kind == fault.Internal || !strings.HasSuffix(s.Sentence, ".") || !strings.Contains(s.Sentence, " not ") && !strings.HasPrefix(s.Sentence, "Nothing ") && !strings.HasPrefix(s.Sentence, "No ") {
			t.Errorf("%s: the sentence must say what did not happen: %q", name, s.Sentence)
		}
	}
	for name := range cannot {
		if !exists[name] {
			t.Errorf("there is no rule %s", name)
		}
	}
}

// Every constraint and index is named by us, so that it can be translated and found.
func TestNothingIsNamedByChance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	chance := regexp.MustCompile(`_(fkey|key\d+|check\d+|excl)$|_idx\d+$`)
	for name, def := range w.constraints(t, "cfux") {
		if chance.MatchString(name) {
			t.Errorf("%s: %s", name, def)
		}
	}
}

// Every instant has a zone.
func TestInstantsHaveZones(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	rows, err := w.Owner.Query(t.Context(), `SELECT table_name || '.' || column_name || ' ' || data_type FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name <> 'goose_db_version' AND (data_type LIKE 'time%' OR data_type IN ('date', 'interval')) AND data_type <> 'timestamp with time zone'`)
	must(t, err)
	for rows.Next() {
		var c string
		must(t, rows.Scan(&c))
		t.Error(c)
	}
	must(t, rows.Err())
}

// D-5: no index on what changes, so that updates of a run and heartbeats of a lease stay heap-only; a lease's expiry is
// not indexed either.
func TestMutableColumnsAreNotIndexed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	fixed := map[string][]string{
		"runs":         {"id", "tenant_id", "created_at", "task_id"},
		"run_leases":   {"run_id", "lease_id", "boot_id", "tenant_id"},
		"worker_boots": {"id", "worker_id", "started_at"},
	}
	rows, err := w.Owner.Query(t.Context(), `SELECT c.relname, i.indexrelid::regclass::text, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
		JOIN pg_attribute a ON a.attrelid = i.indexrelid WHERE c.relname = ANY ($1)`, []string{"runs", "run_leases", "worker_boots"})
	must(t, err)
	n := 0
	for rows.Next() {
		var table, index, column string
		must(t, rows.Scan(&table, &index, &column))
		n++
		if !slices.Contains(fixed[table], column) {
			t.Errorf("%s indexes %s.%s, which changes", index, table, column)
		}
	}
	must(t, rows.Err())
	if n == 0 {
		t.Error("no index was looked at")
	}
	if c := w.count(t, `SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relname IN ('runs', 'run_leases') AND i.indpred IS NOT NULL`); c != 0 {
		t.Errorf("%d partial indexes: a predicate on a mutable column ends heap-only updates, too", c)
	}
}

// facts are the columns of runs that the reducer does not own.
var facts = []string{"head_hash", "updated_at", "state_since", "active_ms", "base_commit", "branch", "isolation", "stop_signal", "stop_signal_at",
	"agent_profile", "adapter_version", "campaign_id", "cost_exceeded_at"}

// R-TRN-1: one statement moves runs, the one in queries/apply.sql; any other touches facts alone, and no SQL hides in
// Go code.
func TestOneDoorForARunsState(t *testing.T) {
	t.Parallel()
	update := regexp.MustCompile(`(?is)\bUPDATE\s+(?:ONLY\s+)?runs\b.*?\bSET\b(.*?)(?:\bFROM\b|\bWHERE\b|;)`)
	assigned := regexp.MustCompile(`(?i)(\w+)\s*=`)
	insert := regexp.MustCompile(`(?i)\b(INSERT\s+INTO|DELETE\s+FROM)\s+runs\b`)
	files := got(filepath.Glob("../queries/*.sql"))(t)
	doors := 0
	for _, name := range files {
		text := string(got(os.ReadFile(name))(t))
		for _, m := range update.FindAllStringSubmatch(text, -1) {
			if filepath.Base(name) == "apply.sql" {
				doors++
				continue
			}
			for _, c := range assigned.FindAllStringSubmatch(m[1], -1) {
				if !slices.Contains(facts, c[1]) {
					t.Errorf("%s sets runs.%s, which only queries/apply.sql may", name, c[1])
				}
			}
		}
		if n := len(insert.FindAllString(text, -1)); n != 0 && filepath.Base(name) != "apply.sql" || n > 1 {
			t.Errorf("%s inserts or deletes runs %d times", name, n)
		}
	}
	if doors != 1 {
		t.Errorf("%d statements move runs, want one", doors)
	}
	hidden := regexp.MustCompile(`(?i)(UPDATE|INSERT INTO|DELETE FROM|SELECT .* FROM)\s+[a-z_]+\s+(SET|WHERE|\(|AS)`)
	for _, name := range got(filepath.Glob("*.go"))(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if m := hidden.FindString(string(got(os.ReadFile(name))(t))); m != "" {
			t.Errorf("%s holds SQL of its own: %s", name, m)
		}
	}
}

// A query that nobody asks is no longer there.
func TestEveryQueryIsAsked(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, file := range got(filepath.Glob("*.go"))(t) {
		if !strings.HasSuffix(file, "_test.go") {
			code.Write(got(os.ReadFile(file))(t))
		}
	}
	n := 0
	for _, file := range got(filepath.Glob("../queries/*.sql"))(t) {
		for _, m := range regexp.MustCompile(`-- name: (\w+) :`).FindAllSubmatch(got(os.ReadFile(file))(t), -1) {
			if n++; !regexp.MustCompile(`\.q\.` + string(m[1]) + `\b`).MatchString(code.String()) {
				t.Errorf("%s: nothing asks %s", file, m[1])
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d queries were found", n)
	}
}
