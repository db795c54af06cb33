package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/wire"
	"signalbox/web"
)

// apiAudit lists the audit log by the filters of the page.
func (s *server) apiAudit(w http.ResponseWriter, r *http.Request) error {
	f, _, err := auditFilter(r.URL.Query())
	if err != nil {
		return err
	}
	limit, err := queryLimit(r)
	if err != nil {
		return err
	}
	if f.Before, err = queryInt(r, "before", 0, 0, 1<<62); err != nil {
		return err
	}
	f.Limit = limit + 1
	list, err := s.store.AuditLines(r.Context(), who(r).tenant, f)
	if err != nil {
		return err
	}
	out := wire.AuditList{Items: []wire.AuditRow{}}
	for i, l := range list {
		if int32(i) == limit {
			out.NextBefore = list[i-1].Seq
			break
		}
		row, err := s.wireAudit(l)
		if err != nil {
			return err
		}
		out.Items = append(out.Items, row)
	}
	return s.answer(w, r, http.StatusOK, out)
}

// apiAuditRow is one row.
func (s *server) apiAuditRow(w http.ResponseWriter, r *http.Request) error {
	n, err := strconv.ParseInt(chi.URLParam(r, "number"), 10, 64)
	if err != nil || n < 1 {
		return fault.New(fault.NotFound, "Nothing is shown: the audit log has no such number.")
	}
	l, _, err := s.store.AuditAt(r.Context(), who(r).tenant, n)
	if err != nil {
		return err
	}
	row, err := s.wireAudit(l)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, row)
}

func (s *server) wireAudit(l db.AuditLine) (wire.AuditRow, error) {
	e := exported(l)
	row := wire.AuditRow{Number: e.Number, At: e.At, ActorKind: e.ActorKind, ActorId: e.ActorID, ActorName: e.ActorName, Channel: e.Channel, RemoteAddr: e.RemoteAddr, RequestId: e.RequestID,
		Action: e.Action, ObjectType: e.ObjectType, ObjectId: e.ObjectID, Result: e.Result, Reason: e.Reason, Detail: map[string]any{}, Hash: e.Hash, Url: s.publicURL.String() + web.AuditRowURL(e.Number)}
	if err := json.Unmarshal(e.Detail, &row.Detail); err != nil {
		return row, fmt.Errorf("read the detail of audit row %d: %w", e.Number, err)
	}
	return row, nil
}
