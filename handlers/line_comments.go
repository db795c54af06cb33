package handlers

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

func onLine(l web.LineRef, path, quote, text string) comment {
	return comment{l.Words(), cut(path, maxQuote) + "\n" + cut(quote, maxQuote), text}
}

// written are the comments that hold a text.
func written(all map[web.LineRef]string) map[web.LineRef]string {
	for l, text := range all {
		if text == "" {
			delete(all, l)
		}
	}
	return all
}

// lineComments are comments on lines of the patch that a gate is about, each with the line as it is stored.
func (s *server) lineComments(r *http.Request, id uuid.UUID, texts map[web.LineRef]string) (about string, list []comment, err error) {
	info, err := s.store.Gate(r.Context(), who(r).tenant, id)
	if err != nil {
		return "", nil, err
	}
	var p *gatePatch
	if info.Kind == run.GatePatch {
		if p, err = s.gatePatch(r, info); err != nil {
			return "", nil, err
		}
	}
	if p == nil {
		return "", nil, fault.New(fault.Invalid, "Nothing was decided: this gate has no patch to comment on.").WithField("text")
	}
	if len(texts) > web.MaxLineNotes {
		return "", nil, fault.Newf(fault.Invalid, "Nothing was decided: there are %d comments, and %d are allowed.", len(texts), web.MaxLineNotes).WithField("text")
	}
	for _, l := range web.SortedRefs(texts) {
		line, path, ok := p.parsed.LineAt(l.File-1, l.Old, l.Line)
		switch {
		case !ok:
			return "", nil, fault.Newf(fault.Invalid, "Nothing was decided: the patch does not hold %s %d, which a comment is about.", l.Words(), l.File).WithField("text")
		case len([]rune(texts[l])) > maxComment:
			return "", nil, fault.Newf(fault.Invalid, "Nothing was decided: the comment on %s has more than 2,000 characters.", l.Words()).WithField("text")
		}
		list = append(list, onLine(l, path, line.Quote(), texts[l]))
	}
	return fmt.Sprintf("the patch, revision %d", info.Revision), list, nil
}

// lineNotes are the comments of a panel for its patch; nil where the patch takes none.
func lineNotes(r *http.Request, panel web.GatePanelData, file int) *web.LineNotes {
	if !web.LinesCommentable(panel) {
		return nil
	}
	n := &web.LineNotes{Gate: panel.GateID, Revision: panel.Revision, Draft: panel.Draft, Texts: panel.Lines, View: web.DiffChoiceOf(r.URL.Query()), File: file}
	n.Open(r.URL.Query())
	return n
}

// earlierGates are the patch gates of a gate's run that came before it, or that it is itself once it takes no comments.
func (s *server) earlierGates(r *http.Request, id uuid.UUID, itself bool) ([]db.GateInfo, error) {
	info, err := s.store.Gate(r.Context(), who(r).tenant, id)
	if err != nil || info.Kind != run.GatePatch {
		return nil, err
	}
	all, err := s.store.Gates(r.Context(), who(r).tenant, db.GateFilter{Run: info.Run, Limit: 100})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(g db.GateInfo) bool {
		return g.Kind != run.GatePatch || g.ID == id && !itself || g.ID != id && !g.OpenedAt.Before(info.OpenedAt)
	}), nil
}

// earlierComments are what a person wrote on lines of patches that are not decided any more, and did not send.
func (s *server) earlierComments(r *http.Request, panel *web.GatePanelData) (earlier, error) {
	before := earlier{}
	id, err := typeid.Parse(typeid.Gate, panel.GateID)
	if err != nil {
		return before, err
	}
	gates, err := s.earlierGates(r, id, !web.LinesCommentable(*panel))
	if err != nil {
		return before, err
	}
	for _, g := range gates {
		drafts, err := s.store.Drafts(r.Context(), draftKey(r, web.GateDraft(typeid.Format(typeid.Gate, g.ID))))
		if err != nil {
			return before, err
		}
		var p *gatePatch
		for _, kept := range drafts {
			d, err := parseDraft(kept.Key)
			if err != nil || d.line.File == 0 {
				continue
			}
			if p == nil {
				g.Patch = nil // it is the run's present one, and the gate's own is meant
				if p, err = s.gatePatch(r, g); err != nil {
					return before, err
				}
			}
			if p != nil {
				_, d.path, _ = p.parsed.LineAt(d.line.File-1, d.line.Old, d.line.Line)
			}
			before.add(d, kept.Text)
		}
	}
	return before, nil
}

// dropEarlier forgets what was written at the gates before one. What called for it is done: that this failed is no matter
// of it.
func (s *server) dropEarlier(r *http.Request, id uuid.UUID) {
	gates, err := s.earlierGates(r, id, false)
	for i := 0; err == nil && i < len(gates); i++ {
		err = s.store.DropDrafts(r.Context(), draftKey(r, web.GateDraft(typeid.Format(typeid.Gate, gates[i].ID))))
	}
	if err != nil {
		s.log.WarnContext(r.Context(), "drafts of earlier revisions stay", "request_id", requestID(r), "error", err.Error())
	}
}

// takesLine holds that a comment is on a file of the gate's patch and that there are not too many.
func (s *server) takesLine(r *http.Request, g db.GateInfo, d draft) error {
	if g.Kind != run.GatePatch || g.Patch == nil || d.line.File > g.Patch.Files {
		return fault.New(fault.NotFound, "Nothing was kept: the gate has no such line to comment on.").WithCode("draft_key")
	}
	gate := typeid.Format(typeid.Gate, g.ID)
	all, err := s.store.Drafts(r.Context(), draftKey(r, web.GateDraft(gate)))
	if err != nil {
		return err
	}
	others := 0
	for _, kept := range all {
		if k, err := parseDraft(kept.Key); err == nil && k.line.File > 0 && kept.Key != web.LineNoteDraft(gate, d.revision, d.line) {
			others++
		}
	}
	if others >= web.MaxLineNotes {
		return fault.Newf(fault.TooLarge, "Nothing was kept: there are %d comments already, and no more are allowed.", web.MaxLineNotes).WithCode("too_many")
	}
	return nil
}

// postNotes keeps all that a gate's form holds, for those without a script: a field is opened by a link, which leaves the
// page.
func (s *server) postNotes(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return err
	}
	values, err := form(r)
	if err != nil {
		return err
	}
	gate := typeid.Format(typeid.Gate, id)
	if err := s.keepTexts(r, gate, values); err != nil {
		return err
	}
	choice, _ := strconv.Atoi(r.URL.Query().Get("file"))
	return see(w, r, web.GateNotesKeptURL(gate, choice, web.DiffChoiceOf(r.URL.Query())))
}

// keepTexts keeps what a form of a gate brought as drafts.
func (s *server) keepTexts(r *http.Request, gate string, values url.Values) error {
	revision, err := strconv.Atoi(values.Get("revision"))
	if err != nil {
		return fault.New(fault.Malformed, "Nothing was kept: the form does not say which revision you saw. Open the page again.")
	}
	texts := map[string]string{}
	for l, text := range web.LineNoteFields(values) {
		texts[web.LineNoteDraft(gate, revision, l)] = text
	}
	if values.Has("text") {
		texts[web.GateDraft(gate)] = values.Get("text")
	}
	for key, text := range texts {
		if err := s.keepDraft(r, key, text); err != nil {
			return err
		}
	}
	return nil
}
