package config_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/config"
	"signalbox/internal/money"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

func from(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

// complete is the least that serve needs.
func complete() map[string]string {
	return map[string]string{
		"SIGNALBOX_DATABASE_URL":     "postgres://engine:hunter2@db/signalbox",
		"SIGNALBOX_DATABASE_APP_URL": "postgres://app:hunter2@db/signalbox",
		"SIGNALBOX_ARTIFACT_URL":     "file:///var/lib/signalbox/artifacts",
		"SIGNALBOX_SESSION_KEY":      strings.Repeat("k", 32),
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := config.LoadServer("serve", from(complete()))
	if err != nil {
		t.Fatal(err)
	}
	if c.LeaseTTL != 30*time.Second || c.ReaperTick != time.Second || c.CancelGrace != 10*time.Second || c.BackoffScale != 1 {
		t.Errorf("times are %s, %s, %s and factor %v", c.LeaseTTL, c.ReaperTick, c.CancelGrace, c.BackoffScale)
	}
	if c.Currency != money.USD {
		t.Errorf("currency %s", c.Currency)
	}
	if c.Addr != "127.0.0.1:8080" || c.LogLevel != slog.LevelInfo {
		t.Errorf("address %s, level %s", c.Addr, c.LogLevel)
	}
	w, err := config.LoadWorker(from(map[string]string{"SIGNALBOX_WORKER_CREDENTIAL": "sbw_x"}))
	if err != nil {
		t.Fatal(err)
	}
	if w.Heartbeat != 5*time.Second || w.Sandbox != "bwrap" {
		t.Errorf("heartbeat %s, sandbox %s", w.Heartbeat, w.Sandbox)
	}
	if diff := cmp.Diff([]string{"execute", "verify", "publish"}, w.Roles); diff != "" {
		t.Error(diff)
	}
}

func TestEveryProblemNamesItsVariable(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		set  map[string]string
		want []string
	}{
		{"nothing set but one", map[string]string{"SIGNALBOX_DATABASE_URL": "", "SIGNALBOX_ARTIFACT_URL": "", "SIGNALBOX_SESSION_KEY": ""},
			[]string{"SIGNALBOX_DATABASE_URL is not set", "SIGNALBOX_ARTIFACT_URL is not set", "SIGNALBOX_SESSION_KEY is not set"}},
		{"bad time", map[string]string{"SIGNALBOX_LEASE_TTL": "30"}, []string{`SIGNALBOX_LEASE_TTL is "30": want a length of time`}},
		{"time below least", map[string]string{"SIGNALBOX_LEASE_TTL": "-5s"}, []string{`SIGNALBOX_LEASE_TTL is "-5s": want at least 1s`}},
		{"not a number", map[string]string{"SIGNALBOX_BACKOFF_SCALE": "NaN"}, []string{"SIGNALBOX_BACKOFF_SCALE"}},
		{"bad level", map[string]string{"SIGNALBOX_LOG_LEVEL": "loud"}, []string{"SIGNALBOX_LOG_LEVEL", "want DEBUG"}},
		{"bad choice", map[string]string{"SIGNALBOX_LOG_FORMAT": "xml"}, []string{"SIGNALBOX_LOG_FORMAT", "json, text"}},
		{"address", map[string]string{"SIGNALBOX_ADDR": "8080"}, []string{"SIGNALBOX_ADDR", "host:port"}},
		{"metrics address", map[string]string{"SIGNALBOX_METRICS_ADDR": "9090"}, []string{"SIGNALBOX_METRICS_ADDR", "host:port"}},
		{"proxies", map[string]string{"SIGNALBOX_TRUSTED_PROXIES": "10.0.0.1"}, []string{"SIGNALBOX_TRUSTED_PROXIES", "192.0.2.7/32"}},
		{"public address with a path", map[string]string{"SIGNALBOX_PUBLIC_URL": "https://a.example/x"}, []string{"SIGNALBOX_PUBLIC_URL"}},
		{"no currency", map[string]string{"SIGNALBOX_CURRENCY": "dollars"}, []string{`SIGNALBOX_CURRENCY is "dollars": want a currency code of ISO 4217`}},
		{"short key", map[string]string{"SIGNALBOX_SESSION_KEY": "short-key-value"}, []string{"SIGNALBOX_SESSION_KEY has 15 characters"}},
		{"short old key", map[string]string{"SIGNALBOX_SESSION_KEY_OLD": "short-key-value"}, []string{"SIGNALBOX_SESSION_KEY_OLD has 15 characters"}},
		{"checkpoints that nobody signs", map[string]string{"SIGNALBOX_AUDIT_CHECKPOINTS": "/x"}, []string{"SIGNALBOX_AUDIT_KEY"}},
		{"a subject without its issuer", map[string]string{"SIGNALBOX_ADMIN_SUBJECT": "ana"}, []string{"SIGNALBOX_OIDC_ISSUER"}},
		{"weak key for secrets", map[string]string{"SIGNALBOX_SECRET_KEYS": "one:hunter2hunter2"}, []string{"SIGNALBOX_SECRET_KEYS: key \"one\""}},
		{"client secret and no key", map[string]string{"SIGNALBOX_OIDC_CLIENT_SECRET": "hunter2hunter2"}, []string{"SIGNALBOX_OIDC_CLIENT_SECRET", "SIGNALBOX_SECRET_KEYS_FILE"}},
		{"half a provider", map[string]string{"SIGNALBOX_OIDC_ISSUER": "https://id.example"}, []string{"SIGNALBOX_OIDC_CLIENT_ID"}},
		{"secret twice", map[string]string{"SIGNALBOX_SESSION_KEY_FILE": "/nowhere"}, []string{"SIGNALBOX_SESSION_KEY and SIGNALBOX_SESSION_KEY_FILE are both set"}},
		{"missing secret file", map[string]string{"SIGNALBOX_SESSION_KEY": "", "SIGNALBOX_SESSION_KEY_FILE": "/nowhere/key"}, []string{"SIGNALBOX_SESSION_KEY_FILE", "/nowhere/key"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			env := complete()
			for k, v := range tc.set {
				env[k] = v
			}
			_, err := config.LoadServer("serve", from(env))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q:\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "short-key-value") {
				t.Errorf("the error shows a secret:\n%v", err)
			}
		})
	}
}

func TestMigrateNeedsOnlyTheOwner(t *testing.T) {
	t.Parallel()
	if _, err := config.LoadServer("migrate", from(map[string]string{"SIGNALBOX_DATABASE_OWNER_URL": "postgres://o@/db"})); err != nil {
		t.Error(err)
	}
	if _, err := config.LoadServer("migrate", from(nil)); err == nil {
		t.Error("accepted without an address")
	}
}

func TestSecretFromFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(path, []byte("sbw_abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadWorker(from(map[string]string{"SIGNALBOX_WORKER_CREDENTIAL_FILE": path}))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Credential.Reveal(); got != "sbw_abc" {
		t.Errorf("credential is %q", got)
	}
}

func TestNoWayOfPrintingShowsASecret(t *testing.T) {
	t.Parallel()
	c, err := config.LoadServer("serve", from(complete()))
	if err != nil {
		t.Fatal(err)
	}
	var printed, logged bytes.Buffer
	if err := config.Print(&printed, c); err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("start", "config", c, "url", c.DatabaseURL)
	slog.New(slog.NewTextHandler(&logged, nil)).Info("start", "config", c, "url", c.DatabaseURL)
	marshalled, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	all := printed.String() + logged.String() + string(marshalled) + fmt.Sprintf("%v %+v %#v %s", c, c, c, c.DatabaseURL)
	if strings.Contains(all, "hunter2") {
		t.Errorf("a secret is shown in:\n%s", all)
	}
	if !strings.Contains(printed.String(), "SIGNALBOX_DATABASE_URL=[redacted]\n") || !strings.Contains(printed.String(), "SIGNALBOX_LEASE_TTL=30s\n") {
		t.Errorf("printed:\n%s", printed.String())
	}
}

func TestUnknownNamesAreFound(t *testing.T) {
	t.Parallel()
	got := config.Unknown([]string{"SIGNALBOX_ADRR=x", "SIGNALBOX_ADDR=y", "SIGNALBOX_SESSION_KEY_FILE=z", "SIGNALBOX_ADDR_FILE=q", "HOME=/"})
	if diff := cmp.Diff([]string{"SIGNALBOX_ADDR_FILE", "SIGNALBOX_ADRR"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestConfigurationPage(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "configuration.md")
	if *update {
		if err := os.WriteFile(path, []byte(config.Page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Page(), string(have)); diff != "" {
		t.Errorf("docs/configuration.md is not current (make generate):\n%s", diff)
	}
}
