package handlers_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"signalbox/handlers"
	"signalbox/web"
)

// The gallery of components is for those who work on them: an installation has nothing at its address.
func TestGalleryIsForDevModeAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := handlers.Options{Store: w.store, Hub: w.hub, PublicURL: "http://127.0.0.1:1", SessionKey: []byte(strings.Repeat("k", 32))}
	ask := func() *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		got(handlers.New(o))(t).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/dev/gallery", nil))
		return answer
	}
	if a := ask(); a.Code != http.StatusNotFound || strings.Contains(a.Body.String(), "Gallery") {
		t.Errorf("without dev mode: %d", a.Code)
	}
	o.DevPeople = []web.DevPerson{{Name: "Rita", Roles: "requester"}}
	if a := ask(); a.Code != http.StatusOK || !strings.Contains(a.Body.String(), "<h1>Gallery</h1>") {
		t.Errorf("in dev mode: %d", a.Code)
	}
}
