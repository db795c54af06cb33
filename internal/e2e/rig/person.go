package rig

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/PuerkitoBio/goquery"
)

// Person is somebody with a browser without JavaScript, signed in by code and PKCE.
type Person struct {
	Subject string
	Browser *Browser
	r       *Rig
}

// Person is rita, ana, ben, adam, ruth (who asks and approves) or one of the further approvers a1, a2, …, signed in once
// for each test.
func (r *Rig) Person(subject string) *Person {
	r.T.Helper()
	if p := r.people[subject]; p != nil {
		return p
	}
	p := r.SignIn(subject)
	r.people[subject] = p
	return p
}

// SignIn signs somebody in, in a browser of their own.
func (r *Rig) SignIn(subject string) *Person {
	r.T.Helper()
	b := r.NewBrowser()
	r.must(b.SignIn(r.T.Context(), subject), "sign in")
	return &Person{Subject: subject, Browser: b, r: r}
}

// Get visits a page that must be there.
func (p *Person) Get(address string) Page {
	p.r.T.Helper()
	page, err := p.Browser.Get(p.r.T.Context(), address)
	p.r.must(err, "visit "+address)
	if page.Status != http.StatusOK {
		p.r.T.Fatalf("%s as %s: answered %d: %s", address, p.Subject, page.Status, page.Alert())
	}
	return page
}

// Task is what a person asks for; every field is one of the form, empty ones keep what the form has.
type Task struct {
	Repository *Repository
	Title      string
	Goal       string
	Mode       string
	Risk       string
	BaseRef    string
	Scope      []string
	Exclude    []string
	PlanGate   bool
	AutoPR     bool
}

var runLink = regexp.MustCompile(`/runs/(run_[0-9a-z]+)`)

// Submit sends the form for a new task and returns the task and its run.
func (p *Person) Submit(k Task) (task, run string) {
	t := p.r.T
	t.Helper()
	page := p.Get("/tasks/new")
	form, err := page.Form("/tasks")
	p.r.must(err, "find the form")
	repository, ok := page.Doc.Find("select[name=repository] option").FilterFunction(func(_ int, o *goquery.Selection) bool { return Words(o) == k.Repository.Name }).Attr("value")
	if !ok {
		t.Fatalf("the form does not offer %s", k.Repository.Name)
	}
	set := form.Values
	set.Set("repository", repository)
	set.Set("title", k.Title)
	set.Set("goal", k.Goal)
	for name, value := range map[string]string{"mode": k.Mode, "risk": k.Risk, "base_ref": k.BaseRef, "scope": strings.Join(k.Scope, "\n"), "exclude": strings.Join(k.Exclude, "\n")} {
		if _, there := set[name]; value != "" && !there {
			t.Fatalf("the form has no field %s", name)
		}
		if value != "" {
			set.Set(name, value)
		}
	}
	if k.PlanGate {
		set.Set("plan_gate", "on")
	}
	if k.AutoPR {
		set.Set("auto_pr", "on")
	}
	page = p.Send(form)
	task, found := strings.CutPrefix(page.URL.Path, "/tasks/")
	link := runLink.FindStringSubmatch(page.Body)
	if page.Status != http.StatusOK || !found || link == nil {
		t.Fatalf("submit the task: ended at %s with %d: %s", page.URL, page.Status, page.Alert())
	}
	return task, link[1]
}

// Decide presses a button of the gate's form (approve, request_changes, reject) with a text. A page without that
// button fails the test; how the server answered is in the page.
func (p *Person) Decide(gate, verdict, text string) Page {
	t := p.r.T
	t.Helper()
	form := p.GateForm(gate, verdict)
	form.Values.Set("text", text)
	return p.Send(form)
}

// GateForm is the decision form of a gate as this person sees it now, with the button of a verdict pressed.
func (p *Person) GateForm(gate, verdict string) Form {
	p.r.T.Helper()
	form, err := p.Get("/gates/"+gate).FormWith("verdict", verdict)
	p.r.must(err, "read the gate's form as "+p.Subject)
	return form
}

// Send sends a form that was read before.
func (p *Person) Send(form Form) Page {
	p.r.T.Helper()
	page, err := p.Browser.Send(p.r.T.Context(), form)
	p.r.must(err, "send the form to "+form.Action.Path)
	return page
}

// Fill finds on a page the form to a path, sets fields and sends it.
func (p *Person) Fill(page, path string, set url.Values) Page {
	p.r.T.Helper()
	form, err := p.Get(page).Form(path)
	p.r.must(err, "find the form")
	for name, v := range set {
		form.Values[name] = v
	}
	return p.Send(form)
}

// Approve approves a gate and fails the test where that is not accepted.
func (p *Person) Approve(gate string) {
	p.r.T.Helper()
	p.accepted(p.Decide(gate, "approve", ""), "approve")
}

// RequestChanges sends an instruction back to the agent.
func (p *Person) RequestChanges(gate, instruction string) {
	p.r.T.Helper()
	p.accepted(p.Decide(gate, "request_changes", instruction), "request changes")
}

func (p *Person) accepted(page Page, what string) {
	p.r.T.Helper()
	if page.Status != http.StatusOK {
		p.r.T.Fatalf("%s as %s: answered %d: %s", what, p.Subject, page.Status, page.Alert())
	}
}

// Cancel asks for a run's cancellation by the form of the page that says what stays and what goes.
func (p *Person) Cancel(run, reason string) Page {
	p.r.T.Helper()
	return p.Fill("/runs/"+run+"/cancel", "/runs/"+run+"/cancel", url.Values{"reason": {reason}})
}
