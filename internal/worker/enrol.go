package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"signalbox/internal/wire"
)

// credentialFile is where the credential of a worker that enrolled is kept, in the worker's folder.
const credentialFile = "credential"

// KeptCredential reads the credential that Enrol stored in the worker's folder; empty where there is none.
func KeptCredential(dir string) (string, error) {
	path := filepath.Join(dir, credentialFile)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read credential: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("the credential in %s is open to others (%v): only its owner may read it; chmod 0600 it, or revoke it and enrol again", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read credential: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Enrol trades a one-time token for this worker's own credential and keeps it in the worker's folder, readable for its owner
// alone. The file is made first, so that a folder that cannot be written costs no token. A credential that is there is never
// replaced.
func Enrol(ctx context.Context, server, dir, token string, doer *http.Client) (credential string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("worker's folder: %w", err)
	}
	path := filepath.Join(dir, credentialFile)
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("not enrolled: there is a credential in %s already; remove it first if this is to be another worker. The token was not used", path)
	}
	f, err := os.CreateTemp(dir, ".credential-*") // its mode is 0600
	if err != nil {
		return "", fmt.Errorf("not enrolled, the token was not used: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer f.Close()
	a, err := newAPI(server, "", doer)
	if err != nil {
		return "", err
	}
	res, err := (&wire.ClientWithResponses{ClientInterface: a.client}).EnrolWorkerWithResponse(ctx, wire.WorkerEnrol{Token: strings.TrimSpace(token)})
	if err != nil {
		return "", fmt.Errorf("not enrolled: %w", err)
	}
	if res.JSON201 == nil {
		if p := res.ApplicationproblemJSONDefault; p != nil {
			return "", fmt.Errorf("not enrolled: %s", p.Detail)
		}
		return "", fmt.Errorf("not enrolled: the server answered %s", res.Status())
	}
	_, err = f.WriteString(res.JSON201.Secret + "\n")
	// A link refuses to replace what somebody else put there meanwhile, which a rename would not.
	if err := errors.Join(err, f.Sync(), f.Close(), os.Link(f.Name(), path)); err != nil {
		return "", fmt.Errorf("enrolled, but the credential %s was not kept, so it is lost: revoke it and ask for another token: %w", res.JSON201.Id, err)
	}
	return res.JSON201.Secret, nil
}
