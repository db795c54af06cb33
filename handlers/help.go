package handlers

import (
	"net/http"

	"signalbox/web"
)

// getKeys says what keys do.
func (s *server) getKeys(w http.ResponseWriter, r *http.Request) error {
	return s.render(w, r, http.StatusOK, web.KeysPage(web.KeysPageData{Shell: s.shell(r)}))
}
