package handlers

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/capability"
	"signalbox/internal/patch"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

var refCharacters = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$`)

// refName is what we accept as the name of a branch: never an option, never a revision expression (G1, G3).
func refName(s string) bool {
	return refCharacters.MatchString(s) &&
		!strings.Contains(s, "..") && !strings.HasSuffix(s, ".lock") && !strings.HasSuffix(s, "/") && !strings.Contains(s, "//")
}

// defaultProfile is the agent profile of a task that names none; each worker configures what it is.
const defaultProfile = "default"

// profileName is what can be asked of a worker as the capability "agent:" and the name.
var profileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,89}$`)

// checkSpec fills defaults and tells each field that cannot be accepted.
func checkSpec(spec *db.TaskSpec, wrong func(field, sentence string)) {
	c := &spec.Contract
	if c.Mode == "" {
		c.Mode = run.ModePRCreated
	}
	if spec.AgentProfile == "" {
		spec.AgentProfile = defaultProfile
	}
	if c.Risk == "" {
		c.Risk = string(policy.RiskLow)
	}
	if n := len([]rune(spec.Title)); n == 0 || n > 200 {
		wrong("title", "A title has 1 to 200 characters.")
	}
	if n := len([]rune(spec.Goal)); n == 0 || n > 50000 {
		wrong("goal", "Say what should be true afterwards, in 1 to 50,000 characters.")
	}
	if !c.Mode.Valid() {
		wrong("mode", "Choose what completes the task.")
	}
	if !policy.Risk(c.Risk).Valid() {
		wrong("risk", "The risk is LOW, MEDIUM, HIGH or CRITICAL.")
	}
	if spec.BaseRef != "" && !refName(spec.BaseRef) {
		wrong("base_ref", "This cannot be the name of a branch.")
	}
	if spec.Priority < policy.LowestPriority || spec.Priority > policy.HighestPriority {
		wrong("priority", fmt.Sprintf("The priority is a number from %d to %d; 0 is ordinary.", policy.LowestPriority, policy.HighestPriority))
	}
	if !profileName.MatchString(spec.AgentProfile) {
		wrong("agent_profile", "A profile has 1 to 90 letters, digits, dots, dashes or underscores.")
	}
	for _, text := range c.Requires {
		if _, err := capability.ParseRequirement(text); err != nil {
			wrong("requires", err.Error())
		}
	}
	for field, globs := range map[string][]string{"scope": c.Scope, "forbidden": c.Forbidden} {
		for _, g := range globs {
			if !patch.ValidGlob(g) || len(g) > 400 {
				wrong(field, fmt.Sprintf("%q is not a pattern of paths, such as src/**/*.go.", g))
			}
		}
		if len(globs) > 100 {
			wrong(field, "At most 100 patterns are accepted.")
		}
	}
}

func (s *server) apiTasks(w http.ResponseWriter, r *http.Request) error {
	q, p := r.URL.Query(), who(r)
	limit, err := queryLimit(r)
	if err != nil {
		return err
	}
	filter := db.TaskFilter{State: run.TaskState(q.Get("state")), Limit: limit + 1}
	if filter.Before, err = readCursor(q.Get("cursor")); err != nil {
		return err
	}
	if id := q.Get("repository_id"); id != "" {
		if filter.Repository, err = typeid.ParseField("repository_id", typeid.Repo, id); err != nil {
			return err
		}
	}
	if q.Get("mine") == "true" {
		filter.RequestedBy = p.user
	}
	tasks, err := s.store.Tasks(r.Context(), p.tenant, filter)
	if err != nil {
		return err
	}
	tasks, next := more(tasks, limit)
	list := wire.TaskList{Items: []wire.Task{}, NextCursor: next}
	for _, t := range tasks {
		list.Items = append(list.Items, wireTask(t))
	}
	return s.answer(w, r, http.StatusOK, list)
}

func (s *server) apiTask(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "task_id", typeid.Task)
	if err != nil {
		return err
	}
	return s.answerTask(w, r, http.StatusOK, id)
}

func (s *server) answerTask(w http.ResponseWriter, r *http.Request, code int, id uuid.UUID) error {
	t, err := s.store.Task(r.Context(), who(r).tenant, id)
	if err != nil {
		return err
	}
	return s.answer(w, r, code, wireTask(t))
}

func (s *server) apiCreateTask(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	body, err := decode[wire.TaskCreate](s, r)
	if err != nil {
		return err
	}
	spec, err := taskSpec(body)
	if err != nil {
		return err
	}
	in, err := s.request(r, key, body, act{action: "task.submit", object: "task"})
	if err != nil {
		return err
	}
	ack, err := s.store.CreateTask(r.Context(), in, spec)
	if err != nil {
		return err
	}
	replayed(w, ack.Replayed)
	return s.answerTask(w, r, http.StatusCreated, ack.Task)
}

func taskSpec(body wire.TaskCreate) (db.TaskSpec, error) {
	spec := db.TaskSpec{
		Title: body.Title, Goal: body.Goal, BaseRef: body.BaseRef, AgentProfile: body.AgentProfile, Priority: body.Priority, Draft: body.Draft,
		Contract: run.Contract{
			Mode: run.Mode(body.Mode), Risk: string(body.Risk), Scope: body.Scope, Forbidden: body.Forbidden, Acceptance: body.Acceptance,
			PlanGate: body.PlanGate, AutoPR: body.AutoPr, Attestation: body.Attestation, Requires: body.Requires, Verification: runChecks(body.Verification),
		},
	}
	var fields []wire.FieldError
	wrong := func(field, sentence string) {
		fields = append(fields, wire.FieldError{Field: field, Message: sentence})
	}
	checkSpec(&spec, wrong)
	ids := []struct {
		field  string
		prefix typeid.Prefix
		value  string
		to     func(uuid.UUID)
	}{
		{"repository_id", typeid.Repo, body.RepositoryId, func(id uuid.UUID) { spec.Repository = id }},
		{"parent_task_id", typeid.Task, body.ParentTaskId, func(id uuid.UUID) { spec.Parent = &id }},
		{"template_id", typeid.Template, body.TemplateId, func(id uuid.UUID) { spec.Template = &id }},
	}
	for _, x := range ids {
		if x.value == "" {
			continue
		}
		id, err := typeid.Parse(x.prefix, x.value)
		if err != nil {
			wrong(x.field, "This must be an id that begins with "+x.prefix+"_.")
			continue
		}
		x.to(id)
	}
	if len(fields) > 0 {
		return spec, invalidFields(fields)
	}
	return spec, nil
}

func (s *server) apiSubmitTask(w http.ResponseWriter, r *http.Request) error {
	return s.apiTaskAction(w, r, "task.submit", http.StatusOK, false, func(in db.Request, id uuid.UUID, _ string) (db.TaskAck, error) {
		return s.store.SubmitTask(r.Context(), in, id)
	})
}

func (s *server) apiCancelTask(w http.ResponseWriter, r *http.Request) error {
	return s.apiTaskAction(w, r, "task.cancel", http.StatusOK, true, func(in db.Request, id uuid.UUID, reason string) (db.TaskAck, error) {
		return s.store.CancelTask(r.Context(), in, id, reason)
	})
}

func (s *server) apiCloseTask(w http.ResponseWriter, r *http.Request) error {
	return s.apiTaskAction(w, r, "task.close", http.StatusOK, true, func(in db.Request, id uuid.UUID, reason string) (db.TaskAck, error) {
		return s.store.CloseTask(r.Context(), in, id, reason)
	})
}

func (s *server) apiTaskAction(w http.ResponseWriter, r *http.Request, action string, code int, withReason bool, do func(db.Request, uuid.UUID, string) (db.TaskAck, error)) error {
	id, in, reason, err := s.taskRequest(r, action, withReason)
	if err != nil {
		return err
	}
	ack, err := do(in, id, reason)
	if err != nil {
		return err
	}
	s.admit()
	replayed(w, ack.Replayed)
	return s.answerTask(w, r, code, id)
}

func (s *server) taskRequest(r *http.Request, action string, withReason bool) (uuid.UUID, db.Request, string, error) {
	id, err := pathID(r, "task_id", typeid.Task)
	if err != nil {
		return id, db.Request{}, "", err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return id, db.Request{}, "", err
	}
	var body wire.Reason
	if withReason {
		if body, err = decode[wire.Reason](s, r); err != nil {
			return id, db.Request{}, "", err
		}
	}
	in, err := s.request(r, key, body, act{action: action, object: "task", id: typeid.Format(typeid.Task, id), reason: body.Reason})
	return id, in, reasonOr(body.Reason, who(r)), err
}

func (s *server) apiRunTask(w http.ResponseWriter, r *http.Request) error {
	id, in, _, err := s.taskRequest(r, "task.run", false)
	if err != nil {
		return err
	}
	ack, err := s.store.RunAgain(r.Context(), in, id)
	if err != nil {
		return err
	}
	s.admit()
	replayed(w, ack.Replayed)
	if ack.Run == nil {
		return fmt.Errorf("run task %s again: no run was made", id)
	}
	info, err := s.store.RunInfo(r.Context(), who(r).tenant, *ack.Run)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusCreated, wireRun(info))
}
