package handlers

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
	"signalbox/web/ui"
)

// forceAfter is how long a worker may leave a cancel unanswered before whoever may cancel is offered to stop it by force.
const forceAfter = 30 * time.Second

// cancelNow: a run that nobody works on, and that this person asked for, is cancelled without a question.
func cancelNow(p *principal, info db.RunInfo) bool {
	return (info.State == run.Created || info.State == run.Queued) && info.RequestedBy == p.user && p.has(policy.RoleRequester)
}

// getRunCancel asks before it cancels: what stays, what goes, what exists outside.
func (s *server) getRunCancel(w http.ResponseWriter, r *http.Request) error {
	info, err := s.runAsked(r)
	if err != nil {
		return err
	}
	data, _, err := s.cancelPage(r, info)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.CancelPage(data))
}

// cancelPage is the question about a run, with the open pull request that could be closed with it, if there is one.
func (s *server) cancelPage(r *http.Request, info db.RunInfo) (web.CancelPageData, *db.PullInfo, error) {
	data := web.CancelPageData{Shell: s.shell(r), Run: runRow(info), IdempotencyKey: db.NewSecret(), MustGiveReason: info.RequestedBy != who(r).user}
	pull, err := s.openPull(r, info)
	if err != nil {
		return data, nil, err
	}
	if pull != nil {
		ref := pullRef(*pull)
		data.FollowUp = &web.Link{Text: fmt.Sprintf("Look at pull request #%d, or close it", ref.Number), Href: ref.Href}
		data.External = append(data.External, fmt.Sprintf("Pull request #%d and its branch %s", ref.Number, ref.Branch))
		if pull.ForgeKind == "local" && s.forge != nil {
			data.Pull = &ref
		}
	} else if info.State == run.PRCreating && info.Branch != "" {
		data.External = append(data.External, "Branch "+info.Branch+", if it was pushed already")
	}
	rule, ok := run.CancelRuleOf(info.State)
	switch {
	case !ok:
		data.Refused = endedBefore(info, pull, data.Now)
	case info.State == run.PRCreated:
		data.Refused = "The pull request exists already, so the run is not cancelled. Close the pull request instead."
	case info.State == run.Cancelling:
		data.Refused = fmt.Sprintf("The run is already being cancelled: %s asked first, at %s. There is nothing more to do.", info.Cancel.By.Name, ui.Clock(info.Cancel.At))
	default:
		data.Stays, data.Goes = []string{rule.Stays}, []string{rule.Does + " " + rule.Goes}
		err = s.soFar(r, info, &data)
	}
	return data, pull, err
}

// openPull is the run's pull request where it is neither merged nor closed.
func (s *server) openPull(r *http.Request, info db.RunInfo) (*db.PullInfo, error) {
	pulls, err := s.store.Pulls(r.Context(), info.Tenant, db.PullFilter{Run: info.ID})
	if err != nil {
		return nil, err
	}
	for _, p := range pulls {
		if p.State != "MERGED" && p.State != "CLOSED" {
			return &p, nil
		}
	}
	return nil, nil
}

// endedBefore tells who asked too late how the run ended: information, since nobody did anything wrong.
func endedBefore(info db.RunInfo, pull *db.PullInfo, now time.Time) string {
	words := "The run had finished already: " + strings.ToLower(web.StateLabel(info.State)) + "."
	if info.FinishedAt != nil {
		words = fmt.Sprintf("The run finished %s earlier: %s.", ui.Dur(max(now.Sub(*info.FinishedAt), time.Second).Round(time.Second)), strings.ToLower(web.StateLabel(info.State)))
	}
	if pull != nil {
		words += fmt.Sprintf(" Pull request #%d is open.", pull.Number)
	}
	return words
}

// soFar says where the run is and what it took until now.
func (s *server) soFar(r *http.Request, info db.RunInfo, data *web.CancelPageData) error {
	data.Stage = web.StateLabel(info.State)
	if info.AttemptNo > 0 {
		data.Stage += fmt.Sprintf(", attempt %d of %d", info.AttemptNo, info.Limits.MaxAttempts)
	}
	active := info.Active
	if info.Lease != nil {
		active += max(data.Now.Sub(info.StateSince), 0)
	}
	if active > 0 {
		data.Spent = append(data.Spent, ui.Dur(max(active.Round(time.Second), time.Second))+" of work")
	}
	cost, err := s.store.RunCost(r.Context(), db.Ref{Tenant: info.Tenant, Run: info.ID})
	if words := costWords(cost, s.currency); words != "" {
		data.Spent = append(data.Spent, "cost "+words)
	}
	return err
}

// postRunCancel asks for the run to be cancelled. The page shows the request at once; it is confirmed by the worker.
func (s *server) postRunCancel(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Run)
	if err != nil {
		return err
	}
	values, in, err := s.formRequest(r, act{})
	if err != nil {
		return err
	}
	info, err := s.store.RunInfo(r.Context(), who(r).tenant, id)
	if err != nil {
		return err
	}
	data, pull, err := s.cancelPage(r, info)
	if err != nil {
		return err
	}
	data.Reason, data.ClosePull = values.Get("reason"), values.Get("pull") == "close"
	switch {
	case info.State == run.Cancelled:
		return see(w, r, web.RunURL(data.Run.ID)) // a second click, or somebody was faster: the ladder says who
	case info.State.Terminal():
		return s.render(w, r, http.StatusOK, web.CancelPage(data))
	case info.State == run.PRCreated:
		return s.render(w, r, http.StatusConflict, web.CancelPage(data))
	case data.MustGiveReason && data.Refused == "" && strings.TrimSpace(data.Reason) == "":
		data.Error = "Nothing was cancelled: say why, because somebody else asked for this run."
		return s.render(w, r, http.StatusUnprocessableEntity, web.CancelPage(data))
	}
	intent, err := cancelIntent(r, id, in.Key, data.Reason, values)
	if err != nil {
		return err
	}
	if values.Get("queued") == "1" && info.State != run.Cancelling {
		if info.State != run.Created && info.State != run.Queued {
			data.Error = "It is no longer in the queue. This is what a cancel does now."
			return s.render(w, r, http.StatusConflict, web.CancelPage(data))
		}
		intent.Seen = info.Version
	}
	if _, err := s.store.Apply(r.Context(), db.Ref{Tenant: info.Tenant, Run: id}, intent); err != nil {
		return s.cancelRaced(w, r, id, err)
	}
	return see(w, r, web.RunURL(data.Run.ID)+"?done="+s.cancelled(r, info, pull, data.ClosePull, in.Key, values))
}

// cancelRaced shows what became of a run that moved between the look at it and the request.
func (s *server) cancelRaced(w http.ResponseWriter, r *http.Request, id uuid.UUID, failed error) error {
	if fault.KindOf(failed) != fault.Conflict {
		return failed
	}
	s.note(r, failed)
	info, err := s.store.RunInfo(r.Context(), who(r).tenant, id)
	if err != nil {
		return err
	}
	data, _, err := s.cancelPage(r, info)
	if err != nil {
		return err
	}
	if info.State.Terminal() {
		return s.render(w, r, http.StatusOK, web.CancelPage(data))
	}
	data.Error = fault.Sentence(failed)
	return s.render(w, r, http.StatusConflict, web.CancelPage(data))
}

// cancelled closes the pull request where that was asked for, and names what the page is to say.
func (s *server) cancelled(r *http.Request, before db.RunInfo, pull *db.PullInfo, closeIt bool, key string, content any) string {
	if pull != nil && closeIt {
		in, err := s.request(r, key+"-close", content, act{action: "pull.close", object: "pull_request", id: typeid.Format(typeid.Pull, pull.ID)})
		if err == nil {
			err = s.closePull(r, in, pull.ID, true)
		}
		if err != nil {
			s.note(r, err)
			return "cancel-pull-kept"
		}
	}
	if before.State == run.Cancelling {
		return "cancel-asked-before"
	}
	return "cancel-asked"
}

// ladder is the cancellation that was asked for, as everybody sees it; nil where none was. waste is what the run took after the
// request, for administrators.
func (s *server) ladder(ctx context.Context, info db.RunInfo) (l *web.Ladder, waste string, err error) {
	c := info.Cancel
	if c == nil || info.State != run.Cancelling && info.State != run.Cancelled {
		return nil, "", nil
	}
	l = &web.Ladder{By: c.By.Name, Reason: c.Reason, Asked: c.At, Latest: s.store.CancelEnd(c.At), Forced: c.Forced, Cause: string(c.By.Kind), Code: string(info.EndCode())}
	if info.State == run.Cancelled && info.FinishedAt != nil {
		l.Ended, l.Alone = *info.FinishedAt, !info.FinishedAt.After(c.At)
	}
	steps, err := s.store.CancelSteps(ctx, info.Tenant, info.ID)
	if err != nil {
		return nil, "", err
	}
	l.Told, l.Stopping = steps.Told, steps.Stopping
	if l.Forced {
		e, ok, err := s.store.LastEvent(ctx, info.Tenant, info.ID, run.KindCancelConfirmed)
		if err != nil {
			return nil, "", err
		}
		if ok && e.By.Kind == run.Human {
			l.ForcedBy = e.By.Name
		}
	}
	if !l.Ended.IsZero() && !l.Alone {
		used, err := s.store.CancelWaste(ctx, db.Ref{Tenant: info.Tenant, Run: info.ID}, c.At)
		if err != nil {
			return nil, "", err
		}
		waste = fmt.Sprintf("It ended %s after the request; until then it used %d more tokens, at a cost of %s.", ui.Dur(l.Ended.Sub(c.At)), used.Tokens, s.currency.Of(used.CostMicros))
	}
	return l, waste, nil
}

// mayForce: an administrator at any time, who may cancel only where the worker has left the request unanswered for long.
func mayForce(p *principal, l web.Ladder, now time.Time) bool {
	return p.has(policy.RoleAdmin) || p.has(policy.RoleRequester) && l.Told.IsZero() && now.Sub(l.Asked) >= forceAfter
}

// getRunStop asks before a run that is being cancelled is ended without its worker.
func (s *server) getRunStop(w http.ResponseWriter, r *http.Request) error {
	_, data, err := s.stopPage(r)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.StopPage(data))
}

func (s *server) stopPage(r *http.Request) (db.RunInfo, web.StopPageData, error) {
	id, err := pathID(r, "id", typeid.Run)
	if err != nil {
		return db.RunInfo{}, web.StopPageData{}, err
	}
	info, err := s.store.RunInfo(r.Context(), who(r).tenant, id)
	if err != nil {
		return info, web.StopPageData{}, err
	}
	data := web.StopPageData{Shell: s.shell(r), Run: runRow(info), IdempotencyKey: db.NewSecret(), MustGiveReason: info.RequestedBy != who(r).user}
	look := runLook{info: info, now: data.Now}
	if look.ladder, look.waste, err = s.ladder(r.Context(), info); err != nil {
		return info, data, err
	}
	l := look.ladderFor(look.seenBy(who(r)))
	if l != nil {
		data.Ladder = *l
	}
	switch {
	case info.State.Terminal():
		data.Refused = fmt.Sprintf("The run has already ended: %s.", strings.ToLower(web.StateLabel(info.State)))
	case info.State != run.Cancelling:
		data.Refused = "Ask for a cancel first. Only a run whose worker does not stop by itself is stopped by force."
	case l != nil && !l.Told.IsZero() && !l.MayForce:
		data.Refused = "The worker was told and is stopping. Only an administrator may take the run from it before."
	case l != nil && !l.MayForce:
		data.Refused = fmt.Sprintf("The worker is given %.0f seconds to answer first; an administrator need not wait.", forceAfter.Seconds())
	}
	data.Ladder.MayForce = false // this page is the way
	return info, data, err
}

// postRunStop ends a run that is being cancelled without waiting for its worker.
func (s *server) postRunStop(w http.ResponseWriter, r *http.Request) error {
	info, data, err := s.stopPage(r)
	if err != nil {
		return err
	}
	values, in, err := s.formRequest(r, act{})
	if err != nil {
		return err
	}
	data.Reason = values.Get("reason")
	switch {
	case info.State == run.Cancelled:
		return see(w, r, web.RunURL(data.Run.ID)) // a second click, or the worker was faster
	case data.Refused != "":
		return s.render(w, r, http.StatusConflict, web.StopPage(data))
	case data.MustGiveReason && strings.TrimSpace(data.Reason) == "":
		data.Error = "Say why, because somebody else asked for this run."
		return s.render(w, r, http.StatusUnprocessableEntity, web.StopPage(data))
	}
	hash, err := requestHash(r, values)
	if err != nil {
		return err
	}
	_, err = s.store.ForceStop(r.Context(), db.Ref{Tenant: info.Tenant, Run: info.ID}, db.Intent{
		Key: in.Key, Hash: hash, By: who(r).actor(), Audit: auditOf(r, act{action: "run.force_stop", object: "run", id: data.Run.ID, reason: data.Reason}),
	})
	if fault.KindOf(err) == fault.Conflict {
		s.note(r, err)
		return see(w, r, web.RunURL(data.Run.ID)) // it ended meanwhile, and the page says how
	}
	if err != nil {
		return err
	}
	return see(w, r, web.RunURL(data.Run.ID)+"?done=force-stopped")
}
