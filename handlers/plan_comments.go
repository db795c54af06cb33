package handlers

import (
	"fmt"
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

// stepComment is a person's comment on one step of a plan, with the step's words.
type stepComment struct {
	step        int
	quote, text string
}

// instruction makes one text for the agent of a person's text and of comments on a plan: numbered, in the order of the
// steps, each under the words that it is about. Without comments it is the text alone. A quoted step comes from the agent
// and cannot pretend to be anything else: each of its lines is marked, and a comment's lines are set in.
func instruction(text string, revision int, comments []stepComment) string {
	text = strings.TrimSpace(text)
	if len(comments) == 0 {
		return text
	}
	var b strings.Builder
	if text != "" {
		b.WriteString(text + "\n\n")
	}
	fmt.Fprintf(&b, "Comments on the plan, revision %d:\n", revision)
	for i, c := range comments {
		fmt.Fprintf(&b, "\n%d. On step %d:\n", i+1, c.step)
		writeLines(&b, "   > ", cut(c.quote, maxQuote))
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

// withComments is the text of a decision with the comments on the steps of the gate's plan, as the plan is stored.
func (s *server) withComments(r *http.Request, id uuid.UUID, v url.Values) (string, error) {
	comments := commentsOf(v)
	if len(comments) == 0 {
		return instruction(v.Get("text"), 0, nil), nil
	}
	steps, revision, err := s.stepsOf(r, id)
	if err != nil {
		return "", err
	}
	var list []stepComment
	for step := 1; step <= web.MaxSteps; step++ {
		text := comments[step]
		switch {
		case text == "":
		case step > len(steps):
			return "", fault.Newf(fault.Invalid, "Nothing was decided: the plan has no step %d to comment on.", step).WithField("text")
		case len([]rune(text)) > maxComment:
			return "", fault.Newf(fault.Invalid, "Nothing was decided: the comment on step %d has more than 2,000 characters.", step).WithField("text")
		default:
			list = append(list, stepComment{step, steps[step-1].Title + "\n" + steps[step-1].Text, text})
		}
	}
	return instruction(v.Get("text"), revision, list), nil
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
func keepComments(panel *web.GatePanelData, posted url.Values, drafts []db.Draft) {
	panel.Comments = map[int]string{}
	earlier := map[string]string{}
	put := func(revision, step int, text string) {
		if revision == panel.Revision {
			panel.Comments[step] = text
			return
		}
		earlier[fmt.Sprintf("%06d:%06d", revision, step)] = fmt.Sprintf("Step %d of revision %d: %s", step, revision, text)
	}
	for _, kept := range drafts {
		if d, err := parseDraft(kept.Key); err == nil && d.step > 0 && (posted == nil || d.revision != panel.Revision) {
			put(d.revision, d.step, kept.Text)
		}
	}
	if posted != nil {
		revision, _ := strconv.Atoi(posted.Get("revision"))
		for step, text := range commentsOf(posted) {
			put(revision, step, text)
		}
	}
	var lines []string
	for key := range earlier {
		lines = append(lines, key)
	}
	slices.Sort(lines)
	for i, key := range lines {
		lines[i] = earlier[key]
	}
	panel.Earlier = strings.Join(lines, "\n\n")
}
