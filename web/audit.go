package web

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"signalbox/web/ui"
)

// AuditPageData is the audit log under its filters.
type AuditPageData struct {
	Shell
	Filter AuditFilter
	Rows   []AuditRow
	Pager  Pager
}

// AuditFilter is what the GET form holds.
type AuditFilter struct {
	Who, Action, Object string
	Actions, Results    []Option
	Since, Until        string // local to the zone, as a datetime-local field has it
	Zone                string
	Query               url.Values // the filters that are set, for views and export
	Set                 bool
}

// AuditRow is one row of the audit log.
type AuditRow struct {
	Number         int64
	At             time.Time
	Zone           *time.Location // of the page, beside UTC; nil for UTC alone
	Who, WhoID     string
	WhoKind        string
	Channel, Addr  string
	Request        string
	Action         string
	ObjectType     string
	ObjectID       string
	Result, Reason string
	Detail         string // JSON
	Hash           string // hex
}

// AuditRowPageData is one row with all that is stored of it.
type AuditRowPageData struct {
	Shell
	Row  AuditRow
	Fits bool // its hash fits it and the row before it
}

// local is the instant in the page's zone; empty where that is UTC.
func (r AuditRow) local() string {
	if r.Zone == nil || r.Zone == time.UTC || r.Zone.String() == "UTC" {
		return ""
	}
	return r.At.In(r.Zone).Format("2 Jan 2006, 15:04:05 -07:00 ") + r.Zone.String()
}

// who is a name, or what stands for one.
func (r AuditRow) who() string {
	switch {
	case r.Who != "":
		return r.Who
	case r.WhoID != "":
		return r.WhoID
	default:
		return ActionWords(r.WhoKind)
	}
}

// from says over what and from where the action came.
func (r AuditRow) from() string {
	var words []string
	if r.Channel != "" {
		words = append(words, map[string]string{"page": "in a browser", "api": "over the API"}[r.Channel])
		if words[0] == "" {
			words[0] = r.Channel
		}
	}
	if r.Addr != "" {
		words = append(words, "from "+r.Addr)
	}
	return strings.Join(words, " ")
}

// href is the page of the object that was acted on, empty where it has none.
func (r AuditRow) href() string {
	if r.ObjectID == "" {
		return ""
	}
	switch r.ObjectType {
	case "run":
		return RunURL(r.ObjectID)
	case "gate":
		return GateURL(r.ObjectID)
	case "task":
		return TaskURL(r.ObjectID)
	case "pull", "pull_request":
		return PullURL(r.ObjectID)
	default:
		return ""
	}
}

func (r AuditRow) number() string { return strconv.FormatInt(r.Number, 10) }

// tone of a result: what did not happen stands out.
func (r AuditRow) status() ui.Status {
	switch r.Result {
	case "refused", "failed", "rejected", "blocked":
		return ui.Of(ActionWords(r.Result), ui.ToneFailed)
	default:
		return ui.Of(ActionWords(r.Result), ui.ToneNeutral)
	}
}

// ActionWords writes a code such as gate.request_changes for people: "gate: request changes".
func ActionWords(code string) string {
	return strings.ReplaceAll(strings.ReplaceAll(code, ".", ": "), "_", " ")
}

// AuditOf is the audit log under one filter, such as object or who.
func AuditOf(name, value string) string { return AuditURL + "?" + url.Values{name: {value}}.Encode() }

// AuditRowURL is the page of one row.
func AuditRowURL(number int64) string { return sub(AuditURL, strconv.FormatInt(number, 10)) }

// auditViews are sets of filters that are asked for again and again.
func auditViews(f AuditFilter) []Option {
	all := []Option{{Label: "All", Value: AuditURL}}
	for _, v := range []struct{ label, action string }{
		{"Decisions", "gate.*"}, {"Forced and bypassed", "forced"}, {"Sign-ins and credentials", "access"}, {"Exports", "audit.export"},
	} {
		all = append(all, Option{Label: v.label, Value: AuditOf("action", v.action), Selected: f.Action == v.action && len(f.Query) == 1})
	}
	all[0].Selected = !f.Set
	return all
}

// members are the filters in a steady order, for hidden fields.
func (f AuditFilter) members() (all []Option) {
	for _, name := range []string{"who", "action", "object", "result", "since", "until", "zone"} {
		if v := f.Query.Get(name); v != "" {
			all = append(all, Option{Value: v, Label: name})
		}
	}
	return all
}

// named reports an action that stands for several, which the list of actions does not have.
func (f AuditFilter) named() bool {
	for _, o := range f.Actions {
		if o.Selected {
			return false
		}
	}
	return f.Action != ""
}

// name is what such an action is called.
func (f AuditFilter) name() string {
	for _, o := range auditViews(f) {
		if o.Value == AuditOf("action", f.Action) {
			return o.Label
		}
	}
	return ActionWords(f.Action)
}

// clip keeps a text from filling the table; its row's page has all of it.
func clip(text string) string {
	if r := []rune(text); len(r) > 160 {
		return string(r[:159]) + "…"
	}
	return text
}
