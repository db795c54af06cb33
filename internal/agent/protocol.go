package agent

import (
	"encoding/json"
	"fmt"
	"time"
)

// maxEvents bounds how many events one invocation may emit; an agent that
// floods is cut off with one warning, its work is still looked at.
const maxEvents = 100_000

// maxRetryAfter bounds how long a provider may be said to want to be left alone, in
// seconds: an agent cannot park it for everybody for longer than a day.
const maxRetryAfter = 24 * 60 * 60

// maxAmount bounds one number of a usage line; the server stores no greater one.
const maxAmount = 1_000_000_000_000

// decoder turns protocol lines into events. All types are optional:
//
//	{"type":"started","session":"…","model":"…"}
//	{"type":"text","text":"…"}
//	{"type":"step","title":"…","status":"started|done|failed"}
//	{"type":"plan","plan":{files,verifiers,risks,stop_condition,forbidden_changes,steps}}
//	{"type":"tool_started","call_id":"…","name":"…","kind":"…","input":"…","parent":"…"}
//	{"type":"tool_finished","call_id":"…","status":"ok|failed|cancelled","output":"…","exit_code":0,"duration_ms":0}
//	{"type":"usage","input":0,"output":0,"cache_read":0,"cache_write":0,"cost_micros":0,"provider":"…","model":"…"}
//	{"type":"report","report":{…}}
//	{"type":"no_change","reason":"…"}
//	{"type":"result","summary":"…","reason":"max_turns|budget|refused|auth|quota|context_full","retry_after_seconds":0}
type decoder struct {
	sink     func(Event)
	out      Outcome
	session  string
	declared Reason
	started  bool
	open     map[string]bool
	emitted  int
}

type protocolLine struct {
	Type       string          `json:"type"`
	Session    string          `json:"session"`
	Model      string          `json:"model"`
	Text       string          `json:"text"`
	Title      string          `json:"title"`
	Status     string          `json:"status"`
	CallID     string          `json:"call_id"`
	Name       string          `json:"name"`
	Kind       string          `json:"kind"`
	Input      json.RawMessage `json:"input"`
	Output     json.RawMessage `json:"output"`
	Parent     string          `json:"parent"`
	ExitCode   *int            `json:"exit_code"`
	DurationMS int64           `json:"duration_ms"`
	CacheRead  int64           `json:"cache_read"`
	CacheWrite int64           `json:"cache_write"`
	Provider   string          `json:"provider"`
	CostMicros json.RawMessage `json:"cost_micros"`
	Plan       json.RawMessage `json:"plan"`
	Report     json.RawMessage `json:"report"`
	Reason     string          `json:"reason"`
	Summary    string          `json:"summary"`
	RetryAfter int64           `json:"retry_after_seconds"`
}

func newDecoder(sink func(Event)) *decoder {
	return &decoder{sink: sink, open: map[string]bool{}, out: Outcome{Events: map[string]int{}}}
}

func (d *decoder) emit(e Event) {
	d.emitted++
	switch {
	case d.emitted < maxEvents:
		d.sink(e)
	case d.emitted == maxEvents:
		d.out.Warnings++
		d.sink(Warning{Message: fmt.Sprintf("The agent sent more than %d events; the rest is not shown.", maxEvents)})
	}
}

func (d *decoder) warn(format string, args ...any) {
	d.out.Warnings++
	d.emit(Warning{Message: clean(fmt.Sprintf(format, args...), 1024)})
}

func (d *decoder) line(raw []byte, tooLong bool) {
	if tooLong {
		d.warn("A protocol line longer than %d bytes was dropped.", MaxProtocolLine)
		return
	}
	// Replaced before parsing: bytes that are no UTF-8 must not decide what a
	// string says in one reader and not in another.
	text := clean(string(raw), MaxProtocolLine)
	var l protocolLine
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		d.warn("A line on the report descriptor was not understood (%v): %s", err, clean(text, 200))
		return
	}
	if l.Type == "" {
		d.warn("A line on the report descriptor had no type: %s", clean(text, 200))
		return
	}
	d.out.Events[clean(l.Type, 64)]++
	if !d.started {
		d.started = true
		if l.Type != "started" {
			d.emit(Started{})
		}
	}
	d.handle(l)
}

func (d *decoder) handle(l protocolLine) {
	switch l.Type {
	case "started":
		d.session = clean(l.Session, 256)
		d.emit(Started{SessionRef: d.session, Model: clean(l.Model, 256)})
	case "text":
		d.emit(Text{Text: clean(l.Text, maxShown)})
	case "step":
		title := l.Title
		if title == "" {
			title = l.Text
		}
		if title == "" {
			d.warn("A step had no title.")
			return
		}
		d.emit(Step{Title: clean(title, 1024), Status: oneOf(l.Status, "", "started", "done", "failed")})
	case "plan":
		d.plan(l)
	case "tool_started":
		d.toolStarted(l)
	case "tool_finished":
		d.toolFinished(l)
	case "usage":
		d.usage(l)
	case "report":
		if len(l.Report) > maxShown {
			d.warn("A report of %d bytes was dropped; the limit is %d.", len(l.Report), maxShown)
			return
		}
		d.out.Report = l.Report
	case "no_change":
		d.out.NoChange = true
		d.out.Summary = clean(first(l.Reason, l.Summary), 4096)
	case "result":
		d.out.Summary = clean(l.Summary, 4096)
		switch r := Reason(l.Reason); r {
		case MaxTurns, Budget, Refused, Auth, Quota, ContextFull:
			d.declared = r
			if r == Quota {
				d.out.RetryAfter = time.Duration(max(0, min(l.RetryAfter, maxRetryAfter))) * time.Second
			}
		}
	}
}

func (d *decoder) plan(l protocolLine) {
	p, err := ParsePlan(l.Plan)
	if err != nil {
		d.warn("The agent's plan was not accepted: %v", err)
		return
	}
	d.out.Plan = &p
	d.emit(PlanProposed{Plan: p})
}

func (d *decoder) toolStarted(l protocolLine) {
	id := clean(l.CallID, 256)
	if id == "" {
		d.warn("A tool call without a call id was dropped.")
		return
	}
	if d.open[id] {
		d.warn("Tool call %s was started twice.", id)
		return
	}
	d.open[id] = true
	d.emit(ToolStarted{
		CallID: id, Name: clean(l.Name, 256), Parent: clean(l.Parent, 256), Input: shown(l.Input),
		Kind: oneOf(l.Kind, "other", "execute", "edit", "read", "search", "fetch", "think"),
	})
}

func (d *decoder) toolFinished(l protocolLine) {
	id := clean(l.CallID, 256)
	if !d.open[id] {
		d.warn("A result came for tool call %q, which is not open.", id)
		return
	}
	delete(d.open, id)
	d.emit(ToolFinished{
		CallID: id, Status: oneOf(l.Status, "ok", "failed", "cancelled"), Output: shown(l.Output),
		ExitCode: l.ExitCode, Duration: time.Duration(max(0, min(l.DurationMS, 1<<40))) * time.Millisecond,
	})
}

func (d *decoder) usage(l protocolLine) {
	var in, out, cost int64
	named := len(l.CostMicros) > 0
	if json.Unmarshal(l.Input, &in) != nil || json.Unmarshal(l.Output, &out) != nil || named && json.Unmarshal(l.CostMicros, &cost) != nil {
		d.warn("A usage line without whole numbers was dropped.")
		return
	}
	u := Usage{Input: in, Output: out, CacheRead: l.CacheRead, CacheWrite: l.CacheWrite, CostMicros: cost, HasCost: named,
		Provider: clean(l.Provider, 256), Model: clean(l.Model, 256)}
	for _, n := range []int64{u.Input, u.Output, u.CacheRead, u.CacheWrite, u.CostMicros} {
		if n < 0 || n > maxAmount {
			d.warn("A usage line with impossible amounts was dropped.")
			return
		}
	}
	t := &d.out.Usage
	t.Input += u.Input
	t.Output += u.Output
	t.CacheRead += u.CacheRead
	t.CacheWrite += u.CacheWrite
	t.CostMicros, t.HasCost = t.CostMicros+u.CostMicros, t.HasCost || u.HasCost
	if u.Model != "" {
		t.Provider, t.Model = u.Provider, u.Model
	}
	d.emit(u)
}

// finish closes calls that never ended, so that none stays open on the page.
func (d *decoder) finish() Outcome {
	for id := range d.open {
		d.emit(ToolFinished{CallID: id, Status: "cancelled"})
	}
	return d.out
}

func oneOf(got, fallback string, known ...string) string {
	for _, k := range known {
		if got == k {
			return got
		}
	}
	return fallback
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// shown renders an input or output for people: a JSON string as its text,
// anything else as compact JSON.
func shown(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return clean(s, maxShown)
	}
	return clean(string(raw), maxShown)
}
