package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/wire"
)

type loginCmd struct {
	NoBrowser bool          `help:"Print the address instead of opening it."`
	Timeout   time.Duration `help:"How long to wait for the browser." default:"5m"`
}

// Run opens a page on which a signed-in person confirms; the page sends a one-time code to a port of this machine.
// The code is worth nothing without the verifier, which never leaves this process.
func (c loginCmd) Run(ctx context.Context, t terminal) error {
	cfg, err := config.LoadClient(t.Env)
	if err != nil {
		return err
	}
	path, err := loginFile(t)
	if err != nil {
		return err
	}
	var l net.ListenConfig
	listener, err := l.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("no port to receive the answer of the browser: %w", err)
	}
	verifier, state := rand.Text()+rand.Text(), rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	page := server(cfg.ServerURL) + "/cli-login?" + url.Values{
		"port": {port}, "state": {state}, "challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "name": {host},
	}.Encode()
	fmt.Fprintf(t.Out, "Open this address and confirm:\n\n  %s\n\n", page)
	if !c.NoBrowser {
		openBrowser(ctx, page)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	code, err := awaitCode(ctx, listener, state)
	if err != nil {
		return err
	}
	client, err := connect(cfg.ServerURL, "")
	if err != nil {
		return err
	}
	res, err := client.ExchangeLoginWithResponse(ctx, wire.LoginExchange{Code: code, Verifier: verifier, Name: host})
	if err != nil {
		return fmt.Errorf("the server could not be reached, so you are not signed in: %w", err)
	}
	if res.JSON201 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	kept, err := readLogins(path)
	if err != nil {
		return err
	}
	kept[server(cfg.ServerURL)] = res.JSON201.Secret
	if err := writeLogins(path, kept); err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.Out, "Signed in at %s until %s. The login is kept in %s.\n", cfg.ServerURL, when(res.JSON201.ExpiresAt), path)
	return err
}

// awaitCode serves exactly one answer with the right state.
func awaitCode(ctx context.Context, listener net.Listener, state string) (string, error) {
	codes := make(chan string, 1)
	srv := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/callback" || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 || q.Get("code") == "" {
			http.Error(w, "This is not the answer that signalbox login waits for.", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "You are signed in on the command line. This window can be closed.\n")
		select {
		case codes <- q.Get("code"):
		default: // a second answer is not needed
		}
	})}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(listener) }()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = srv.Shutdown(ctx) // the answer was sent; a connection that stays open does not matter
	}()
	select {
	case code := <-codes:
		return code, nil
	case err := <-failed:
		return "", fmt.Errorf("the port for the answer of the browser failed: %w", err)
	case <-ctx.Done():
		return "", errors.New("nobody confirmed in the browser, so you are not signed in; run signalbox login again")
	}
}

// openBrowser is a convenience: the address is printed in any case, so its failure is no failure of the login.
func openBrowser(ctx context.Context, page string) {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	if path, err := exec.LookPath(name); err == nil {
		_ = exec.CommandContext(ctx, path, page).Start()
	}
}

type logoutCmd struct{}

// Run revokes the login at the server and forgets it here.
func (logoutCmd) Run(ctx context.Context, t terminal) error {
	client, address, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.LogoutWithResponse(ctx)
	if err != nil {
		return fmt.Errorf("the server could not be reached, so the login still works: %w", err)
	}
	if res.StatusCode() != http.StatusNoContent && res.StatusCode() != http.StatusUnauthorized {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	path, err := loginFile(t)
	if err != nil {
		return err
	}
	kept, err := readLogins(path)
	if err != nil {
		return err
	}
	delete(kept, address)
	if err := writeLogins(path, kept); err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.Out, "Signed out.")
	return err
}

type whoamiCmd struct{ remote }

func (c whoamiCmd) Run(ctx context.Context, t terminal) error {
	client, _, err := dial(t)
	if err != nil {
		return err
	}
	res, err := client.GetPrincipalWithResponse(ctx)
	if err != nil {
		return err
	}
	if res.JSON200 == nil {
		return refused(res.Status(), res.ApplicationproblemJSONDefault)
	}
	p := *res.JSON200
	return c.show(t.Out, p, func(w io.Writer) {
		line(w, "name", p.Name)
		line(w, "kind", string(p.Kind))
		line(w, "tenant", p.Tenant)
		line(w, "roles", strings.Trim(fmt.Sprint(p.Roles), "[]"))
	})
}
