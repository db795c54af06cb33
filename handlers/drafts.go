package handlers

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// Bounds of what is kept, in characters: those of the forms themselves.
const (
	maxText    = 20000
	maxGoal    = 50000
	maxComment = 2000
)

// draft is a key that a form of ours has: a gate's text, a comment on a step of its plan or a line of its patch, or the goal
// of a new task.
type draft struct {
	// gate is set for a gate's form, and with it revision and step for a comment on a step.
	gate           uuid.UUID
	revision, step int
	// line is set in place of step for a comment on a line of a patch; path is its file, where it is known.
	line web.LineRef
	path string
	// task is what a new task is filled from; nil: from nothing.
	task uuid.UUID
}

// part reports whether this is a comment beside a gate's text.
func (d draft) part() bool { return d.step > 0 || d.line.File > 0 }

// parseDraft reads a key of the address; one that no form of ours has is fault.NotFound.
func parseDraft(key string) (draft, error) {
	none := fault.New(fault.NotFound, "Nothing was kept: there is no such form.").WithCode("draft_key")
	kind, rest, _ := strings.Cut(key, ":")
	id, part, isPart := strings.Cut(rest, ":")
	var d draft
	var err error
	switch {
	case key == web.NewTaskDraft(""):
	case kind == "task" && !isPart:
		d.task, err = typeid.Parse(typeid.Task, id)
	case kind == "gate":
		if d.gate, err = typeid.Parse(typeid.Gate, id); err != nil || !isPart {
			break
		}
		revision, rest, _ := strings.Cut(part, ":")
		d.revision, _ = strconv.Atoi(revision)
		var isLine bool
		if d.line, isLine = web.ParseLineRef(rest); isLine {
			if d.revision < 1 || web.LineNoteDraft(id, d.revision, d.line) != key {
				return d, none
			}
			break
		}
		d.line = web.LineRef{}
		d.step, _ = strconv.Atoi(rest)
		if d.revision < 1 || d.step < 1 || d.step > web.MaxSteps || web.StepDraft(id, d.revision, d.step) != key {
			return d, none
		}
	default:
		return d, none
	}
	if err != nil {
		return d, none
	}
	return d, nil
}

// limit is how many characters the form takes.
func (d draft) limit() int {
	switch {
	case d.part():
		return maxComment
	case d.gate != uuid.Nil:
		return maxText
	}
	return maxGoal
}

// page is where the form is.
func (d draft) page() string {
	switch {
	case d.gate != uuid.Nil:
		return web.GateURL(typeid.Format(typeid.Gate, d.gate))
	case d.task != uuid.Nil:
		return web.TaskFromURL(typeid.Format(typeid.Task, d.task))
	}
	return web.NewTaskURL
}

// takes holds that there is such a form and that it still takes a text: nobody fills the table with keys of their own.
func (s *server) takes(r *http.Request, d draft) error {
	if d.task != uuid.Nil {
		_, err := s.store.Task(r.Context(), who(r).tenant, d.task)
		return err
	}
	if d.gate == uuid.Nil {
		return nil
	}
	g, err := s.store.Gate(r.Context(), who(r).tenant, d.gate)
	switch {
	case err != nil:
		return err
	case g.State != run.GateOpen && g.State != run.GateExpired:
		return fault.New(fault.Gone, "Nothing was kept: this gate takes no more text.").WithCode("gate_closed")
	case d.revision > g.Revision:
		return fault.New(fault.NotFound, "Nothing was kept: the gate has no such revision.").WithCode("draft_key")
	case d.line.File > 0:
		return s.takesLine(r, g, d)
	}
	return nil
}

// draftKey is a key of the one who asks.
func draftKey(r *http.Request, key string) db.DraftKey {
	return db.DraftKey{Tenant: who(r).tenant, User: who(r).user, Key: key}
}

// postDraft keeps what a person is writing, in place of what was kept before; an empty text is none.
func (s *server) postDraft(w http.ResponseWriter, r *http.Request) error {
	values, err := form(r)
	if err != nil {
		return err
	}
	if err := s.keepDraft(r, chi.URLParam(r, "key"), values.Get("text")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) keepDraft(r *http.Request, key, text string) error {
	d, err := parseDraft(key)
	if err != nil {
		return err
	}
	if n := len([]rune(text)); n > d.limit() {
		return fault.Newf(fault.TooLarge, "Nothing was kept: the text has %d characters, and %d are allowed.", n, d.limit()).WithCode("too_large").WithField("text")
	}
	if err := s.takes(r, d); err != nil {
		return err
	}
	return s.store.SaveDraft(r.Context(), draftKey(r, key), text)
}

// postDraftDiscard forgets a form's text with all of its parts.
func (s *server) postDraftDiscard(w http.ResponseWriter, r *http.Request) error {
	key := chi.URLParam(r, "key")
	d, err := parseDraft(key)
	if err != nil {
		return err
	}
	if err := s.store.DropDrafts(r.Context(), draftKey(r, key)); err != nil {
		return err
	}
	if d.gate != uuid.Nil {
		s.dropEarlier(r, d.gate)
	}
	back := "?"
	if strings.Contains(d.page(), "?") {
		back = "&"
	}
	return see(w, r, d.page()+back+"done=draft-discarded")
}

// keptDraft is what was kept of a form's own text.
func (s *server) keptDraft(r *http.Request, key string) (web.Draft, error) {
	d := web.Draft{Key: key, Person: typeid.Format(typeid.User, who(r).user)}
	all, err := s.store.Drafts(r.Context(), draftKey(r, key))
	for _, kept := range all {
		if kept.Key == key {
			d.Text, d.At = kept.Text, kept.At
		}
	}
	return d, err
}

// usedDraft forgets the text that a submission was made from. The submission is done: that this failed is no matter of it.
func (s *server) usedDraft(r *http.Request, key string) {
	if d, err := parseDraft(key); err != nil || d.gate != uuid.Nil {
		return
	}
	if err := s.store.DropDrafts(r.Context(), draftKey(r, key)); err != nil {
		s.log.WarnContext(r.Context(), "a used draft stays", "request_id", requestID(r), "error", err.Error())
	}
}

// keepText fills in a panel's text and comments: what was posted and refused, or else what was kept.
func (s *server) keepText(r *http.Request, panel *web.GatePanelData, posted url.Values) error {
	key := web.GateDraft(panel.GateID)
	panel.Draft = web.Draft{Key: key, Person: typeid.Format(typeid.User, who(r).user)}
	all, err := s.store.Drafts(r.Context(), draftKey(r, key))
	if err != nil {
		return err
	}
	before, err := s.earlierComments(r, panel)
	if err != nil {
		return err
	}
	keepComments(panel, posted, all, before)
	if posted != nil {
		// What stands there is newer than what was kept.
		panel.Text, panel.AdoptURL, panel.Elsewhere = posted.Get("text"), posted.Get("adopt_url"), posted["reviewed_elsewhere"]
		return nil
	}
	for _, d := range all {
		if d.Key == key {
			panel.Text = d.Text
		}
		if d.At.After(panel.Draft.At) {
			panel.Draft.At = d.At
		}
	}
	return nil
}
