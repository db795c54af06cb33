package handlers

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// One request cancels at most cancelMost runs; above cancelTyped their number has to be typed.
const (
	cancelMost  = 200
	cancelTyped = 50
)

// getRunsCancel asks before several runs are cancelled: those with the given ids, or all that match the list's filters. The form of
// the answer carries the runs that were shown, so that a run that comes to match later is not cancelled unseen.
func (s *server) getRunsCancel(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var list []db.RunInfo
	var err error
	more := false
	if q.Get("all") == "1" {
		var filter db.RunFilter
		if filter, _, err = s.runFilter(r, q); err != nil {
			return err
		}
		filter.Active, filter.Limit = true, cancelMost+1
		if list, err = s.store.Runs(r.Context(), who(r).tenant, filter); err != nil {
			return err
		}
		more = len(list) > cancelMost
		list = list[:min(len(list), cancelMost)]
	} else {
		ids, err := runIDs(q["run"])
		if err != nil {
			return err
		}
		if list, err = s.store.RunsByID(r.Context(), who(r).tenant, ids); err != nil {
			return err
		}
	}
	data := s.bulkCancel(r, list)
	data.More = more
	return s.render(w, r, http.StatusOK, web.BulkCancelPage(data))
}

// runIDs reads the selected runs, each once.
func runIDs(values []string) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for _, v := range values {
		id, err := typeid.ParseField("run", typeid.Run, v)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > cancelMost {
		return nil, fault.Newf(fault.Invalid, "Nothing was cancelled: one request cancels at most %d runs, and %d are selected.", cancelMost, len(ids)).WithField("run")
	}
	return ids, nil
}

// bulkCancel is the question about these runs.
func (s *server) bulkCancel(r *http.Request, list []db.RunInfo) web.BulkCancelPageData {
	data := web.BulkCancelPageData{Shell: s.shell(r), Most: cancelMost, IdempotencyKey: db.NewSecret()}
	for _, info := range list {
		row := web.BulkRun{RunRow: runRow(info), Why: cannotCancel(info)}
		if row.Why != "" {
			data.Skipped = append(data.Skipped, row)
			continue
		}
		data.Runs = append(data.Runs, row)
		data.MustGiveReason = data.MustGiveReason || info.RequestedBy != who(r).user
		switch {
		case info.State == run.WaitingForApproval || info.State == run.AwaitingVerification:
			data.Waiting++
		case info.Lease != nil:
			data.Running++
		default:
			data.Queued++
		}
	}
	data.TypeCount = len(data.Runs) > cancelTyped
	return data
}

// cannotCancel says why a run takes no cancellation; "" where it does.
func cannotCancel(info db.RunInfo) string {
	switch {
	case info.State.Terminal():
		return fmt.Sprintf("It had already ended: %s.", strings.ToLower(web.StateLabel(info.State)))
	case info.State == run.PRCreated:
		return "Its pull request exists already; close that instead."
	case info.State == run.Cancelling && info.Cancel != nil:
		return fmt.Sprintf("It is being cancelled already: %s asked first.", info.Cancel.By.Name)
	case info.State == run.Cancelling:
		return "It is being cancelled already."
	}
	return ""
}

// postRunsCancel cancels runs one by one, each as its own page would: one that cannot be cancelled holds back no other, and the
// same request again finds the answers of the first.
func (s *server) postRunsCancel(w http.ResponseWriter, r *http.Request) error {
	values, in, err := s.formRequest(r, act{})
	if err != nil {
		return err
	}
	ids, err := runIDs(values["run"])
	if err != nil {
		return err
	}
	before, err := s.store.RunsByID(r.Context(), who(r).tenant, ids)
	if err != nil {
		return err
	}
	if problem := refuseBulk(who(r), before, ids, values); problem != "" {
		data := s.bulkCancel(r, before)
		data.Reason, data.Error = values.Get("reason"), problem
		return s.render(w, r, http.StatusUnprocessableEntity, web.BulkCancelPage(data))
	}
	outcome := map[uuid.UUID]string{}
	for _, info := range before {
		outcome[info.ID] = s.cancelOne(r, info, in.Key, values.Get("reason"))
	}
	return s.bulkResult(w, r, ids, outcome)
}

// refuseBulk checks what the person has to say before anything is done.
func refuseBulk(p *principal, list []db.RunInfo, ids []uuid.UUID, values url.Values) string {
	if len(ids) == 0 {
		return "No run was selected."
	}
	if len(ids) > cancelTyped && strings.TrimSpace(values.Get("count")) != strconv.Itoa(len(ids)) {
		return fmt.Sprintf("Type the number of runs, %d, to confirm.", len(ids))
	}
	others := slices.ContainsFunc(list, func(info db.RunInfo) bool { return info.RequestedBy != p.user })
	if others && strings.TrimSpace(values.Get("reason")) == "" {
		return "Say why, because somebody else asked for some of these runs."
	}
	return ""
}

// cancelOne cancels one run of a bulk request; it returns why it was skipped, "" where it was cancelled now or by this very request
// before.
func (s *server) cancelOne(r *http.Request, info db.RunInfo, key, reason string) string {
	why := cannotCancel(info)
	ref := db.Ref{Tenant: who(r).tenant, Run: info.ID}
	in, err := cancelIntent(r, info.ID, key, reason, url.Values{"reason": {reason}})
	if err == nil && why == "" {
		_, err = s.store.Apply(r.Context(), ref, in)
	} else if err == nil {
		var again bool
		if again, err = s.store.Answered(r.Context(), ref, in); again {
			return ""
		}
	}
	if err != nil {
		s.note(r, err)
		return fault.Sentence(err)
	}
	return why
}

// bulkResult shows each run as it is now, with what became of the request.
func (s *server) bulkResult(w http.ResponseWriter, r *http.Request, ids []uuid.UUID, outcome map[uuid.UUID]string) error {
	after, err := s.store.RunsByID(r.Context(), who(r).tenant, ids)
	if err != nil {
		return err
	}
	data := web.BulkCancelPageData{Shell: s.shell(r), Done: true, Most: cancelMost}
	for _, info := range after {
		row := web.BulkRun{RunRow: runRow(info), Why: outcome[info.ID]}
		switch {
		case row.Why != "":
			data.Skipped = append(data.Skipped, row)
			continue
		case info.State == run.Cancelling:
			row.Why = "Its worker is told to stop."
		default:
			row.Why = "It ended."
		}
		data.Runs = append(data.Runs, row)
	}
	for _, id := range ids {
		if _, found := outcome[id]; !found {
			data.Skipped = append(data.Skipped, web.BulkRun{RunRow: web.RunRow{ID: typeid.Format(typeid.Run, id)}, Why: "There is no such run here."})
		}
	}
	return s.render(w, r, http.StatusOK, web.BulkCancelPage(data))
}
