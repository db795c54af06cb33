package handlers

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/patch"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// gatePatch is the stored patch that a gate's page shows.
type gatePatch struct {
	artifact db.ArtifactInfo
	parsed   *patch.Patch
}

// gatePatch reads the patch of a gate; nil where the gate has none to show. A gate that asks about a patch always has one: without it
// nobody is asked, because nobody could see what about.
func (s *server) gatePatch(r *http.Request, g db.GateInfo) (*gatePatch, error) {
	if g.Kind == run.GatePlan {
		return nil, nil
	}
	tenant := who(r).tenant
	artifacts, err := s.store.Artifacts(r.Context(), tenant, g.Run)
	if err != nil {
		return nil, err
	}
	for _, a := range artifacts {
		shown := typeid.Format(typeid.Artifact, a.ID) == g.Artifact || g.Patch != nil && a.SHA256 == g.Patch.Digest
		if a.Kind != "patch" || a.Late || !shown {
			continue
		}
		raw, err := s.artifacts.Read(r.Context(), tenant, a.SHA256, patch.MaxBytes)
		if err != nil {
			return nil, err
		}
		parsed, err := patch.Parse(raw, patch.MaxBytes)
		if err != nil {
			return nil, err
		}
		return &gatePatch{a, parsed}, nil
	}
	if g.Kind == run.GatePatch && (g.State == run.GateOpen || g.State == run.GateExpired) {
		return nil, fault.New(fault.Gone, "Nothing can be decided here: the patch that this gate is about is not stored any more. Cancel the run and start it again.")
	}
	return nil, nil
}

// unshown is what an approver of this gate has to declare as read elsewhere (A26). It follows from the patch and from the
// bounds of the page alone, so that no choice of view changes it.
func unshown(g db.GateInfo, p *gatePatch) []patch.UnshownGroup {
	if g.Kind != run.GatePatch || p == nil {
		return nil
	}
	return p.parsed.Render(web.InlineBounds()).Unshown()
}

func unshownViews(g db.GateInfo, p *gatePatch) []web.UnshownView {
	var all []web.UnshownView
	for _, group := range unshown(g, p) {
		all = append(all, web.UnshownView{Why: string(group.Why), Files: group.Files})
	}
	return all
}

// readElsewhere holds an approval against what its page could not show. A decision about anything but the present
// revision is refused for that; what was not shown of another one does not matter.
func (s *server) readElsewhere(r *http.Request, v *db.Verdict, declared []string) error {
	if v.Verdict != policy.Approve {
		return nil
	}
	g, err := s.store.Gate(r.Context(), v.Tenant, v.Gate)
	if err != nil || g.Digest != v.Digest || g.Revision != v.Revision {
		return err
	}
	p, err := s.gatePatch(r, g)
	if err != nil {
		return err
	}
	v.Elsewhere, v.Unread = nil, ""
	var missing []patch.UnshownGroup
	for _, group := range unshown(g, p) {
		if slices.Contains(declared, string(group.Why)) {
			v.Elsewhere = append(v.Elsewhere, string(group.Why))
		} else {
			missing = append(missing, group)
		}
	}
	if len(missing) > 0 {
		v.Unread = "Nothing was approved: " + web.UnshownSentence(missing) + " Tick that you reviewed them, or open them."
	}
	return nil
}

// diffView shows a patch, marked with what policy and contract say about its paths. All that can fail is done when it returns;
// comparing and colouring the lines, which takes longest, is done when the view is asked for.
func (s *server) diffView(r *http.Request, g gate, p gatePatch, notes *web.LineNotes) (func() *web.DiffView, error) {
	options, err := s.diffOptions(r, g, p)
	if err != nil {
		return nil, err
	}
	options.Notes, options.Around = notes, s.around(r, p.shown(), p.shown().allFiles()...)
	var since *web.SinceView
	if g.info.Kind == run.GatePatch && options.View.Since > 0 && options.View.Since < g.info.Revision {
		if since, err = s.since(r, g, p, options.View); err != nil {
			return nil, err
		}
	}
	return func() *web.DiffView {
		view := web.NewDiffView(p.parsed.Render(web.InlineBounds()), options)
		view.Since = since
		return view
	}, nil
}

// since compares the patch with that of an earlier revision.
func (s *server) since(r *http.Request, g gate, p gatePatch, choice web.DiffChoice) (*web.SinceView, error) {
	all := choice
	all.Since = 0
	view := &web.SinceView{Since: choice.Since, Revision: g.info.Revision, Hide: web.GatePlace(typeid.Format(typeid.Gate, g.info.ID)).DiffURL(all)}
	revisions, err := s.store.PatchRevisions(r.Context(), g.run.Tenant, g.run.ID)
	if err != nil {
		return nil, err
	}
	id, err := typeid.Parse(typeid.Artifact, revisions[choice.Since])
	if err != nil {
		view.Missing = true
		return view, nil
	}
	a, err := s.store.Artifact(r.Context(), g.run.Tenant, id)
	if err != nil {
		return nil, err
	}
	before := p
	if a.SHA256 != p.artifact.SHA256 {
		raw, err := s.artifacts.Read(r.Context(), g.run.Tenant, a.SHA256, patch.MaxBytes)
		if err != nil {
			return nil, err
		}
		if before.parsed, err = patch.Parse(raw, patch.MaxBytes); err != nil {
			return nil, err
		}
	}
	view.Comparison = patch.Compare(before.parsed, p.parsed, web.InlineBounds())
	return view, nil
}

func (s *server) diffOptions(r *http.Request, g gate, p gatePatch) (web.DiffOptions, error) {
	info := g.run
	options := web.DiffOptions{
		RawURL: web.ArtifactURL(typeid.Format(typeid.Artifact, p.artifact.ID)), Marks: map[string][]string{},
		Place: web.GatePlace(typeid.Format(typeid.Gate, g.info.ID)), View: web.DiffChoiceOf(r.URL.Query()),
	}
	var err error
	if options.Ticks, err = s.ticks(r, g, p); err != nil {
		return options, err
	}
	if info.Patch != nil && info.Patch.Digest == p.artifact.SHA256 {
		options.Revision = info.Patch.Revision
		_, hits, err := s.store.Screen(r.Context(), db.Ref{Tenant: info.Tenant, Run: info.ID})
		if err != nil {
			return options, err
		}
		mark := func(words []string, what string) {
			for _, f := range p.parsed.Facts().Files {
				for _, hit := range words {
					if hit == f.Path() || strings.HasPrefix(hit, f.Path()+" ") || strings.HasPrefix(hit, f.Path()+":") {
						options.Marks[f.Path()] = append(options.Marks[f.Path()], what)
						break
					}
				}
			}
		}
		mark(hits.OutOfScope, "outside the scope")
		mark(hits.Forbidden, "forbidden")
		mark(hits.Protected, "protected")
	}
	return options, nil
}

// getGateFile shows one file of the patch, also where the gate's page is too small for it.
func (s *server) getGateFile(w http.ResponseWriter, r *http.Request) error {
	data, err := s.gateFile(r, false)
	if err != nil {
		return err
	}
	data.Shell = s.shell(r)
	return s.render(w, r, http.StatusOK, web.GateFilePage(data))
}

// getGateFileFragment is the same for the gate's page.
func (s *server) getGateFileFragment(w http.ResponseWriter, r *http.Request) error {
	data, err := s.gateFile(r, true)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.GateFile(data))
}

// gateFile is one file of the patch, for a page of its own or, as a fragment, for the gate's page.
func (s *server) gateFile(r *http.Request, fragment bool) (web.GateFilePageData, error) {
	var data web.GateFilePageData
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return data, err
	}
	g, err := s.gate(r, id)
	if err != nil {
		return data, err
	}
	info := g.info
	p, err := s.gatePatch(r, info)
	if err != nil {
		return data, err
	}
	n, err := strconv.Atoi(chi.URLParam(r, "n"))
	missing := fault.New(fault.NotFound, "The patch of this gate has no such file.")
	if err != nil || p == nil {
		return data, missing
	}
	file, ok := p.parsed.RenderFile(n-1, web.FileBounds())
	if !ok {
		return data, missing
	}
	options, err := s.diffOptions(r, g, *p)
	if err != nil {
		return data, err
	}
	panel := s.gatePanel(r, g)
	if err := s.keepText(r, &panel, nil); err != nil {
		return data, err
	}
	if options.Notes = lineNotes(r, panel, n); options.Notes != nil && fragment {
		options.Notes.File = 0
	}
	data = web.GateFilePageData{GateID: typeid.Format(typeid.Gate, id), Title: info.TaskTitle, Files: len(p.parsed.Facts().Files), View: options.View, RawURL: options.RawURL}
	options.Around = s.around(r, p.shown(), n-1)
	data.File, data.SpaceOnly = web.NewDiffFile(file, options)
	data.Switches, data.Ticks = options.FileSwitches(n), web.CountTicks(options.Ticks)
	return data, nil
}
