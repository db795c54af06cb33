package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"signalbox/internal/config"
	"signalbox/internal/egress"
	"signalbox/internal/wire"
)

// remote are the flags of every command that speaks the API.
type remote struct {
	JSON bool `help:"Print the answer as JSON."`
}

// logins is the file of kept logins: server address → token. Only its owner may read it.
type logins map[string]string

func loginFile(t terminal) (string, error) {
	if dir, ok := t.Env("XDG_CONFIG_HOME"); ok && dir != "" {
		return filepath.Join(dir, "signalbox", "logins.json"), nil
	}
	home, ok := t.Env("HOME")
	if !ok || home == "" {
		return "", errors.New("neither XDG_CONFIG_HOME nor HOME is set, so there is no place to keep a login; set SIGNALBOX_TOKEN instead")
	}
	return filepath.Join(home, ".config", "signalbox", "logins.json"), nil
}

func readLogins(path string) (logins, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return logins{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kept login: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others, so it is not used; run chmod 600 %s", path, path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the kept login: %w", err)
	}
	kept := logins{}
	if err := json.Unmarshal(raw, &kept); err != nil {
		return nil, fmt.Errorf("%s is damaged; remove it and sign in again: %w", path, err)
	}
	return kept, nil
}

// writeLogins replaces the file as a whole, so that an interrupted command leaves the old one.
func writeLogins(path string, kept logins) error {
	raw, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep the login: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".logins-*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("keep the login: %w", err)
	}
	_, err = f.Write(append(raw, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keep the login: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// dial makes the API client with SIGNALBOX_TOKEN or the kept login.
func dial(t terminal) (*wire.ClientWithResponses, string, error) {
	c, err := config.LoadClient(t.Env)
	if err != nil {
		return nil, "", err
	}
	token := c.Token.Reveal()
	if token == "" {
		path, err := loginFile(t)
		if err != nil {
			return nil, "", err
		}
		kept, err := readLogins(path)
		if err != nil {
			return nil, "", err
		}
		token = kept[server(c.ServerURL)]
	}
	if token == "" {
		return nil, "", fmt.Errorf("you are not signed in at %s; run signalbox login, or set SIGNALBOX_TOKEN", c.ServerURL)
	}
	client, err := connect(c.ServerURL, token)
	return client, server(c.ServerURL), err
}

func server(raw string) string { return strings.TrimSuffix(raw, "/") }

func connect(address, token string) (*wire.ClientWithResponses, error) {
	auth := func(_ context.Context, r *http.Request) error {
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		r.Header.Set("User-Agent", "signalbox/"+version())
		return nil
	}
	// A redirect would carry the token elsewhere.
	h, err := egress.Origin{Purpose: "server", URL: address, Timeout: 60 * time.Second, Proxied: true}.Client()
	if err != nil {
		return nil, err
	}
	return wire.NewClientWithResponses(server(address)+"/api/v1", wire.WithHTTPClient(h), wire.WithRequestEditorFn(auth))
}

// refused turns a problem answer into the error that a person reads. got is nil where the answer was not the one
// that the command needs.
func refused(status string, problem *wire.Problem) error {
	if problem == nil {
		return fmt.Errorf("the server answered %s, which this command does not understand; is the address right?", status)
	}
	words := problem.Detail
	if words == "" {
		words = problem.Title
	}
	if len(problem.Errors) > 1 {
		for _, e := range problem.Errors {
			words += fmt.Sprintf("\n  %s: %s", e.Field, e.Message)
		}
	}
	if problem.Status >= 500 && problem.Instance != "" {
		words += " (request " + problem.Instance + ")"
	}
	return errors.New(safe(words))
}

// key is a fresh idempotency key: one per command, the same for its own retries.
func key() string { return rand.Text() }

// show prints v as JSON, or calls text.
func (f remote) show(out io.Writer, v any, text func(w io.Writer)) error {
	if f.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	text(w)
	return w.Flush()
}

// safe makes text from the server harmless for a terminal: control characters would move the cursor or worse.
func safe(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' {
			return c
		}
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) {
			return '\uFFFD'
		}
		return c
	}, s)
}

func line(w io.Writer, cells ...string) {
	for i, c := range cells {
		cells[i] = strings.NewReplacer("\n", " ", "\t", " ").Replace(safe(c))
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

func when(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format("2006-01-02 15:04:05 MST")
}

// argument reads a text argument; "-" reads standard input.
func argument(t terminal, value string) (string, error) {
	if value != "-" {
		return value, nil
	}
	raw, err := io.ReadAll(io.LimitReader(t.In, 1<<20))
	return strings.TrimRight(string(raw), "\n"), err
}
