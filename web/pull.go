package web

import "time"

// PullPageData is a pull request of the local forge.
type PullPageData struct {
	Shell
	ID             string
	Number         int
	Title          string
	Body           string
	State          string
	Repository     string
	Branch         string
	Base           string
	Head           string // commit
	MergedAs       string
	Author         string
	Created        time.Time
	MergedBy       string
	MergedAt       time.Time
	RunID          string
	TaskID         string
	Checks         []CheckView
	Diff           *DiffView
	MayMerge       bool
	MayClose       bool
	WhyNot         string
	Error          string // a refused merge
	IdempotencyKey string
}

// CheckView is one check of a pull request.
type CheckView struct {
	Name   string
	Passed bool
	Text   string
	Href   string
}
