package handlers

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"signalbox/db"
	"signalbox/internal/evidence"
	"signalbox/internal/fault"
)

// exportedAudit is one row of the audit log as JSON; a CSV has the same columns in this order.
type exportedAudit struct {
	Number     int64           `json:"number"`
	At         time.Time       `json:"at"`
	ActorKind  string          `json:"actor_kind"`
	ActorID    string          `json:"actor_id"`
	ActorName  string          `json:"actor_name"`
	Channel    string          `json:"channel"`
	RemoteAddr string          `json:"remote_addr"`
	RequestID  string          `json:"request_id"`
	Action     string          `json:"action"`
	ObjectType string          `json:"object_type"`
	ObjectID   string          `json:"object_id"`
	Result     string          `json:"result"`
	Reason     string          `json:"reason"`
	Detail     json.RawMessage `json:"detail"`
	Hash       string          `json:"hash"`
}

var auditColumns = []string{"number", "at", "actor_kind", "actor_id", "actor_name", "channel", "remote_addr", "request_id", "action", "object_type", "object_id",
	"result", "reason", "detail", "hash"}

func exported(l db.AuditLine) exportedAudit {
	return exportedAudit{l.Seq, l.At.UTC(), string(l.By.Kind), wireActor(l.By).Id, l.By.Name, l.Channel, l.RemoteAddr, l.RequestID, l.Action, l.ObjectType,
		l.ObjectID, l.Result, l.Reason, l.Raw, evidence.Hex(l.Hash)}
}

// cells are the row for a CSV.
func (e exportedAudit) cells() []string {
	all := []string{strconv.FormatInt(e.Number, 10), e.At.Format(time.RFC3339Nano), e.ActorKind, e.ActorID, e.ActorName, e.Channel, e.RemoteAddr, e.RequestID, e.Action,
		e.ObjectType, e.ObjectID, e.Result, e.Reason, string(e.Detail), e.Hash}
	for i := range all {
		all[i] = harmless(all[i])
	}
	return all
}

// harmless keeps a spreadsheet from taking a text for a formula: what begins like one, also behind blanks and quotes, gets an
// apostrophe before it. Where semicolons separate the cells of a country, spreadsheets split this file at them, also within quotes, and
// at tabs and ends of lines: so what follows one of these begins anew.
func harmless(cell string) string {
	var out strings.Builder
	for rest := cell; ; {
		end := strings.IndexAny(rest, ";\t\r\n") + 1
		if end == 0 {
			end = len(rest)
		}
		if c, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, " \u00a0\"")); strings.ContainsRune("=+-@\t\r\n|%＝＋－＠", c) {
			out.WriteByte('\'')
		}
		out.WriteString(rest[:end])
		if rest = rest[end:]; rest == "" {
			return out.String()
		}
	}
}

// postAuditExport sends what the page's filters choose, all of it and in its order, as CSV or JSON lines, and is in the audit itself.
func (s *server) postAuditExport(w http.ResponseWriter, r *http.Request) error {
	values, err := form(r)
	if err != nil {
		return err
	}
	f, _, err := auditFilter(values)
	if err != nil {
		return err
	}
	format, kind := values.Get("format"), map[string]string{"csv": "text/csv; charset=utf-8; header=present", "jsonl": "application/jsonl; charset=utf-8"}
	if kind[format] == "" {
		return fault.New(fault.Invalid, "Nothing was exported: an export is csv or jsonl.").WithField("format")
	}
	a := auditOf(r, act{action: "audit.export", object: "audit", id: "audit"})
	a.Detail = map[string]any{"format": format, "filters": auditQuery(values).Encode()}
	out := &auditWriter{w: w, csv: csv.NewWriter(w), lines: format == "jsonl", begin: func() {
		w.Header().Set("Content-Type", kind[format])
		w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", "signalbox-audit-"+time.Now().UTC().Format("20060102T150405Z")+"."+format))
		w.Header().Set("Cache-Control", "private, no-store")
	}}
	if err = s.store.ExportAudit(r.Context(), f, *a, out.row); err == nil {
		err = out.end()
	}
	if err != nil && out.begun {
		s.note(r, err)
		// A part was sent: the connection is broken off, so that nobody takes it for the whole.
		panic(http.ErrAbortHandler)
	}
	return err
}

// auditWriter writes rows as they are read; nothing is sent before the export is recorded.
type auditWriter struct {
	w     io.Writer
	csv   *csv.Writer
	lines bool
	begin func()
	begun bool
}

func (o *auditWriter) start() error {
	if o.begun {
		return nil
	}
	o.begun = true
	o.begin()
	if o.lines {
		return nil
	}
	return o.csv.Write(auditColumns)
}

func (o *auditWriter) row(l db.AuditLine) error {
	if err := o.start(); err != nil {
		return err
	}
	if o.lines {
		return json.NewEncoder(o.w).Encode(exported(l))
	}
	return o.csv.Write(exported(l).cells())
}

func (o *auditWriter) end() error {
	if err := o.start(); err != nil {
		return err
	}
	o.csv.Flush()
	return o.csv.Error()
}
