package handlers

import (
	"context"
	"net/http"

	"signalbox/db"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
	"signalbox/web"
)

// apiResumeRun looks at a run that seems to stand still and lets it go on where that is right.
func (s *server) apiResumeRun(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "run_id", typeid.Run)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	request, err := s.request(r, key, nil, act{action: "run.resume", object: "run", id: typeid.Format(typeid.Run, id)})
	if err != nil {
		return err
	}
	done, err := s.store.Resume(r.Context(), request, id)
	if err != nil {
		return err
	}
	replayed(w, done.Replayed)
	return s.answer(w, r, http.StatusOK, wire.RunResumed{RunId: typeid.Format(typeid.Run, id), State: wire.RunState(done.State), Found: notes(done.Found), Done: notes(done.Done), Next: done.Next})
}

func notes(of []db.Note) []wire.RunNote {
	out := make([]wire.RunNote, 0, len(of))
	for _, n := range of {
		out = append(out, wire.RunNote{Code: n.Code, Text: n.Text})
	}
	return out
}

// setAside tells of a run that a worker holds and that was set aside all the same; one that waits has it among its reasons
// to wait.
func (s *server) setAside(ctx context.Context, info db.RunInfo, v *web.RunView) error {
	if info.Lease == nil {
		return nil
	}
	aside, err := s.store.AsideOf(ctx, db.Ref{Tenant: info.Tenant, Run: info.ID})
	if err == nil && aside != nil {
		v.SetAside = aside.Words()
	}
	return err
}
