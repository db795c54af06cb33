package handlers

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"signalbox/api"
)

// S3, S8: a route that does not say who may call it stops the server from starting, and so does an operation of the contract
// that no route serves, or one whose openness the contract and the route see differently.
func TestAnUndeclaredRouteStopsTheStart(t *testing.T) {
	t.Parallel()
	doc, err := api.Parse()
	if err != nil {
		t.Fatal(err)
	}
	fresh := func() *server {
		return &server{doc: doc, publicURL: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, log: slog.New(slog.DiscardHandler), routeByOperation: map[string]route{}}
	}
	works := func(http.ResponseWriter, *http.Request) error { return nil }
	if _, err := fresh().mount(fresh().routes()); err != nil {
		t.Fatalf("the declared routes: %v", err)
	}
	for words, spoil := range map[string]func([]route) []route{
		"does not say who may call it": func(all []route) []route {
			return append(all, route{method: http.MethodGet, pattern: "/new", handler: works})
		},
		"has no handler": func(all []route) []route {
			return append(all, route{method: http.MethodGet, pattern: "/new", access: access{anyone: true}})
		},
		"has no route": func(all []route) []route { return all[:len(all)-1] },
		"no such operation": func(all []route) []route {
			return append(all, route{operation: "stealRun", access: access{anyone: true}, handler: works})
		},
		"differ about needing a to": func(all []route) []route { all[len(all)-1].access = access{anyone: true}; return all },
	} {
		if _, err := fresh().mount(spoil(fresh().routes())); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: the server starts, or says %v", words, err)
		}
	}
}
