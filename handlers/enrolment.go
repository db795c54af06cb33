package handlers

import (
	"net/http"
	"strings"
	"time"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// enrolmentLife is how long an enrolment token is worth a worker.
const enrolmentLife = 24 * time.Hour

func (s *server) apiEnrolments(w http.ResponseWriter, r *http.Request) error {
	all, err := s.store.Enrolments(r.Context(), who(r).tenant)
	if err != nil {
		return err
	}
	list := wire.WorkerEnrolmentList{Items: []wire.WorkerEnrolment{}}
	for _, e := range all {
		list.Items = append(list.Items, wire.WorkerEnrolment{
			Id: typeid.Format(typeid.Enrolment, e.ID), Name: e.Name, Phases: wirePhases(e.Phases), CreatedBy: e.ByName, CreatedAt: e.CreatedAt.UTC(), ExpiresAt: e.ExpiresAt.UTC(),
			UsedAt: instant(e.UsedAt), CredentialId: typeid.Format(typeid.Worker, e.Worker), RevokedAt: instant(e.RevokedAt),
		})
	}
	return s.answer(w, r, http.StatusOK, list)
}

func (s *server) apiCreateEnrolment(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	body, err := decode[wire.WorkerCredentialCreate](s, r)
	if err != nil {
		return err
	}
	in, err := s.request(r, key, body, act{action: "worker_enrolment.create", object: "worker_enrolment", reason: body.Name})
	if err != nil {
		return err
	}
	secret := db.Mint(db.PrefixEnrolment)
	e, again, err := s.store.IssueEnrolment(r.Context(), in, db.Enrolment{Name: body.Name, Phases: runPhases(body.Phases), By: who(r).user}, secret, enrolmentLife)
	if err != nil {
		return err
	}
	if replayed(w, again); again {
		secret = ""
	}
	return s.minted(w, r, wire.MintedToken{Id: typeid.Format(typeid.Enrolment, e.ID), Name: e.Name, Secret: secret, ExpiresAt: e.ExpiresAt.UTC()})
}

func (s *server) apiRevokeEnrolment(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "enrolment_id", typeid.Enrolment)
	if err != nil {
		return err
	}
	p := who(r)
	in := db.Request{Tenant: p.tenant, By: p.actor(), Audit: auditOf(r, act{action: "worker_enrolment.revoke", object: "worker_enrolment"})}
	if err := s.store.EndEnrolment(r.Context(), in, id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// apiEnrolWorker makes a worker of whoever holds the token: the token says its name, its tenant and what it may claim, and the
// request says nothing else (S11).
func (s *server) apiEnrolWorker(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[wire.WorkerEnrol](s, r)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(body.Token, db.PrefixEnrolment) || !db.WellFormed(body.Token) {
		return fault.New(fault.Invalid, "No worker was enrolled: this is no enrolment token. One begins with "+db.PrefixEnrolment+", and was cut off if it looks like one.").WithField("token")
	}
	secret := db.Mint(db.PrefixWorker)
	c, err := s.store.EnrolWorker(r.Context(), body.Token, secret, auditOf(r, act{action: "worker.enrol", object: "worker"}))
	if err != nil {
		return err
	}
	return s.minted(w, r, wire.MintedToken{Id: typeid.Format(typeid.Worker, c.ID), Name: c.Name, Secret: secret})
}
