package handlers

import (
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// viewer is the one who asks, at a gate.
func viewer(r *http.Request, g gate) db.Viewer {
	return db.Viewer{Tenant: who(r).tenant, User: who(r).user, Run: g.info.Run}
}

// ticks are what the one who asks has viewed of a patch, by file.
func (s *server) ticks(r *http.Request, g gate, p gatePatch) ([]web.Tick, error) {
	seen, err := s.store.Viewed(r.Context(), viewer(r, g))
	if err != nil {
		return nil, err
	}
	files := p.parsed.Facts().Files
	all := make([]web.Tick, len(files))
	for i, f := range files {
		all[i].Digest = p.parsed.FileDigest(i)
		if digest, ok := seen.Of(f.Path()); ok {
			all[i].Viewed, all[i].Changed = digest == all[i].Digest, digest != all[i].Digest
		}
	}
	return all, nil
}

// postViewed ticks a file of a gate's patch as viewed, or takes that back: for the one who asks, and for no decision.
func (s *server) postViewed(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return err
	}
	values, err := form(r)
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
	n, err := strconv.Atoi(chi.URLParam(r, "n"))
	if err != nil || p == nil || p.parsed.FileDigest(n-1) == "" {
		return fault.New(fault.NotFound, "Nothing was ticked: the patch of this gate has no such file.")
	}
	if values.Get("digest") != p.parsed.FileDigest(n-1) {
		return fault.New(fault.Conflict, "Nothing was ticked: the file has changed since you opened this page. Open it again.")
	}
	path := p.parsed.Facts().Files[n-1].Path()
	if values.Get("viewed") == "yes" {
		err = s.store.MarkViewed(r.Context(), viewer(r, g), path, values.Get("digest"))
	} else {
		err = s.store.UnmarkViewed(r.Context(), viewer(r, g), path)
	}
	if err != nil {
		return err
	}
	gate, choice := typeid.Format(typeid.Gate, id), web.DiffChoiceOf(r.URL.Query())
	if r.Header.Get("HX-Request") == "" {
		return see(w, r, web.GateFileAnchorURL(gate, n, choice))
	}
	all, err := s.ticks(r, g, *p)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.FileTicked(web.FileViewed{
		File: web.DiffFile{N: n, Path: path, Place: web.GatePlace(gate), View: choice, Tick: &all[n-1]}, Count: *web.CountTicks(all),
	}))
}
