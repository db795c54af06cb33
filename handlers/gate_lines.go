package handlers

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"signalbox/internal/fault"
	"signalbox/internal/patch"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
	"signalbox/web"
)

// shownPatch is a patch on a page, and the run whose worker stored what its files were before, beside the patch of a digest.
type shownPatch struct {
	parsed *patch.Patch
	run    uuid.UUID
	digest string
}

func (p gatePatch) shown() shownPatch { return shownPatch{p.parsed, p.artifact.Run, p.artifact.SHA256} }

// around finds the lines outside a patch's hunks in what its worker stored of the old files, and reads that at once. It is
// untrusted, and only shown where package patch knows it for sure. It is nil where none of the files, counted from 0, can have such
// lines. Without it the patch can be read and decided all the same, so that what goes wrong here is noted and no failure of the page.
func (s *server) around(r *http.Request, p shownPatch, files ...int) func(int) (patch.Around, bool) {
	if !slices.ContainsFunc(files, p.parsed.HasAround) {
		return nil
	}
	base := s.oldTexts(r, p)
	return func(file int) (patch.Around, bool) { return p.parsed.Around(file, base) }
}

// allFiles are the files of a patch, counted from 0.
func (p shownPatch) allFiles() []int {
	all := make([]int, len(p.parsed.Facts().Files))
	for i := range all {
		all[i] = i
	}
	return all
}

// oldTexts reads what the patch's files were before it, as far as it is stored.
func (s *server) oldTexts(r *http.Request, p shownPatch) *patch.Base {
	tenant, name := who(r).tenant, patch.BaseName(p.digest)
	artifacts, err := s.store.Artifacts(r.Context(), tenant, p.run)
	if err != nil {
		s.note(r, err)
		return nil
	}
	for i := len(artifacts) - 1; i >= 0; i-- {
		a := artifacts[i]
		if a.Kind != string(wire.ArtifactKindBaseTexts) || a.Late || a.Name != name {
			continue
		}
		raw, err := s.artifacts.Read(r.Context(), tenant, a.SHA256, patch.MaxBase)
		if err != nil {
			s.note(r, err)
			return nil
		}
		return patch.ParseBase(raw)
	}
	return nil
}

// getGateLines shows lines outside the hunks of a file, for the place on the page that offered them.
func (s *server) getGateLines(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return err
	}
	g, err := s.gate(r, id)
	if err != nil {
		return err
	}
	p, err := s.gatePatch(r, g.info)
	if err != nil {
		return err
	}
	if p == nil {
		return noLines()
	}
	return s.showLines(w, r, p.shown(), web.GatePlace(typeid.Format(typeid.Gate, id)))
}

// showLines answers with the lines that an address asks about, of the nth file of a patch.
func (s *server) showLines(w http.ResponseWriter, r *http.Request, p shownPatch, place web.DiffPlace) error {
	n, err := strconv.Atoi(chi.URLParam(r, "n"))
	if err != nil || n < 1 || n > len(p.parsed.Facts().Files) {
		return noLines()
	}
	q := r.URL.Query()
	from, to := web.LineStretch(q)
	options := web.DiffOptions{Place: place, View: web.DiffChoiceOf(q), Around: s.around(r, p, n-1)}
	data, ok := web.NewLines(n, p.parsed.Facts().Files[n-1].Path(), from, to, options)
	if !ok {
		return noLines()
	}
	return s.render(w, r, http.StatusOK, web.DiffLines(data))
}

func noLines() error {
	return fault.New(fault.NotFound, "No lines are shown: the patch has none there, or what its files were before is not stored.")
}
