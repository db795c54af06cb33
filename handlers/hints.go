package handlers

import (
	"net/http"
	"slices"

	"signalbox/db"
	"signalbox/internal/policy"
	"signalbox/web"
)

// hints are those of the wanted ones that the one who asks still needs and may act on.
func (s *server) hints(r *http.Request, wanted ...db.Hint) ([]web.Hint, error) {
	p := who(r)
	may := map[db.Hint]bool{
		db.HintRepository: p.has(policy.RoleAdmin), db.HintWorker: p.has(policy.RoleAdmin), db.HintTask: p.has(policy.RoleRequester) || p.has(policy.RoleAdmin),
		db.HintGate: true, // the gate's page asks only where a decision may be made
	}
	wanted = slices.DeleteFunc(wanted, func(h db.Hint) bool { return !may[h] })
	if len(wanted) == 0 {
		return nil, nil
	}
	open, err := s.store.FirstSteps(r.Context(), p.tenant, p.user)
	if err != nil {
		return nil, err
	}
	var out []web.Hint
	for _, h := range open {
		if slices.Contains(wanted, h) {
			out = append(out, web.Hint{Name: string(h), Server: s.publicURL.String()})
		}
	}
	return out, nil
}

// postHintDismiss puts a hint away for the one who asks, and returns to the page.
func (s *server) postHintDismiss(w http.ResponseWriter, r *http.Request) error {
	values, err := form(r)
	if err != nil {
		return err
	}
	if err := s.store.DismissHint(r.Context(), who(r).tenant, who(r).user, db.Hint(values.Get("hint"))); err != nil {
		return err
	}
	return see(w, r, returnPath(values.Get("return_to")))
}
