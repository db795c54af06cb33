package handlers

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"signalbox/internal/fault"
)

// vitals are what a page was like for its reader, as the browser measured it (https://web.dev/articles/vitals), each with the most that
// is believed: it is a stranger's number, and one that is far out would spoil a sum. lcp is when the largest part of the first view was
// there, in seconds from the beginning of the navigation; inp the longest time from a key or click to the next frame, in seconds, 0
// where there was none above 40 ms; cls the worst five seconds of shifts that nobody asked for, without a unit. Browsers that do not
// measure one send 0 for it.
func vitals() map[string]float64 { return map[string]float64{"lcp": 600, "inp": 600, "cls": 100} }

// postVitals takes what a browser measured while somebody read a page. Of the address it keeps the pattern, and of the person nothing.
func (s *server) postVitals(w http.ResponseWriter, r *http.Request) error {
	values, err := form(r)
	if err != nil {
		return err
	}
	at := chi.NewRouteContext()
	if !s.pages.Match(at, http.MethodGet, values.Get("path")) {
		return fault.New(fault.Invalid, "Nothing was counted: there is no page at this address.").WithField("path")
	}
	told := map[string]float64{}
	for name, most := range vitals() {
		n, err := strconv.ParseFloat(values.Get(name), 64)
		if err != nil || !(n >= 0 && n <= most) { // not a number is neither
			return fault.New(fault.Invalid, fmt.Sprintf("Nothing was counted: %s is no number from 0 to %g.", name, most)).WithField(name)
		}
		told[name] = n
	}
	for name, n := range told {
		s.vitals(at.RoutePattern(), name, n)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
