package handlers

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/evidence"
	"signalbox/internal/fault"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// auditFilters are the members of the address that choose rows, in the order of the form.
var auditFilters = []string{"who", "action", "object", "result", "since", "until", "zone"}

// auditPresets are actions that are looked for together.
var auditPresets = map[string][]string{
	"forced": {"run.force_stop", "run.resume", "gate.bypass", "gate.bypass_review", "provider.resume", "login.break_glass"},
	"access": {"session.start", "session.end", "session.end_others", "session.end_all", "session.end_by_provider", "login.command_line", "token.create", "token.revoke", "worker_credential.create", "worker_credential.revoke",
		"admin.link", "admin.appoint", "admin.dismiss", "worker.enrol", "worker_enrolment.create", "worker_enrolment.revoke"},
}

// auditFilter reads the filters, which page, export and API share. zone is that of the times in the address and on the page.
func auditFilter(q url.Values) (f db.AuditFilter, zone *time.Location, err error) {
	name := q.Get("zone")
	if name == "" || name == "Local" {
		name = "UTC"
	}
	if zone, err = time.LoadLocation(name); err != nil {
		return f, nil, fault.Newf(fault.Invalid, "Nothing is shown: the filter zone has no %s. It takes the name of a time zone such as Europe/Zurich, or UTC.", shownValue(name)).WithField("zone")
	}
	f.Result = q.Get("result")
	who := strings.TrimSpace(q.Get("who"))
	switch id, parsed := actorIDOf(who); {
	case parsed:
		f.ActorID = id
	default:
		f.ActorName = who
	}
	switch action := q.Get("action"); {
	case auditPresets[action] != nil:
		f.Actions = auditPresets[action]
	case strings.HasSuffix(action, ".*"):
		f.Prefix = strings.TrimSuffix(action, "*")
	case action != "":
		f.Actions = []string{action}
	}
	// Ids have an underscore and digits, kinds of objects do not.
	if object := strings.TrimSpace(q.Get("object")); strings.ContainsAny(object, "0123456789") || strings.ContainsRune(object, ':') {
		f.ObjectID = object
	} else {
		f.ObjectType = object
	}
	if f.Since, err = auditTime(q, "since", zone); err != nil {
		return f, zone, err
	}
	f.Until, err = auditTime(q, "until", zone)
	return f, zone, err
}

// actorIDOf reads a person's or a worker's id as pages and API show it, or as it is stored.
func actorIDOf(text string) (string, bool) {
	for _, p := range []typeid.Prefix{typeid.User, typeid.Worker} {
		if id, err := typeid.Parse(p, text); err == nil {
			return id.String(), true
		}
	}
	if id, err := uuid.Parse(text); err == nil {
		return id.String(), true
	}
	return "", false
}

// auditTime reads an instant: with an offset of its own, or in the zone of the form.
func auditTime(q url.Values, name string, zone *time.Location) (*time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return nil, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return &at, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, zone); err == nil {
			return &at, nil
		}
	}
	return nil, fault.Newf(fault.Invalid, "Nothing is shown: the filter %s cannot read %s. It takes a time like 2026-11-30T14:00, or with an offset like 2026-11-30T14:00:00+01:00.", name, shownValue(text)).WithField(name)
}

// getAudit lists the audit log.
func (s *server) getAudit(w http.ResponseWriter, r *http.Request) error {
	q, tenant := r.URL.Query(), who(r).tenant
	f, zone, err := auditFilter(q)
	if err != nil {
		return err
	}
	if f.Before, err = queryInt(r, "before", 0, 0, 1<<62); err != nil {
		return err
	}
	f.Limit = pageSize + 1
	list, err := s.store.AuditLines(r.Context(), tenant, f)
	if err != nil {
		return err
	}
	next := ""
	if len(list) > pageSize {
		list = list[:pageSize]
		next = strconv.FormatInt(list[pageSize-1].Seq, 10)
	}
	data := web.AuditPageData{Shell: s.shell(r), Pager: pager(r, len(list), next)}
	if data.Filter, err = s.shownAuditFilter(r, q, f, zone); err != nil {
		return err
	}
	for _, l := range list {
		data.Rows = append(data.Rows, auditRow(l, zone))
	}
	data.Pager.Tally, err = tally(data.Filter.Set, func(all bool) (int, error) {
		if all {
			return s.store.CountAudit(r.Context(), tenant, db.AuditFilter{})
		}
		return s.store.CountAudit(r.Context(), tenant, f)
	})
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.AuditPage(data))
}

func (s *server) shownAuditFilter(r *http.Request, q url.Values, f db.AuditFilter, zone *time.Location) (web.AuditFilter, error) {
	shown := web.AuditFilter{Who: q.Get("who"), Object: q.Get("object"), Action: q.Get("action"), Zone: zone.String(), Since: localTime(f.Since, zone), Until: localTime(f.Until, zone)}
	actions, results, err := s.store.AuditWords(r.Context(), who(r).tenant)
	if err != nil {
		return shown, err
	}
	if shown.Action != "" && !slices.Contains(actions, shown.Action) && auditPresets[shown.Action] == nil {
		actions = append(actions, shown.Action)
	}
	for _, a := range actions {
		shown.Actions = append(shown.Actions, web.Option{Value: a, Label: web.ActionWords(a), Selected: a == shown.Action})
	}
	if f.Result != "" && !slices.Contains(results, f.Result) {
		results = append(results, f.Result)
	}
	for _, word := range results {
		shown.Results = append(shown.Results, web.Option{Value: word, Label: web.ActionWords(word), Selected: word == f.Result})
	}
	shown.Query = auditQuery(q)
	for _, name := range auditFilters {
		shown.Set = shown.Set || name != "zone" && shown.Query.Get(name) != ""
	}
	return shown, nil
}

// auditQuery are the members of the query that choose rows, without what is empty.
func auditQuery(q url.Values) url.Values {
	kept := url.Values{}
	for _, name := range auditFilters {
		if v := q.Get(name); v != "" {
			kept.Set(name, v)
		}
	}
	return kept
}

func localTime(at *time.Time, zone *time.Location) string {
	if at == nil {
		return ""
	}
	return at.In(zone).Format("2006-01-02T15:04:05")
}

func auditRow(l db.AuditLine, zone *time.Location) web.AuditRow {
	by := wireActor(l.By)
	return web.AuditRow{Number: l.Seq, At: l.At, Zone: zone, Who: by.Name, WhoID: by.Id, WhoKind: string(l.By.Kind), Channel: l.Channel, Addr: l.RemoteAddr, Request: l.RequestID,
		Action: l.Action, ObjectType: l.ObjectType, ObjectID: l.ObjectID, Result: l.Result, Reason: l.Reason, Detail: string(l.Raw), Hash: evidence.Hex(l.Hash)}
}

// getAuditRow shows one row of the audit log, which keeps its address for ever.
func (s *server) getAuditRow(w http.ResponseWriter, r *http.Request) error {
	n, err := strconv.ParseInt(chi.URLParam(r, "number"), 10, 64)
	if err != nil || n < 1 {
		return fault.New(fault.NotFound, "Nothing is shown: rows of the audit log are numbered from 1 on.")
	}
	_, zone, err := auditFilter(r.URL.Query())
	if err != nil {
		return err
	}
	line, fits, err := s.store.AuditAt(r.Context(), who(r).tenant, n)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.AuditRowPage(web.AuditRowPageData{Shell: s.shell(r), Row: auditRow(line, zone), Fits: fits}))
}
