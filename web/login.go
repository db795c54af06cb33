package web

// LoginPageData is the login page. It says what happened and returns to the exact address.
type LoginPageData struct {
	Shell
	Happened  string // e.g. "Your session ended at 14:02 UTC."; empty on a first visit
	Failed    string // why the last attempt did not work; empty normally
	RequestID string // of the attempt that did not work
	ReturnTo  string
	Providers []LoginProvider
	DevPeople []DevPerson // dev mode: whom one can sign in as
}

// SignedOutPageData is the page between the logout here and that at the provider.
type SignedOutPageData struct {
	Shell
	Provider string // address that signs out there
}

// LoginProvider is one configured OpenID Connect provider.
type LoginProvider struct {
	ID   string
	Name string
}

// DevPerson is a sample person of the built-in provider.
type DevPerson struct {
	Name  string
	Roles string
}

// ErrorPageData is any page that tells what did not happen.
type ErrorPageData struct {
	Shell
	Status    int    // 400, 401, 403, 404, 409, 410, 413, 422, 429, 500, 503
	Sentence  string // from fault: what did not happen and why; empty uses the status' own sentence
	Missing   string // 403: the right that is missing
	GrantedBy string // 403: who grants it
	NoRole    string // 403: what somebody can do who has no right at all
	RequestID string
	RetryURL  string // a safe GET to repeat; empty: not offered
	Back      *Link
	Unsent    []Unsent // 401: what was written and is not stored anywhere; Back is then the way to sign in
}

func errorTitle(status int) string {
	switch status {
	case 400:
		return "This request could not be read"
	case 401:
		return "You are not signed in"
	case 403:
		return "You may not do this"
	case 404:
		return "There is nothing here"
	case 409:
		return "Something else happened first"
	case 410:
		return "This is over"
	case 413:
		return "That is too large"
	case 422:
		return "That could not be accepted"
	case 429:
		return "Too many requests"
	case 503:
		return "Signalbox is not available right now"
	default:
		return "Something went wrong on our side"
	}
}

// errorSentence says first what did not happen.
func errorSentence(d ErrorPageData) string {
	if d.Sentence != "" {
		return d.Sentence
	}
	switch d.Status {
	case 400:
		return "Nothing was changed. The address or the form was not complete."
	case 401:
		return "Nothing was changed. Sign in and try again."
	case 403:
		return "Nothing was changed. Your roles do not include this."
	case 404:
		return "Either it never existed, or you may not see it."
	case 409:
		return "Nothing was changed by you. Open the page again to see how things stand."
	case 410:
		return "Nothing was changed. What this was about has ended."
	case 413:
		return "Nothing was stored. Send less at once."
	case 422:
		return "Nothing was changed. Correct what is marked and send it again."
	case 429:
		return "Nothing was changed. Wait a moment and try again."
	case 503:
		return "Nothing was changed. It usually comes back within a minute."
	default:
		return "It is not certain that your request was carried out. Look at the page it was about before you repeat it."
	}
}
