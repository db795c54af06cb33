package handlers

import (
	"net/http"

	"signalbox/internal/fault"
	"signalbox/web"
)

// getKeys says what keys do.
func (s *server) getKeys(w http.ResponseWriter, r *http.Request) error {
	return s.render(w, r, http.StatusOK, web.KeysPage(web.KeysPageData{Shell: s.shell(r)}))
}

// getGallery shows every component, to those who work on them: outside of dev mode there is nothing at this address.
func (s *server) getGallery(w http.ResponseWriter, r *http.Request) error {
	if len(s.devPeople) == 0 {
		return fault.New(fault.NotFound, "There is nothing at this address.")
	}
	return s.render(w, r, http.StatusOK, web.GalleryPage(web.GalleryPageData{Shell: s.shell(r)}))
}

// getStates says how to read the states of a run.
func (s *server) getStates(w http.ResponseWriter, r *http.Request) error {
	return s.render(w, r, http.StatusOK, web.StatesPage(web.StatesPageData{Shell: s.shell(r)}))
}
