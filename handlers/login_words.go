package handlers

import (
	"net/http"

	"signalbox/internal/fault"
)

// loginFailed is the page of a login that came to nothing: what did not happen, why, and the providers to try again with. Of
// what the provider sent it repeats nothing; that is in the log, under the request's id.
func (s *server) loginFailed(w http.ResponseWriter, r *http.Request, to string, err error) error {
	f, ok := fault.Find(err)
	if !ok || f.Kind == fault.Internal {
		return err
	}
	s.note(r, err)
	return s.loginPage(w, r, status(f.Kind), to, "", fault.Sentence(err))
}

// refusedWords says why a provider sent a person back without a code, by the names that OpenID Connect knows.
func refusedWords(code string) string {
	switch code {
	case "access_denied":
		return "the provider refused, or you cancelled there"
	case "login_required", "interaction_required", "account_selection_required", "consent_required":
		return "the provider needs you to sign in there first"
	case "temporarily_unavailable", "server_error":
		return "the provider cannot sign anybody in right now"
	case "invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope", "invalid_client":
		return "the provider does not accept how this server asks; an administrator has to look at its settings there"
	}
	return "the provider refused, without a reason that this server knows"
}

// codeWords says why a provider did not take the code that it had given itself.
func codeWords(code string) string {
	switch code {
	case "invalid_client", "unauthorized_client":
		return "the provider does not accept this server's client id or secret; an administrator has to look at them"
	case "invalid_grant":
		return "the provider says that its code was used before or is too old"
	}
	return "the provider refused the code that it had given"
}
