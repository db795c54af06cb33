package handlers

import (
	"net/http"
	"time"

	"signalbox/db"
	"signalbox/web"
)

// runRows are the rows of a list with what each run is compared with and what it cost.
func (s *server) runRows(r *http.Request, runs []db.RunInfo) ([]web.RunRow, error) {
	m, err := s.store.MeasuresOf(r.Context(), who(r).tenant, runs)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	var rows []web.RunRow
	for _, info := range runs {
		row, usual, cost := runRow(info), m.Usual[info.Repository], m.Cost[info.ID]
		row.Active = info.ActiveAt(now)
		if usual.Runs >= web.EnoughRuns {
			row.Usual = usual.Active
		}
		row.Cost = web.RunCost{Reported: s.currency.Of(cost.Reported), Estimated: s.currency.Of(cost.Estimated), UnknownCalls: cost.UnknownCalls}
		rows = append(rows, row)
	}
	return rows, nil
}
