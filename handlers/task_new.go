package handlers

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// getNewTask is the form, empty or filled from an earlier task.
func (s *server) getNewTask(w http.ResponseWriter, r *http.Request) error {
	values := url.Values{}
	data := web.NewTaskPageData{}
	kept, err := s.keptDraft(r, web.NewTaskDraft(r.URL.Query().Get("from")))
	if err != nil {
		return err
	}
	if from := r.URL.Query().Get("from"); from != "" {
		id, err := typeid.ParseField("from", typeid.Task, from)
		if err != nil {
			return err
		}
		t, err := s.store.Task(r.Context(), who(r).tenant, id)
		if err != nil {
			return err
		}
		values = valuesOf(t)
	}
	if !kept.At.IsZero() {
		values.Set("goal", kept.Text)
	}
	data.Draft = kept
	return s.newTaskPage(w, r, http.StatusOK, data, values)
}

// valuesOf fills the form from a task.
func valuesOf(t db.TaskInfo) url.Values {
	v := url.Values{
		"repository": {typeid.Format(typeid.Repo, t.Repository)}, "title": {t.Title}, "goal": {t.Goal}, "base_ref": {t.BaseRef}, "mode": {string(t.Contract.Mode)},
		"risk": {t.Contract.Risk}, "scope": {strings.Join(t.Contract.Scope, "\n")}, "exclude": {strings.Join(t.Contract.Forbidden, "\n")},
	}
	if t.Contract.PlanGate {
		v.Set("plan_gate", "on")
	}
	if t.Contract.AutoPR {
		v.Set("auto_pr", "on")
	}
	return v
}

// notCopied names what a task has and the form has no field for: a copy must not lose it in silence.
func notCopied(t db.TaskInfo) []string {
	var all []string
	for _, part := range []struct {
		has  bool
		what string
	}{
		{len(t.Contract.Verification) > 0, "checks of its own"}, {len(t.Contract.Acceptance) > 0, "criteria of acceptance"},
		{len(t.Contract.Requires) > 0, "what its workers must offer"}, {t.Contract.Attestation, "the attestation"},
		{t.AgentProfile != "" && t.AgentProfile != defaultProfile, "the agent profile " + t.AgentProfile},
	} {
		if part.has {
			all = append(all, part.what)
		}
	}
	return all
}

// startedFrom says which task the form was filled from, also where the form comes back.
func (s *server) startedFrom(r *http.Request, data *web.NewTaskPageData) error {
	d, err := parseDraft(data.Draft.Key)
	if err != nil || d.task == uuid.Nil {
		return nil
	}
	t, err := s.store.Task(r.Context(), who(r).tenant, d.task)
	if err != nil {
		return err
	}
	data.StartedFrom = &web.Link{Text: t.Title, Href: web.TaskURL(typeid.Format(typeid.Task, t.ID))}
	data.NotCopied = notCopied(t)
	return nil
}

func (s *server) newTaskPage(w http.ResponseWriter, r *http.Request, code int, data web.NewTaskPageData, v url.Values) error {
	data.Shell = s.shell(r)
	var err error
	if data.Repositories, err = s.repositoryOptions(r, v.Get("repository")); err != nil {
		return err
	}
	if len(data.Repositories) == 1 && v.Get("repository") == "" && r.Method == http.MethodGet {
		data.Repositories[0].Selected = true
		v.Set("repository", data.Repositories[0].Value)
	}
	mode := v.Get("mode")
	if mode == "" {
		mode = string(run.ModePRCreated)
	}
	data.Modes, data.Risks = web.CompletionModes(mode), web.LeastRisks(v.Get("risk"))
	data.Title, data.Goal, data.BaseRef, data.Scope, data.Exclude = v.Get("title"), v.Get("goal"), v.Get("base_ref"), v.Get("scope"), v.Get("exclude")
	data.PlanGate, data.AutoPR = v.Get("plan_gate") == "on", v.Get("auto_pr") == "on"
	if data.Draft.Key == "" {
		if d, err := parseDraft(v.Get("draft")); err == nil && d.gate == uuid.Nil {
			data.Draft = web.Draft{Key: v.Get("draft"), Person: typeid.Format(typeid.User, who(r).user)}
		}
	}
	if err := s.startedFrom(r, &data); err != nil {
		return err
	}
	// A refused form keeps its key: sending it again is the same request, until its content changes.
	data.IdempotencyKey = db.NewSecret()
	if data.Preview, err = s.taskPreview(r, v); err != nil {
		return err
	}
	return s.render(w, r, code, web.NewTaskPage(data))
}

// postTask submits a task.
func (s *server) postTask(w http.ResponseWriter, r *http.Request) error {
	values, in, err := s.formRequest(r, act{action: "task.submit", object: "task"})
	if err != nil {
		return err
	}
	spec, errs := taskForm(values)
	if len(errs) > 0 {
		return s.newTaskPage(w, r, http.StatusUnprocessableEntity, web.NewTaskPageData{Errors: errs}, values)
	}
	ack, err := s.store.CreateTask(r.Context(), in, spec)
	if fault.KindOf(err) == fault.Invalid || fault.KindOf(err) == fault.Conflict {
		f, _ := fault.Find(err)
		// The form takes its checks from the repository.
		field := map[string]string{"repository_id": "repository", "verification": "repository"}[f.Field]
		return s.newTaskPage(w, r, status(f.Kind), web.NewTaskPageData{Errors: map[string]string{field: fault.Sentence(err)}}, values)
	}
	if err != nil {
		return err
	}
	s.usedDraft(r, values.Get("draft"))
	return see(w, r, web.TaskURL(typeid.Format(typeid.Task, ack.Task))+"?done=task-submitted")
}

// taskForm reads the form; the errors are by field.
func taskForm(v url.Values) (db.TaskSpec, map[string]string) {
	errs := map[string]string{}
	spec := db.TaskSpec{Title: strings.TrimSpace(v.Get("title")), Goal: strings.TrimSpace(v.Get("goal")), BaseRef: strings.TrimSpace(v.Get("base_ref"))}
	spec.Contract = run.Contract{
		Mode: run.Mode(v.Get("mode")), Risk: v.Get("risk"), Scope: lines(v.Get("scope")), Forbidden: lines(v.Get("exclude")),
		PlanGate: v.Get("plan_gate") == "on", AutoPR: v.Get("auto_pr") == "on",
	}
	if spec.Title == "" {
		// One line of the goal is a better title than none.
		first, _, _ := strings.Cut(spec.Goal, "\n")
		spec.Title = string([]rune(first)[:min(len([]rune(first)), 200)])
	}
	var err error
	if spec.Repository, err = typeid.Parse(typeid.Repo, v.Get("repository")); err != nil {
		errs["repository"] = "Choose a repository."
	}
	checkSpec(&spec, func(field, sentence string) {
		errs[map[string]string{"forbidden": "exclude"}[field]+strings.TrimPrefix(field, "forbidden")] = sentence
	})
	return spec, errs
}

func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}
