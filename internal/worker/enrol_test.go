package worker_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/wire"
	"signalbox/internal/worker"
)

// S11: a credential that somebody else put there while the server was asked is not replaced, and the one that was lost is named.
func TestEnrolReplacesNoCredential(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "credential")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := os.WriteFile(path, []byte("another's\n"), 0o600); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if err := json.NewEncoder(w).Encode(wire.MintedToken{Id: "wrk_1", Secret: "the second"}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	secret, err := worker.Enrol(t.Context(), server.URL, dir, "token", server.Client())
	if secret != "" || err == nil || !strings.Contains(err.Error(), "the credential wrk_1 was not kept") {
		t.Errorf("%q, %v", secret, err)
	}
	if kept, err := worker.KeptCredential(dir); err != nil || kept != "another's" {
		t.Errorf("the folder holds %q, %v", kept, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}
