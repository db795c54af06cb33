package web

import "time"

// BecomeAdminPageData asks somebody who opened a one-time link whether they want to be an administrator.
type BecomeAdminPageData struct {
	Shell
	Expires        time.Time
	IdempotencyKey string
}
