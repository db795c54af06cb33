package handlers

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
	"signalbox/web/ui"
)

// maxLogs is how many logs of a run are listed.
const maxLogs = 300

// logGrace is how long after its end a step's output may still be on its way: a worker reports both together, the end first.
const logGrace = 10 * time.Second

// openedLog is one log of a run, as an address names it.
type openedLog struct {
	run  db.RunInfo
	log  db.LogInfo
	step *db.StepInfo // nil: what a phase printed
}

// openLog reads which log an address names and where it stands.
func (s *server) openLog(r *http.Request) (o openedLog, err error) {
	id, err := pathID(r, "id", typeid.Run)
	if err != nil {
		return o, err
	}
	ctx, tenant := r.Context(), who(r).tenant
	if o.run, err = s.store.RunInfo(ctx, tenant, id); err != nil {
		return o, err
	}
	key := db.LogKey{Tenant: tenant, Run: id}
	if chi.URLParam(r, "step") != "" {
		stepID, err := pathID(r, "step", typeid.Step)
		if err != nil {
			return o, err
		}
		step, err := s.store.Step(ctx, tenant, id, stepID)
		if err != nil {
			return o, err
		}
		o.step, key.Lease, key.Call = &step, step.Lease, step.Call
	} else if key.Lease, err = pathID(r, "lease", typeid.Lease); err != nil {
		return o, err
	}
	o.log, err = s.store.Log(ctx, key)
	return o, err
}

// live says whether more may be printed.
func (o openedLog) live(now time.Time) bool {
	if !o.log.Live {
		return false
	}
	return o.step == nil || o.step.FinishedAt == nil || now.Sub(*o.step.FinishedAt) < logGrace
}

func (o openedLog) runID() string { return typeid.Format(typeid.Run, o.run.ID) }

func (o openedLog) base() string {
	if o.step != nil {
		return web.StepURL(o.runID(), typeid.Format(typeid.Step, o.step.ID))
	}
	return web.LogURL(o.runID(), typeid.Format(typeid.Lease, o.log.Lease))
}

// phaseLog names what a phase printed.
func phaseLog(p run.Phase) string {
	switch p {
	case run.PhaseExecute:
		return "Execution log"
	case run.PhaseVerify:
		return "Verification log"
	case run.PhasePublish:
		return "Publishing log"
	}
	return "Log"
}

// logPage is the page without its lines.
func (s *server) logPage(r *http.Request, o openedLog) web.LogPageData {
	d := web.LogPageData{Shell: s.shell(r), RunID: o.runID(), Title: o.run.TaskTitle, Name: phaseLog(o.log.Phase), Attempt: o.log.Attempt}
	d.Log = web.LogView{
		Base: o.base(), Ends: o.log.Ends, Total: o.log.Lines(), Bytes: o.log.Bytes, Live: o.live(d.Now), Last: o.log.Last,
	}
	if o.step != nil {
		v := stepView(*o.step)
		d.Step, d.Name = &v, o.step.Name
		if o.log.Bytes == 0 {
			d.Elsewhere = &web.Link{Text: "Open the " + strings.ToLower(phaseLog(o.log.Phase)) + " of this attempt", Href: web.LogURL(d.RunID, typeid.Format(typeid.Lease, o.log.Lease))}
		}
	}
	return d
}

// logAsk is what part of a log was asked for, and how it is shown.
type logAsk struct {
	at, to, from int64 // lines; 0: not asked for
	all          bool
	query        string
	hit          int64
}

var lineRange = regexp.MustCompile(`^L?(\d{1,12})(?:-L?(\d{1,12}))?$`)

func readLogAsk(r *http.Request, v *web.LogView) (a logAsk, err error) {
	q := r.URL.Query()
	if raw := strings.ReplaceAll(q.Get("at"), " ", ""); raw != "" {
		m := lineRange.FindStringSubmatch(raw)
		if m == nil {
			return a, fault.New(fault.Invalid, "Nothing is shown: at must be a line's number, or two with a dash between them.").WithField("at")
		}
		a.at, _ = strconv.ParseInt(m[1], 10, 64)
		a.to, _ = strconv.ParseInt(cmp.Or(m[2], m[1]), 10, 64)
		a.at, a.to = max(min(a.at, a.to), 1), max(a.at, a.to, 1)
	}
	if a.from, err = queryInt(r, "from", 0, 0, 1<<40); err != nil {
		return a, err
	}
	if a.hit, err = queryInt(r, "hit", 1, 1, 1<<40); err != nil {
		return a, err
	}
	a.query = q.Get("q")
	if len(a.query) > 200 || !utf8.ValidString(a.query) || strings.ContainsAny(a.query, "\r\n\x00") {
		return a, fault.New(fault.Invalid, "Nothing was searched: a search is one line of at most 200 bytes.").WithField("q")
	}
	a.all = q.Get("all") == "1"
	return a, readLogStyle(r, v)
}

func readLogStyle(r *http.Request, v *web.LogView) error {
	q := r.URL.Query()
	v.Wrap, v.Times = q.Get("wrap") == "1", q.Get("t")
	if v.Times != "" && v.Times != web.LogTimesUTC && v.Times != web.LogTimesLocal {
		return noSuchFilter("t", v.Times, []string{web.LogTimesUTC, web.LogTimesLocal})
	}
	return nil
}

// getLog shows a window of one log: its end, the lines around those that were asked for, or what a search found.
func (s *server) getLog(w http.ResponseWriter, r *http.Request) error {
	o, err := s.openLog(r)
	if err != nil {
		return err
	}
	d := s.logPage(r, o)
	ask, err := readLogAsk(r, &d.Log)
	if err != nil {
		return err
	}
	if err := s.fillLog(r, o.log, ask, &d.Log); err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.LogPage(d))
}

// fillLog reads the lines that a page shows.
func (s *server) fillLog(r *http.Request, log db.LogInfo, ask logAsk, v *web.LogView) error {
	v.Query = ask.query
	if ask.query != "" && ask.at == 0 && ask.from == 0 {
		return s.listHits(r, log, ask, v)
	}
	if ask.at > v.Total && v.Total > 0 {
		v.Note = fmt.Sprintf("Line %d is not there: the log has %s so far. Its end is shown.", ask.at, ui.Count(int(v.Total), "line", "lines"))
		ask.at = 0
	}
	v.At, v.To = ask.at, min(ask.to, v.Total)
	if err := s.readWindow(r, log, ask, v); err != nil {
		return err
	}
	if ask.query != "" {
		return s.aroundHits(r, log, ask, v)
	}
	return nil
}

// getLogRaw is the whole log as it was stored. It is sent chunk by chunk and never held as a whole.
func (s *server) getLogRaw(w http.ResponseWriter, r *http.Request) error {
	o, err := s.openLog(r)
	if err != nil {
		return err
	}
	name := typeid.Format(typeid.Run, o.run.ID) + "-" + string(o.log.Phase) + "-" + strconv.Itoa(o.log.Attempt)
	if o.step != nil {
		name = typeid.Format(typeid.Step, o.step.ID)
	}
	h := w.Header()
	// It is text whatever it holds, and no browser may think otherwise.
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", `attachment; filename="`+name+`.log"`)
	h.Set("Cache-Control", "private, no-store")
	h.Set("Content-Length", strconv.FormatInt(o.log.Bytes, 10))
	left, after := o.log.Bytes, db.LogPlace{}
	for left > 0 {
		parts, err := s.store.LogParts(r.Context(), o.log.LogKey, after, rawRead)
		if err != nil || len(parts) == 0 {
			return err
		}
		for _, p := range parts {
			data := p.Data[:min(int64(len(p.Data)), left)]
			if _, err := w.Write(data); err != nil {
				return nil //nolint:nilerr // a client that went away is its own affair
			}
			left -= int64(len(data))
			after = db.LogPlace{Line: p.Ends, ID: p.ID}
		}
	}
	return nil
}

// rawRead is how many chunks of a download are in memory at once.
const rawRead = 16

// getLogs lists the logs of a run.
func (s *server) getLogs(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Run)
	if err != nil {
		return err
	}
	tenant := who(r).tenant
	info, err := s.store.RunInfo(r.Context(), tenant, id)
	if err != nil {
		return err
	}
	logs, err := s.store.LogList(r.Context(), tenant, id, maxLogs+1)
	if err != nil {
		return err
	}
	d := web.LogsPageData{Shell: s.shell(r), RunID: typeid.Format(typeid.Run, id), Title: info.TaskTitle, Live: !info.State.Terminal()}
	if d.More = len(logs) > maxLogs; d.More {
		logs = logs[1:]
	}
	for _, l := range logs {
		d.Logs = append(d.Logs, logEntry(d.RunID, l))
	}
	return s.render(w, r, http.StatusOK, web.LogsPage(d))
}

func logEntry(runID string, l db.LogInfo) web.LogEntry {
	e := web.LogEntry{
		Name: phaseLog(l.Phase), Href: web.LogURL(runID, typeid.Format(typeid.Lease, l.Lease)), Attempt: l.Attempt, Live: l.Live,
		Lines: l.Lines(), Bytes: l.Bytes, Began: l.Began, Last: l.Last,
	}
	if l.Step != uuid.Nil {
		e.Name, e.Href, e.Status = l.StepName, web.StepURL(runID, typeid.Format(typeid.Step, l.Step)), new(ui.StepStatus(string(l.StepState)))
	}
	return e
}
