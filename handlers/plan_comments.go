package handlers

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// maxQuote is how many characters of a step stand above the comment on it.
const maxQuote = 300

// comment is what a person says about a part of a plan or a patch, with the words of that part.
type comment struct{ on, quote, text string }

func onStep(step int, quote, text string) comment {
	return comment{fmt.Sprintf("step %d", step), cut(quote, maxQuote), text}
}

// instruction makes one text for the agent of a person's text and of comments on a plan or a patch: numbered, in their
// order, each under the words that it is about. Without comments it is the text alone. What is quoted comes from the agent
// and cannot pretend to be anything else: each of its lines is marked, and a comment's lines are set in.
func instruction(text, about string, comments []comment) string {
	text = strings.TrimSpace(text)
	if len(comments) == 0 {
		return text
	}
	var b strings.Builder
	if text != "" {
		b.WriteString(text + "\n\n")
	}
	fmt.Fprintf(&b, "Comments on %s:\n", about)
	for i, c := range comments {
		fmt.Fprintf(&b, "\n%d. On %s:\n", i+1, c.on)
		writeLines(&b, "   > ", c.quote)
		writeLines(&b, "   ", c.text)
	}
	return strings.TrimRight(b.String(), "\n")
}

// writeLines writes a text with a mark before each line; whatever any reader could take for the end of a line is one, and
// other control characters are shown as such.
func writeLines(b *strings.Builder, mark, text string) {
	text = strings.Map(func(c rune) rune {
		switch {
		case strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", c):
			return '\n'
		case unicode.IsControl(c) && c != '\t':
			return unicode.ReplacementChar
		}
		return c
	}, strings.ReplaceAll(text, "\r\n", "\n"))
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(strings.TrimRightFunc(mark+line, unicode.IsSpace) + "\n")
	}
}

func cut(text string, most int) string {
	if r := []rune(strings.TrimSpace(text)); len(r) > most {
		return string(r[:most]) + "…"
	}
	return strings.TrimSpace(text)
}

// commentsOf reads a form's comments by step; empty ones are none.
func commentsOf(v url.Values) map[int]string {
	all := map[int]string{}
	for step := 1; step <= web.MaxSteps; step++ {
		if text := strings.TrimSpace(v.Get(web.CommentField(step))); text != "" {
			all[step] = text
		}
	}
	return all
}

// withComments is the text of a decision with the comments on what the gate is about, as that is stored.
// It says how many things it says: the text is one, and each comment.
func (s *server) withComments(r *http.Request, id uuid.UUID, v url.Values) (string, int, error) {
	var about string
	var list []comment
	var err error
	if lines := written(web.LineNoteFields(v)); len(lines) > 0 {
		about, list, err = s.lineComments(r, id, lines)
	} else if steps := commentsOf(v); len(steps) > 0 {
		about, list, err = s.stepComments(r, id, steps)
	}
	n := len(list)
	if strings.TrimSpace(v.Get("text")) != "" {
		n++
	}
	return instruction(v.Get("text"), about, list), n, err
}

func (s *server) stepComments(r *http.Request, id uuid.UUID, comments map[int]string) (about string, list []comment, err error) {
	steps, revision, err := s.stepsOf(r, id)
	if err != nil {
		return "", nil, err
	}
	for step := 1; step <= web.MaxSteps; step++ {
		text := comments[step]
		switch {
		case text == "":
		case step > len(steps):
			return "", nil, fault.Newf(fault.Invalid, "Nothing was decided: the plan has no step %d to comment on.", step).WithField("text")
		case len([]rune(text)) > maxComment:
			return "", nil, fault.Newf(fault.Invalid, "Nothing was decided: the comment on step %d has more than 2,000 characters.", step).WithField("text")
		default:
			list = append(list, onStep(step, steps[step-1].Title+"\n"+steps[step-1].Text, text))
		}
	}
	return fmt.Sprintf("the plan, revision %d", revision), list, nil
}

// stepsOf reads the steps of the plan that a gate is about, with the gate's revision; another gate has none.
func (s *server) stepsOf(r *http.Request, id uuid.UUID) ([]web.PlanStep, int, error) {
	info, err := s.store.Gate(r.Context(), who(r).tenant, id)
	if err != nil || info.Kind != run.GatePlan {
		return nil, 0, err
	}
	artifacts, err := s.store.Artifacts(r.Context(), who(r).tenant, info.Run)
	if err != nil {
		return nil, 0, err
	}
	at := slices.IndexFunc(artifacts, func(a db.ArtifactInfo) bool {
		return a.Kind == "plan" && !a.Late && typeid.Format(typeid.Artifact, a.ID) == info.Artifact
	})
	if at < 0 {
		return nil, info.Revision, nil
	}
	g := gate{info: info}
	g.run.Tenant = who(r).tenant
	view, err := s.planView(r, g, artifacts[at])
	if err != nil {
		return nil, 0, err
	}
	return view.Steps, info.Revision, nil
}

// keepComments fills in the comments of a panel: of the revision that it shows for its form, others to be copied.
// What was written at earlier gates of the run comes with before.
func keepComments(panel *web.GatePanelData, posted url.Values, drafts []db.Draft, before earlier) {
	panel.Comments, panel.Lines = map[int]string{}, map[web.LineRef]string{}
	takes := web.LinesCommentable(*panel)
	put := func(d draft, text string) {
		switch {
		case d.revision != panel.Revision || d.step == 0 && !takes:
			before.add(d, text)
		case d.step > 0:
			panel.Comments[d.step] = text
		default:
			panel.Lines[d.line] = text
		}
	}
	for _, kept := range drafts {
		if d, err := parseDraft(kept.Key); err == nil && d.part() && (posted == nil || d.revision != panel.Revision) {
			put(d, kept.Text)
		}
	}
	if posted != nil {
		revision, _ := strconv.Atoi(posted.Get("revision"))
		for step, text := range commentsOf(posted) {
			put(draft{revision: revision, step: step}, text)
		}
		for line, text := range written(web.LineNoteFields(posted)) {
			put(draft{revision: revision, line: line}, text)
		}
	}
	panel.Earlier = before.words()
}

// earlier are comments on revisions that are not shown any more, by what they are about.
type earlier map[string]string

func (e earlier) add(d draft, text string) {
	key := fmt.Sprintf("%06d:%06d", d.revision, d.step)
	words := fmt.Sprintf("Step %d of revision %d: %s", d.step, d.revision, text)
	if d.step == 0 {
		key = fmt.Sprintf("%06d:%06d:%09d%t", d.revision, d.line.File, d.line.Line, d.line.Old)
		words = fmt.Sprintf("File %d, %s, revision %d: %s", d.line.File, d.line.Words(), d.revision, text)
		if d.path != "" {
			words = fmt.Sprintf("%s, %s, revision %d: %s", d.path, d.line.Words(), d.revision, text)
		}
	}
	if _, known := e[key]; !known || d.path != "" {
		e[key] = words
	}
}

func (e earlier) words() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(e)) {
		all = append(all, e[key])
	}
	return strings.Join(all, "\n\n")
}
