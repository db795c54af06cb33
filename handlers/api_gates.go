package handlers

import (
	"net/http"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

func (s *server) apiGates(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit, err := queryLimit(r)
	if err != nil {
		return err
	}
	filter := db.GateFilter{Limit: limit + 1}
	if state := q.Get("state"); state != "" {
		filter.States = []run.GateState{run.GateState(state)}
	}
	if filter.After, err = readCursor(q.Get("cursor")); err != nil {
		return err
	}
	if id := q.Get("run_id"); id != "" {
		if filter.Run, err = typeid.ParseField("run_id", typeid.Run, id); err != nil {
			return err
		}
	}
	gates, err := s.store.Gates(r.Context(), who(r).tenant, filter)
	if err != nil {
		return err
	}
	gates, next := more(gates, limit)
	list := wire.GateList{Items: []wire.Gate{}, NextCursor: next}
	for _, g := range gates {
		list.Items = append(list.Items, wireGateInfo(g))
	}
	return s.answer(w, r, http.StatusOK, list)
}

func wireGateInfo(g db.GateInfo) wire.Gate {
	shown := wire.Gate{
		Id: typeid.Format(typeid.Gate, g.ID), RunId: typeid.Format(typeid.Run, g.Run), TaskId: typeid.Format(typeid.Task, g.Task), TaskTitle: g.TaskTitle,
		RepositoryName: g.RepositoryName, Kind: wire.GateKind(g.Kind), State: wire.GateState(g.State), Revision: g.Revision, Digest: g.Digest, Quorum: g.Quorum,
		Approvals: g.Approvals, Risk: wire.Risk(g.Risk), Reasons: g.Reasons, PolicyVersion: g.PolicyVersion, OpenedAt: g.OpenedAt, ExpiresAt: g.ExpiresAt,
	}
	switch g.Kind {
	case run.GatePlan:
		shown.PlanArtifactId = g.Artifact
	case run.GateReport:
		shown.ReportArtifactId = g.Artifact
	case run.GatePatch:
		shown.PatchArtifactId = g.Artifact
		if shown.PatchArtifactId == "" && g.Patch != nil {
			shown.PatchArtifactId = g.Patch.Artifact
		}
	}
	return shown
}

// wireGate is one gate with what the caller may do there.
func (s *server) wireGate(r *http.Request, id uuid.UUID) (wire.Gate, error) {
	g, err := s.gate(r, id)
	if err != nil {
		return wire.Gate{}, err
	}
	shown := wireGateInfo(g.info)
	shown.Risk, shown.Approvals = wire.Risk(g.standing.Risk), g.standing.Tally.Approvals
	shown.MayDecide = g.open() && g.standing.MayApprove
	if g.open() && !g.standing.MayApprove {
		shown.MayNotWhy = g.standing.Why
	}
	for _, d := range g.decisions {
		shown.Decisions = append(shown.Decisions, wire.Decision{
			Id: typeid.Format(typeid.Decision, d.ID), Verdict: d.Verdict, Revision: d.Revision, Text: d.Text, Outdated: d.Revision < g.info.Revision, At: d.At,
			Actor: wire.Actor{Type: wire.ActorType(run.Human), Id: typeid.Format(typeid.User, d.User), Name: d.UserName},
		})
	}
	if g.open() && g.info.Kind == run.GatePatch {
		p, err := s.gatePatch(r, g.info)
		if err != nil {
			return shown, err
		}
		for _, group := range unshown(g.info, p) {
			shown.NotShown = append(shown.NotShown, wire.NotShown{Reason: wire.NotShownReason(group.Why), Files: group.Files})
		}
	}
	ev, err := s.evidence(r, g.run)
	if err != nil {
		return shown, err
	}
	shown.VerificationArtifactId, shown.JudgeArtifactId = ev.reportID, ev.judgeID
	return shown, nil
}

func (s *server) apiGate(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "gate_id", typeid.Gate)
	if err != nil {
		return err
	}
	shown, err := s.wireGate(r, id)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, shown)
}

func (s *server) apiDecideGate(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "gate_id", typeid.Gate)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	body, err := decode[wire.DecisionCreate](s, r)
	if err != nil {
		return err
	}
	if body.Verdict != wire.DecideApprove && body.Notes != "" {
		return fault.New(fault.Invalid, "Nothing was decided: notes go with an approval; an instruction or a reason goes into text.").WithField("notes")
	}
	text := body.Text
	if body.Verdict == wire.DecideApprove && body.Notes != "" {
		text = body.Notes
	}
	hash, err := requestHash(r, body)
	if err != nil {
		return err
	}
	v := db.Verdict{
		Tenant: who(r).tenant, Gate: id, Revision: body.Revision, Digest: body.Digest, Verdict: policy.GateVerdict(body.Verdict), Text: text, Key: key, Hash: hash,
		By: who(r).person(), Audit: auditOf(r, act{}),
	}
	if v.Adopt, err = s.adopted(r, id, string(body.Reconcile), body.AdoptUrl); err != nil {
		return err
	}
	var declared []string
	for _, why := range body.ReviewedElsewhere {
		declared = append(declared, string(why))
	}
	if err := s.readElsewhere(r, &v, declared); err != nil {
		return err
	}
	ack, err := s.store.Decide(r.Context(), v)
	if err != nil {
		return err
	}
	replayed(w, ack.Replayed)
	words := decidedTitle(ack.Outcome, ack.Notes)
	if ack.Words != "" {
		words += " " + ack.Words
	}
	return s.decisionAck(w, r, id, wire.DecisionAck{Outcome: ack.Outcome, Message: words, Replayed: ack.Replayed})
}

// decisionAck completes an answer with gate and run as they are now.
func (s *server) decisionAck(w http.ResponseWriter, r *http.Request, id uuid.UUID, ack wire.DecisionAck) error {
	var err error
	if ack.Gate, err = s.wireGate(r, id); err != nil {
		return err
	}
	g, err := s.store.Gate(r.Context(), who(r).tenant, id)
	if err != nil {
		return err
	}
	info, err := s.store.RunInfo(r.Context(), who(r).tenant, g.Run)
	if err != nil {
		return err
	}
	ack.Run = &wire.RunRef{Id: typeid.Format(typeid.Run, info.ID), State: wire.RunState(info.State), Version: info.Version}
	return s.answer(w, r, http.StatusOK, ack)
}

func (s *server) apiReopenGate(w http.ResponseWriter, r *http.Request) error {
	return s.apiMoveGate(w, r, wire.Reason{}, "The request is open again.", func(in db.Request, id uuid.UUID) (db.Ack, error) {
		return s.store.AskAgain(r.Context(), in, who(r).person(), id, "")
	})
}

func (s *server) apiWithdrawGate(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[wire.Reason](s, r)
	if err != nil {
		return err
	}
	return s.apiMoveGate(w, r, body, "The approval was withdrawn; the request is open again.", func(in db.Request, id uuid.UUID) (db.Ack, error) {
		return s.store.Withdraw(r.Context(), in, who(r).person(), id, body.Reason)
	})
}

func (s *server) apiMoveGate(w http.ResponseWriter, r *http.Request, body wire.Reason, words string, do func(db.Request, uuid.UUID) (db.Ack, error)) error {
	id, err := pathID(r, "gate_id", typeid.Gate)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	if err := s.mayMove(r, id); err != nil {
		return err
	}
	in, err := s.request(r, key, body, act{reason: body.Reason})
	if err != nil {
		return err
	}
	ack, err := do(in, id)
	if err != nil {
		return err
	}
	replayed(w, ack.Replayed)
	return s.decisionAck(w, r, id, wire.DecisionAck{Outcome: "decided", Message: words, Replayed: ack.Replayed})
}
