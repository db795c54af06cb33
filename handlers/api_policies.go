package handlers

import (
	"net/http"

	"signalbox/internal/policy"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

func (s *server) apiPolicies(w http.ResponseWriter, r *http.Request) error {
	all, waits, err := s.store.Policies(r.Context(), who(r).tenant, policiesShown)
	if err != nil {
		return err
	}
	list := wire.PolicyList{Versions: []wire.PolicyVersion{}}
	for _, v := range all {
		list.Versions = append(list.Versions, wire.PolicyVersion{Version: v.Version, InForce: v.InForce, At: v.At, By: v.By, ConfirmedBy: v.ConfirmedBy, Reason: v.Reason})
	}
	if waits != nil {
		list.Proposed = wire.PolicyVersion{Version: waits.Version, At: waits.At, By: waits.By, Reason: waits.Reason}
	}
	return s.answer(w, r, http.StatusOK, list)
}

func (s *server) apiPolicy(w http.ResponseWriter, r *http.Request) error {
	version := policyVersion(r)
	doc, err := s.store.PolicyDocument(r.Context(), who(r).tenant, version)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, wire.PolicyDocument{Version: version, Document: doc})
}

func (s *server) apiChangePolicy(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[wire.PolicyChange](s, r)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	in, err := s.request(r, key, body, act{action: "policy.change", object: "policy"})
	if err != nil {
		return err
	}
	ack, err := s.store.ChangePolicy(r.Context(), in, body.Document, body.Reason)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, wire.PolicyAck{Version: ack.Version, InForce: ack.InForce})
}

func (s *server) apiConfirmPolicy(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	version := policyVersion(r)
	in, err := s.request(r, key, "", act{action: "policy.confirm", object: "policy", id: version})
	if err != nil {
		return err
	}
	ack, err := s.store.ConfirmPolicy(r.Context(), in, version)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, wire.PolicyAck{Version: ack.Version, InForce: ack.InForce})
}

func (s *server) apiWithdrawPolicy(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	version := policyVersion(r)
	in, err := s.request(r, key, "", act{action: "policy.withdraw", object: "policy", id: version})
	if err != nil {
		return err
	}
	if err := s.store.WithdrawPolicy(r.Context(), in, version); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) apiSimulatePolicy(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[wire.PolicyDraft](s, r)
	if err != nil {
		return err
	}
	last := body.Last
	if last == 0 {
		last = pageSimulated
	}
	found, err := s.store.SimulatePolicy(r.Context(), who(r).tenant, body.Document, last)
	if err != nil {
		return err
	}
	out := wire.PolicySimulation{Against: found.Against, Draft: found.Draft, Runs: found.Runs, Changed: found.Changed, Kinds: []wire.PolicyChangeCount{}, List: []wire.PolicySimulatedRun{}}
	for _, k := range policy.ChangeKinds() {
		if n := found.Kinds[k]; n > 0 {
			out.Kinds = append(out.Kinds, wire.PolicyChangeCount{Kind: wire.PolicyChangeKind(k), Runs: n, Words: k.Words()})
		}
	}
	for _, x := range found.List {
		row := wire.PolicySimulatedRun{RunId: typeid.Format(typeid.Run, x.Run), Title: x.Title, Repository: x.Repository, State: wire.RunState(x.State), At: x.At, Changes: []string{}}
		for _, c := range x.Changes {
			row.Changes = append(row.Changes, c.Words)
		}
		out.List = append(out.List, row)
	}
	return s.answer(w, r, http.StatusOK, out)
}
