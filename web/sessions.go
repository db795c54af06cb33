package web

import (
	"net/url"
	"time"
)

// SessionsPageData says where a person is signed in, and to an administrator who is.
type SessionsPageData struct {
	Shell
	Rows      []SessionRow
	OthersKey string        // ends all others
	People    []SignedInRow // administrators only
}

// SessionRow is one login of the person.
type SessionRow struct {
	ID                string
	Name              string // the browser in words, or the command line's own name
	CommandLine       bool
	Current           bool // the one that asks
	Since, Seen, Ends time.Time
	Key               string
}

// SignedInRow is somebody with live logins.
type SignedInRow struct {
	ID, Name, Email string
	Logins          int
	Seen            time.Time
	Self            bool
	Key             string
}

// LoginConfirmURL sends a person to prove again who they are, and back.
func LoginConfirmURL(returnTo string) string {
	return LoginURL + "/confirm?return_to=" + url.QueryEscape(returnTo)
}

// SessionEndURL takes the POST that ends one login.
func SessionEndURL(id string) string { return sub(SessionsURL, id, "end") }

// SessionsEndURL takes the POST that ends all other logins.
func SessionsEndURL() string { return sub(SessionsURL, "others", "end") }

// PersonEndURL takes the POST that ends all logins of somebody.
func PersonEndURL(id string) string { return sub(SessionsURL, "people", id, "end") }
