package rig

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"github.com/PuerkitoBio/goquery"
)

// Browser is a browser without JavaScript: it keeps cookies, follows redirects and sends the forms that it finds. It is
// not dev mode's, so that a mistake there is not made twice.
type Browser struct {
	HTTP *http.Client
	base string
}

// NewBrowser is a fresh browser that visits the rig.
func (r *Rig) NewBrowser() *Browser {
	r.T.Helper()
	jar, err := cookiejar.New(nil)
	r.must(err, "open a browser")
	return &Browser{HTTP: &http.Client{Jar: jar, Timeout: time.Minute}, base: r.URL}
}

// Page is what a visit ended at.
type Page struct {
	URL    *url.URL
	Status int
	Header http.Header
	Body   string
	Doc    *goquery.Document
}

// Alert is what the page says about a failure, or the beginning of its main part.
func (p Page) Alert() string {
	found := p.Doc.Find("main [role=alert], .outcome, [role=alert]").FilterFunction(func(_ int, s *goquery.Selection) bool { return strings.TrimSpace(s.Text()) != "" }).First()
	if found.Length() == 0 {
		found = p.Doc.Find("main").First()
	}
	text := Words(found)
	return text[:min(len(text), 600)]
}

// Main is the text of the page's main part, white space folded.
func (p Page) Main() string { return Words(p.Doc.Find("main")) }

// Words is a selection's text with its white space folded.
func Words(s *goquery.Selection) string { return strings.Join(strings.Fields(s.Text()), " ") }

// Get visits an address, absolute or of the rig.
func (b *Browser) Get(ctx context.Context, address string) (Page, error) {
	if strings.HasPrefix(address, "/") {
		address = b.base + address
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Page{}, err
	}
	return b.do(req)
}

func (b *Browser) do(req *http.Request) (Page, error) {
	req.Header.Set("Accept", "text/html,application/xhtml+xml")
	req.Header.Set("Accept-Language", "en-GB")
	resp, err := b.HTTP.Do(req)
	if err != nil {
		return Page{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Page{}, fmt.Errorf("read %s: %w", req.URL, err)
	}
	doc, err := goquery.NewDocumentFromReader(strings.NewReader(string(body)))
	if err != nil {
		return Page{}, fmt.Errorf("read %s: %w", req.URL, err)
	}
	return Page{URL: resp.Request.URL, Status: resp.StatusCode, Header: resp.Header, Body: string(body), Doc: doc}, nil
}

// Form is a form as it stands on a page, with what a browser would send if nobody touched it.
type Form struct {
	Action *url.URL
	Values url.Values
}

// Form is the first form that posts to a path.
func (p Page) Form(path string) (Form, error) {
	return p.form(p.Doc.Find("form").FilterFunction(func(_ int, s *goquery.Selection) bool {
		u, err := p.URL.Parse(s.AttrOr("action", ""))
		return err == nil && u.Path == path && strings.EqualFold(s.AttrOr("method", "get"), "post")
	}), "to "+path)
}

// FormWith is the first form with a button of this name and value; the button is pressed.
func (p Page) FormWith(name, value string) (Form, error) {
	button := p.Doc.Find("form button").FilterFunction(func(_ int, s *goquery.Selection) bool {
		_, disabled := s.Attr("disabled")
		return s.AttrOr("name", "") == name && s.AttrOr("value", "") == value && s.AttrOr("type", "submit") == "submit" && !disabled
	}).First()
	f, err := p.form(button.Closest("form"), "with the button "+name+"="+value)
	if err == nil {
		f.Values.Set(name, value)
	}
	return f, err
}

func (p Page) form(s *goquery.Selection, which string) (Form, error) {
	if s.Length() == 0 {
		return Form{}, fmt.Errorf("%s (%d) has no form %s: %s", p.URL.Path, p.Status, which, p.Alert())
	}
	s = s.First()
	action, err := p.URL.Parse(s.AttrOr("action", ""))
	if err != nil {
		return Form{}, err
	}
	f := Form{Action: action, Values: url.Values{}}
	s.Find("input, textarea, select").Each(func(_ int, c *goquery.Selection) {
		name := c.AttrOr("name", "")
		if _, disabled := c.Attr("disabled"); disabled || name == "" {
			return
		}
		switch goquery.NodeName(c) {
		case "textarea":
			f.Values.Add(name, c.Text())
		case "select":
			chosen := c.Find("option[selected]")
			if chosen.Length() == 0 {
				chosen = c.Find("option").First()
			}
			chosen.Each(func(_ int, o *goquery.Selection) { f.Values.Add(name, o.AttrOr("value", o.Text())) })
		default:
			_, checked := c.Attr("checked")
			switch kind := strings.ToLower(c.AttrOr("type", "text")); {
			case kind == "submit" || kind == "button" || kind == "image" || kind == "reset":
			case (kind == "checkbox" || kind == "radio") && !checked:
			default:
				f.Values.Add(name, c.AttrOr("value", ""))
			}
		}
	})
	return f, nil
}

// Send posts a form and answers the page that follows; safe for concurrent use, unlike the methods that fail a test.
func (b *Browser) Send(ctx context.Context, f Form) (Page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.Action.String(), strings.NewReader(f.Values.Encode()))
	if err != nil {
		return Page{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", f.Action.Scheme+"://"+f.Action.Host)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	return b.do(req)
}

// SignIn goes from the login page through the provider's form and back, as one of its people.
func (b *Browser) SignIn(ctx context.Context, subject string) error {
	page, err := b.Get(ctx, "/login")
	if err != nil {
		return err
	}
	link, ok := page.Doc.Find(`a[href^="/login/"]`).Attr("href")
	if !ok {
		return fmt.Errorf("the login page (%d) offers no provider: %s", page.Status, page.Alert())
	}
	if page, err = b.Get(ctx, link); err != nil {
		return err
	}
	form, err := page.FormWith("person", subject)
	if err != nil {
		return err
	}
	if page, err = b.Send(ctx, form); err != nil {
		return err
	}
	if page.Status != http.StatusOK || !strings.HasPrefix(page.URL.String(), b.base+"/") {
		return fmt.Errorf("sign in as %s: ended at %s with %d: %s", subject, page.URL, page.Status, page.Alert())
	}
	return nil
}
