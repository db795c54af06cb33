package run_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/run"
)

const (
	statesPage   = "../../docs/states.md"
	architecture = "../../ARCHITECTURE.md"
	blockBegin   = "<!-- state diagram: generated from internal/run, do not edit -->"
	blockEnd     = "<!-- end of state diagram -->"
)

// TestStatesPage: R-DOM-12, R-TRN-2, R-CAN-2, R-FAIL-2. The tables in the docs and
// the state diagram are printed from the code's own data. -update writes them.
func TestStatesPage(t *testing.T) {
	t.Parallel()
	page, diagram := renderPage(t), renderDiagram()
	old, err := os.ReadFile(statesPage)
	if err != nil && !*update {
		t.Fatal(err)
	}
	oldArchitecture, err := os.ReadFile(architecture)
	if err != nil {
		oldArchitecture = []byte("# Architecture\n\n" + blockBegin + "\n" + blockEnd + "\n")
	}
	before, rest, ok := strings.Cut(string(oldArchitecture), blockBegin)
	_, after, ok2 := strings.Cut(rest, blockEnd)
	if !ok || !ok2 {
		t.Fatalf("ARCHITECTURE.md lacks the lines %q and %q, between which the state diagram stands", blockBegin, blockEnd)
	}
	newArchitecture := before + blockBegin + "\n" + diagram + blockEnd + after
	if *update {
		for path, text := range map[string]string{statesPage: page, architecture: newArchitecture} {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	if d := cmp.Diff(string(old), page); d != "" {
		t.Errorf("docs/states.md is not current; make generate (-page +code):\n%s", d)
	}
	if d := cmp.Diff(string(oldArchitecture), newArchitecture); d != "" {
		t.Errorf("the state diagram in ARCHITECTURE.md is not current; make generate (-page +code):\n%s", d)
	}
}

// table writes rows as Markdown.
func table(b *strings.Builder, head string, rows [][]string) {
	cells := strings.Split(head, " | ")
	fmt.Fprintf(b, "| %s |\n|%s\n", head, strings.Repeat(" --- |", len(cells)))
	for _, r := range rows {
		for i := range r {
			r[i] = strings.ReplaceAll(r[i], "|", "\\|")
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(r, " | "))
	}
	b.WriteString("\n")
}

func join[T ~string](xs []T, wrap string) string {
	out := make([]string, 0, len(xs))
	for _, x := range xs {
		switch s := string(x); s {
		case "":
			out = append(out, "(none)")
		case string(run.Unchanged):
			out = append(out, "unchanged")
		default:
			out = append(out, wrap+s+wrap)
		}
	}
	return strings.Join(out, ", ")
}

func human[T ~string](xs []T) string { return strings.ReplaceAll(join(xs, ""), "_", " ") }

func renderPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# States and transitions

Everything on this page is printed from the tables that the program itself runs on (` + "`make generate`" + `); a test compares them.
What is not listed is refused.

## Run: states

A state names the last durable fact about a run. Who works on it now is the lease's business: a state of a phase has either an active
lease or a waiting queue item, never both and never neither. Each group of states has one owner, whose events end it in the normal course.

`)
	said := comments(t)
	var rows [][]string
	for _, s := range run.States() {
		owner := human([]run.ActorKind{s.Owner()})
		if s.Terminal() {
			owner = "nobody: terminal"
		}
		phase := string(s.Phase())
		if phase == "" {
			phase = "none"
		}
		rows = append(rows, []string{string(s), owner, phase, said[string(s)]})
	}
	table(&b, "state | owner | phase | what it says", rows)
	b.WriteString(`## Run: transitions

Lease: *holder* means that only the holder of the active lease may cause it; *overruled* that somebody else ends the active lease;
*none* that no lease may be active; *any* that it does not matter. Hands over: the lease ends with the event, and the next phase's
item is made in the same transaction. In CANCELLING every report that ends the work is the confirmation.

`)
	rows = nil
	for _, tr := range run.Transitions() {
		rows = append(rows, []string{join(tr.From, ""), "`" + string(tr.Event) + "`", join(tr.To, ""), human(tr.By), leaseWords(tr), yes(run.HandsOver(tr.Event)), tr.Notes})
	}
	table(&b, "from | event | to | decided by | lease | hands over | notes", rows)
	b.WriteString("## Run: commands of lease holders\n\nA command says what happened; the server decides what follows. Its name fixes who speaks.\n\n")
	rows = nil
	for _, c := range run.CommandSpecs() {
		rows = append(rows, []string{"`" + c.Name + "`", human([]run.ActorKind{c.Actor}), human(c.Phases)})
	}
	table(&b, "command | speaks as | phases", rows)
	b.WriteString("## Run: cancel\n\nWith an active lease the run is CANCELLING until its worker confirms or the grace is over; otherwise it is CANCELLED at once.\nA run that has ended answers how it ended.\n\n")
	rows = nil
	for _, c := range run.CancelRules() {
		rows = append(rows, []string{string(c.State), c.Does, c.Stays, c.Goes})
	}
	table(&b, "state | what happens | what stays | what goes", rows)
	b.WriteString(`## Failures: what is tried again

The reason code decides, never the text of a log. *retry*: again by itself, after 30 s, 2 min, 10 min, 30 min with jitter (policy can set
other delays), while attempts or redeliveries are left. *retry once*: likewise, but the same
code twice in a row, with nothing new handed in or said to the agent between the two, ends the run; a person changes something first. *repair*: back to the agent with feedback, while rounds are left. *never*: the run
ends. *human*: a person looks first; so does every code that is not listed.

`)
	rows = nil
	for _, c := range run.Codes() {
		again := string(c.Retry)
		if c.Code.Deterministic() {
			again += " once"
		}
		rows = append(rows, []string{string(c.Code), string(c.Category), again, c.Sentence})
	}
	table(&b, "reason code | category | again? | meaning", rows)
	renderRest(&b)
	return b.String()
}

func renderRest(b *strings.Builder) {
	b.WriteString("## Task\n\nCompletion modes: " + join(run.Modes(), "`") + ". A campaign completes its batch (`migration_batch_completed`).\n\n")
	var rows [][]string
	for _, tr := range run.TaskTransitions() {
		rows = append(rows, []string{join(tr.From, ""), "`" + string(tr.Event) + "`", join(tr.To, ""), human(tr.By)})
	}
	table(b, "from | event | to | decided by", rows)
	b.WriteString("## Smaller lifecycles\n\n")
	rows = nil
	for _, s := range run.Lifecycles() {
		for i, from := range s.States {
			to := "the end"
			if m := s.Moves[from]; len(m) > 0 {
				to = strings.Join(m, ", ")
			}
			name := ""
			if i == 0 {
				name = s.Name
			}
			rows = append(rows, []string{name, from, to})
		}
	}
	table(b, "of | state | may become", rows)
	b.WriteString("## If you know other names\n\nOther vocabularies for agent runs use other names for the same thing.\n\n")
	rows = nil
	for _, n := range run.OtherNames() {
		rows = append(rows, []string{n.Vocabulary, n.Theirs, join(n.Ours, ""), n.Notes})
	}
	table(b, "vocabulary | there | here | notes", rows)
	// One newline at the end of the page.
	text := strings.TrimRight(b.String(), "\n") + "\n"
	b.Reset()
	b.WriteString(text)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

// leaseWords collects the rules of a row's states and actors.
func leaseWords(tr run.Transition) string {
	var out []run.LeaseRule
	for _, s := range tr.From {
		for _, by := range tr.By {
			if r := run.LeaseRuleOf(s, tr.Event, by); !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return join(out, "")
}

// comments reads what the code says of each state beside its name.
func comments(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "state.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if id, ok := v.Type.(*ast.Ident); !ok || id.Name != "State" || v.Doc == nil {
				continue
			}
			text := strings.Join(strings.Fields(v.Doc.Text()), " ")
			text = strings.TrimPrefix(strings.TrimPrefix(text, v.Names[0].Name+": "), v.Names[0].Name+" is ")
			name := strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`)
			out[name] = strings.ToUpper(text[:1]) + text[1:]
		}
	}
	for _, s := range run.States() {
		if out[string(s)] == "" {
			t.Errorf("%s says nothing", s)
		}
	}
	return out
}

// anywhere lists the events that end a run from nearly every state: drawn, they
// would hide the rest, so they are told below the diagram.
func anywhere(k run.Kind, to run.State) bool {
	switch k {
	case run.KindPolicyDenied, run.KindNonRetryableFailure, run.KindTimeout, run.KindRunTimeout, run.KindGateBypassed:
		return true
	}
	return k == run.KindCancelRequested && to == run.Cancelled
}

// renderDiagram draws the table: phases as boxes, and one arrow for all events
// that lead from one place to another.
func renderDiagram() string {
	boxes := map[run.Phase][]run.State{}
	for _, s := range run.States() {
		if s.NeedsWork() && s != run.Queued {
			boxes[s.Phase()] = append(boxes[s.Phase()], s)
		}
	}
	type arrow struct{ from, to string }
	var order []arrow
	labels := map[arrow][]string{}
	add := func(from, to string, k run.Kind) {
		a := arrow{from, to}
		if labels[a] == nil {
			order = append(order, a)
		}
		if !slices.Contains(labels[a], string(k)) {
			labels[a] = append(labels[a], string(k))
		}
	}
	for _, tr := range run.Transitions() {
		for _, to := range tr.To {
			if to == run.Unchanged || anywhere(tr.Event, to) {
				continue
			}
			for _, from := range places(tr.From, boxes) {
				switch from {
				case "":
					from = "[*]"
				case string(to):
					continue
				}
				add(from, string(to), tr.Event)
			}
		}
	}
	var b strings.Builder
	b.WriteString("\n```mermaid\nstateDiagram-v2\n    direction TB\n")
	for _, p := range run.Phases() {
		fmt.Fprintf(&b, "    state %s {\n", p)
		for _, s := range boxes[p] {
			fmt.Fprintf(&b, "        %s\n", s)
		}
		b.WriteString("    }\n")
	}
	for _, a := range order {
		l := labels[a]
		fmt.Fprintf(&b, "    %s --> %s: %s\n", a.from, a.to, strings.Join(l, ", "))
	}
	for _, s := range run.States() {
		if s.Terminal() {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
	}
	b.WriteString("```\n\nNot drawn, because they lead there from nearly everywhere: ")
	var told []string
	for _, k := range run.Kinds() {
		for _, to := range run.States() {
			if anywhere(k, to) && k != run.KindGateBypassed && slices.ContainsFunc(run.States(), func(s run.State) bool { return slices.Contains(targetsOf(s, k), to) }) {
				told = append(told, fmt.Sprintf("`%s` to %s", k, to))
			}
		}
	}
	b.WriteString(strings.Join(told, ", ") + "; and `gate_bypassed`, which leads where `approved` does.\n\nEvery row, with who decides it and what it needs, is in [docs/states.md](docs/states.md).\n\n")
	return b.String()
}

// places replaces the states of a whole phase by its box.
func places(from []run.State, boxes map[run.Phase][]run.State) []string {
	var out []string
	for _, s := range from {
		p := s.Phase()
		whole := len(boxes[p]) > 1 && slices.Contains(boxes[p], s) && !slices.ContainsFunc(boxes[p], func(x run.State) bool { return !slices.Contains(from, x) })
		name := string(s)
		if whole {
			name = string(p)
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
