package handlers

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
	"signalbox/web"
)

func (s *server) apiProviders(w http.ResponseWriter, r *http.Request) error {
	pauses, err := s.store.ProviderPauses(r.Context(), who(r).tenant)
	if err != nil {
		return err
	}
	list := wire.ProviderList{Paused: []wire.PausedProvider{}}
	for _, p := range pauses {
		shown := wire.PausedProvider{Provider: p.Provider, Since: p.Since, Until: p.Until, Failures: p.Failures, Probing: p.Probing, RunTitle: p.Title,
			RequestedBy: p.By, Reason: p.Reason}
		if p.Title != "" {
			shown.RunId = typeid.Format(typeid.Run, p.Run)
		}
		list.Paused = append(list.Paused, shown)
	}
	return s.answer(w, r, http.StatusOK, list)
}

func (s *server) apiResumeProvider(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	// What cannot be unescaped is no name either.
	provider, _ := url.PathUnescape(chi.URLParam(r, "provider"))
	if err := checkProvider(provider); err != nil {
		return err
	}
	in, err := s.request(r, key, "", act{action: "provider.resume", object: "provider", id: provider})
	if err != nil {
		return err
	}
	if err := s.store.ResumeProvider(r.Context(), in, provider); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// checkProvider refuses what policy accepts as the name of no provider, before anything repeats it.
func checkProvider(name string) error {
	if !queueName.MatchString(name) {
		return fault.New(fault.Invalid, "Nothing was changed: this is no name of a provider. A name has 1 to 64 letters, digits, dots, dashes or underscores.").WithField("provider")
	}
	return nil
}

// providerRows fills in the providers that are left alone.
func (s *server) providerRows(r *http.Request, data *web.WorkersPageData) error {
	p := who(r)
	pauses, err := s.store.ProviderPauses(r.Context(), p.tenant)
	if err != nil {
		return err
	}
	for _, x := range pauses {
		row := web.ProviderRow{Name: x.Provider, Since: x.Since, Until: x.Until, Failures: x.Failures, Due: x.Due, Probing: x.Probing, Title: x.Title, By: x.By, Reason: x.Reason}
		if x.Title != "" {
			row.RunID = typeid.Format(typeid.Run, x.Run)
		}
		if p.has(policy.RoleAdmin) && p.tenant == db.DefaultTenant {
			row.ResumeKey = db.NewSecret()
		}
		data.Providers = append(data.Providers, row)
	}
	return nil
}

func (s *server) postProviderResume(w http.ResponseWriter, r *http.Request) error {
	values, in, err := s.formRequest(r, act{action: "provider.resume", object: "provider"})
	if err != nil {
		return err
	}
	provider := strings.TrimSpace(values.Get("provider"))
	in.Audit.ObjectID = provider
	if err := checkProvider(provider); err != nil {
		return s.refusedOnPage(w, r, err, "", "")
	}
	if err := s.store.ResumeProvider(r.Context(), in, provider); err != nil {
		return s.refusedOnPage(w, r, err, "", "")
	}
	return see(w, r, web.WorkersURL+"?done=provider-resumed")
}
