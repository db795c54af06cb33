package devmode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Browser is a person's browser without JavaScript: it follows links, fills forms and keeps cookies. Dev mode submits
// its sample task with it and the self-test walks the whole journey, so both take the ways that people take (D-23).
type Browser struct {
	client *http.Client
	base   string
}

// NewBrowser visits the server at base, an address without a path.
func NewBrowser(base string) (*Browser, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, fmt.Errorf("open a browser: %w", err)
	}
	return &Browser{client: &http.Client{Jar: jar, Timeout: 30 * time.Second}, base: strings.TrimSuffix(base, "/")}, nil
}

// Page is what a visit ended at.
type Page struct {
	URL    *url.URL
	Status int
	Body   string
	doc    *html.Node
}

// Form is a form as it stands on a page; change Values before it is sent.
type Form struct {
	Action  *url.URL
	Method  string
	Values  url.Values
	Buttons []Button
}

// Button ends a form; a named one sends its value.
type Button struct{ Name, Value, Label string }

// maxPage bounds how much of a page is read.
const maxPage = 8 << 20

// Get visits an address, absolute or below the base.
func (b *Browser) Get(ctx context.Context, address string) (Page, error) {
	if !strings.Contains(address, "://") {
		address = b.base + address
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Page{}, fmt.Errorf("visit %s: %w", address, err)
	}
	return b.do(req)
}

// Send sends a form, ended by a button where one is given, and answers the page that follows.
func (b *Browser) Send(ctx context.Context, f Form, button Button) (Page, error) {
	values := url.Values{}
	for name, v := range f.Values {
		values[name] = v
	}
	if button.Name != "" {
		values.Add(button.Name, button.Value)
	}
	if f.Method != http.MethodPost {
		target := *f.Action
		target.RawQuery = values.Encode()
		return b.Get(ctx, target.String())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.Action.String(), strings.NewReader(values.Encode()))
	if err != nil {
		return Page{}, fmt.Errorf("send the form to %s: %w", f.Action, err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// As browsers do, so that the protection against forged requests is passed and not avoided.
	req.Header.Set("Origin", f.Action.Scheme+"://"+f.Action.Host)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(req)
}

func (b *Browser) do(req *http.Request) (Page, error) {
	req.Header.Set("Accept", "text/html")
	resp, err := b.client.Do(req)
	if err != nil {
		return Page{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err != nil {
		return Page{}, fmt.Errorf("read %s: %w", req.URL, err)
	}
	doc, err := html.Parse(strings.NewReader(string(body)))
	if err != nil {
		return Page{}, fmt.Errorf("read %s: %w", req.URL, err)
	}
	return Page{URL: resp.Request.URL, Status: resp.StatusCode, Body: string(body), doc: doc}, nil
}

// SignIn goes from the login page through the built-in provider and back, as one of its people.
func (b *Browser) SignIn(ctx context.Context, person string) error {
	page, err := b.Get(ctx, "/login")
	if err != nil {
		return fmt.Errorf("sign in as %s: %w", person, err)
	}
	link := page.Link("/login/")
	if link == "" {
		return fmt.Errorf("sign in as %s: the login page (%d) offers no provider", person, page.Status)
	}
	if page, err = b.Get(ctx, link); err != nil {
		return fmt.Errorf("sign in as %s: %w", person, err)
	}
	form, button, ok := page.FormWith("person", person)
	if !ok {
		return fmt.Errorf("sign in as %s: the provider's page (%d) has no such person", person, page.Status)
	}
	if page, err = b.Send(ctx, form, button); err != nil {
		return fmt.Errorf("sign in as %s: %w", person, err)
	}
	if page.Status != http.StatusOK || !strings.HasPrefix(page.URL.String(), b.base+"/") {
		return fmt.Errorf("sign in as %s: it ended at %s with %d: %s", person, page.URL, page.Status, page.Alert())
	}
	return nil
}

var errNoForm = errors.New("the form is not on the page")

// Submit finds on a page the form that posts to a path, sets fields and sends it.
func (b *Browser) Submit(ctx context.Context, page, action string, set url.Values, button Button) (Page, error) {
	p, err := b.Get(ctx, page)
	if err != nil {
		return Page{}, err
	}
	f, ok := p.Form(action)
	if !ok {
		return p, fmt.Errorf("%s (%d): %w", page, p.Status, errNoForm)
	}
	for name, v := range set {
		f.Values[name] = v
	}
	return b.Send(ctx, f, button)
}

// Link is the first link on the page whose path begins with prefix, "" where there is none.
func (p Page) Link(prefix string) string {
	for n := range p.doc.Descendants() {
		if n.DataAtom == atom.A {
			if u, err := p.URL.Parse(attr(n, "href")); err == nil && attr(n, "href") != "" && strings.HasPrefix(u.Path, prefix) {
				return u.String()
			}
		}
	}
	return ""
}

// LinkIn is the first link with such a path in the part that is labelled by an id (aria-labelledby).
func (p Page) LinkIn(label, prefix string) string {
	for n := range p.doc.Descendants() {
		if attr(n, "aria-labelledby") == label {
			return Page{URL: p.URL, doc: n}.Link(prefix)
		}
	}
	return ""
}

// Alert is the text of the first alert or of the main part, for messages.
func (p Page) Alert() string {
	var main string
	for n := range p.doc.Descendants() {
		if attr(n, "role") == "alert" {
			return text(n)
		}
		if n.DataAtom == atom.Main && main == "" {
			main = text(n)
		}
	}
	if len(main) > 400 {
		main = main[:400] + "…"
	}
	return main
}

// Form is the form that posts to a path.
func (p Page) Form(action string) (Form, bool) {
	return p.find(func(f Form) bool { return f.Method == http.MethodPost && f.Action.Path == action })
}

// FormWith is the form that has a button of this name and value, and the button.
func (p Page) FormWith(name, value string) (Form, Button, bool) {
	is := func(b Button) bool { return b.Name == name && b.Value == value }
	f, ok := p.find(func(f Form) bool { return slices.ContainsFunc(f.Buttons, is) })
	if !ok {
		return Form{}, Button{}, false
	}
	return f, f.Buttons[slices.IndexFunc(f.Buttons, is)], true
}

func (p Page) find(match func(Form) bool) (Form, bool) {
	for n := range p.doc.Descendants() {
		if n.DataAtom != atom.Form {
			continue
		}
		if f, err := p.read(n); err == nil && match(f) {
			return f, true
		}
	}
	return Form{}, false
}

// read takes a form with the values that a browser would send if nobody touched it.
func (p Page) read(form *html.Node) (Form, error) {
	action, err := p.URL.Parse(attr(form, "action"))
	if err != nil {
		return Form{}, err
	}
	f := Form{Action: action, Method: strings.ToUpper(attr(form, "method")), Values: url.Values{}}
	for n := range form.Descendants() {
		name := attr(n, "name")
		switch n.DataAtom {
		case atom.Input:
			kind := attr(n, "type")
			if name == "" || kind == "submit" || kind == "button" || (kind == "checkbox" || kind == "radio") && !has(n, "checked") {
				continue
			}
			f.Values.Add(name, attr(n, "value"))
		case atom.Textarea:
			f.Values.Add(name, text(n))
		case atom.Select:
			f.Values.Add(name, selected(n))
		case atom.Button:
			if kind := attr(n, "type"); kind == "" || kind == "submit" {
				f.Buttons = append(f.Buttons, Button{Name: name, Value: attr(n, "value"), Label: text(n)})
			}
		}
	}
	return f, nil
}

// Options are the values and labels of a select on the page.
func (p Page) Options(name string) map[string]string {
	all := map[string]string{}
	for n := range p.doc.Descendants() {
		if n.DataAtom == atom.Select && attr(n, "name") == name {
			for o := range n.Descendants() {
				if o.DataAtom == atom.Option {
					all[text(o)] = attr(o, "value")
				}
			}
		}
	}
	return all
}

func selected(sel *html.Node) string {
	value, first := "", true
	for n := range sel.Descendants() {
		if n.DataAtom == atom.Option && (first || has(n, "selected")) {
			value, first = attr(n, "value"), false
		}
	}
	return value
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.TrimSpace(b.String())
}
