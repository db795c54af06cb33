// Package config reads the environment once into structs: every SIGNALBOX_* variable, its meaning, unit and default
// stand in one place, from which the page docs/configuration.md is printed.
//
// It owns names, parsing, validation and redaction. It refuses to read files other than those that a _FILE variable
// names, to keep anything global, and to know what a value is for.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"time"

	"signalbox/internal/money"
	"signalbox/internal/secret"
)

// Server is what `signalbox serve` and `signalbox migrate` read.
type Server struct {
	Addr      string `env:"SIGNALBOX_ADDR" default:"127.0.0.1:8080" doc:"Address to listen on, host:port."`
	PublicURL string `env:"SIGNALBOX_PUBLIC_URL" default:"http://127.0.0.1:8080" doc:"Address that people and workers use, without a path. Cookies are marked Secure unless it is a loopback http address."`

	Proxies           []netip.Prefix `env:"SIGNALBOX_TRUSTED_PROXIES" doc:"Networks of the reverse proxies in front of the server, separated by commas (10.0.0.0/8, 192.0.2.7/32): from them, and from nobody else, X-Forwarded-For is believed. Empty: clients connect themselves."`
	RequestsPerMinute int            `env:"SIGNALBOX_REQUESTS_PER_MINUTE" default:"3000" doc:"Requests a minute that a server takes from one person or API token; one that searches, exports or simulates counts as 25. Workers are not counted. 0: no bound."`
	LoginsPerMinute   int            `env:"SIGNALBOX_LOGINS_PER_MINUTE" default:"300" doc:"Steps of logins a minute that a server takes from one network address (an IPv6 network of /64), and as many refused tokens. 0: no bound."`

	MetricsAddr string `env:"SIGNALBOX_METRICS_ADDR" doc:"Second address to listen on, host:port, for /metrics, /healthz and /readyz; empty for none. Keep it where only your monitoring reaches it."`

	DatabaseURL      Secret `env:"SIGNALBOX_DATABASE_URL" required:"serve" doc:"Postgres address of the role signalbox_engine."`
	DatabaseAppURL   Secret `env:"SIGNALBOX_DATABASE_APP_URL" required:"serve" doc:"Postgres address of the role signalbox_app, as which pages and API read: it sees one tenant at a time."`
	DatabaseOwnerURL Secret `env:"SIGNALBOX_DATABASE_OWNER_URL" required:"migrate" doc:"Postgres address of the role signalbox_owner; only migrations use it."`

	ArtifactURL   string   `env:"SIGNALBOX_ARTIFACT_URL" required:"serve" doc:"Where artifacts are kept: file:///folder, s3://bucket, gs://bucket or azblob://container."`
	LocalForge    string   `env:"SIGNALBOX_LOCAL_FORGE" doc:"Folder of the bare repositories of the local forge; empty for none."`
	SessionKey    Secret   `env:"SIGNALBOX_SESSION_KEY" required:"serve" doc:"Key that authenticates cookies, at least 32 characters; changing it signs everybody out, but for those whose key stands in SIGNALBOX_SESSION_KEY_OLD."`
	SessionKeyOld Secret   `env:"SIGNALBOX_SESSION_KEY_OLD" doc:"The key before the last change: logins made under it go on. No login lives longer than 12 hours, so take it out after that."`
	ProviderName  string   `env:"SIGNALBOX_OIDC_NAME" default:"Single sign-on" doc:"Name of the first OpenID provider on the login page."`
	Issuer        string   `env:"SIGNALBOX_OIDC_ISSUER" doc:"Issuer address of the first OpenID provider, exactly as the provider spells it (a trailing slash counts)."`
	ClientID      string   `env:"SIGNALBOX_OIDC_CLIENT_ID" doc:"Client id at that provider."`
	ClientSecret  Secret   `env:"SIGNALBOX_OIDC_CLIENT_SECRET" doc:"Client secret at that provider; empty for a public client."`
	GroupsClaim   string   `env:"SIGNALBOX_OIDC_GROUPS_CLAIM" default:"groups" doc:"Claim that carries a person's groups."`
	GroupRoles    []string `env:"SIGNALBOX_OIDC_ROLES" default:"viewer=signalbox-viewers,requester=signalbox-requesters,approver=signalbox-approvers,admin=signalbox-admins" doc:"Roles of that provider's groups, role=group, separated by commas; a role may stand there several times. What no longer stands there gives nobody a role from their next sign-in on."`

	AdminSubject  string   `env:"SIGNALBOX_ADMIN_SUBJECT" doc:"Subject (sub) at that provider of a person who is an administrator whenever they sign in, whatever their groups are; empty for nobody."`
	SecretKeys    Secret   `env:"SIGNALBOX_SECRET_KEYS" doc:"Keys under which client secrets and ID tokens lie in the database, newest first, between blanks or line ends: each a name, a colon and the base64 of 32 random bytes, for example 2026:$(openssl rand -base64 32). The first seals, all of them open. Without one neither is stored."`
	ProviderAllow []string `env:"SIGNALBOX_OIDC_ALLOW" doc:"What OpenID providers may be reached at besides public addresses at the ports 80 and 443, separated by commas: a network or address with an optional port (10.1.0.0/16, 10.1.2.3:8443, 127.0.0.1:*), or a port of public addresses (:8443). Plain http goes only to what is named here."`

	AuditCheckpoints string   `env:"SIGNALBOX_AUDIT_CHECKPOINTS" doc:"Folder outside the database for signed ends of the audit log, one a minute where there is something new; empty for none. Keep it where whoever can write to the database cannot."`
	AuditKey         Secret   `env:"SIGNALBOX_AUDIT_KEY" doc:"Key that signs them: the base64 of 32 random bytes (openssl rand -base64 32)."`
	AuditOldKeys     []string `env:"SIGNALBOX_AUDIT_OLD_KEYS" doc:"Public keys, as signalbox audit key prints them, that signed before the key was changed; separated by commas. A checkpoint by a key that is neither of these nor SIGNALBOX_AUDIT_KEY is an alarm."`

	Currency money.Currency `env:"SIGNALBOX_CURRENCY" default:"USD" doc:"Currency that prices, costs and budgets are counted in, a code of ISO 4217. Amounts are shown with it and never converted: choose it before the first run."`

	LeaseTTL      time.Duration `env:"SIGNALBOX_LEASE_TTL" default:"30s" min:"1s" doc:"A worker that has not been heard of for this long has lost its lease."`
	ReaperTick    time.Duration `env:"SIGNALBOX_REAPER_TICK" default:"1s" min:"10ms" doc:"Pause between two looks for what has run out."`
	CancelGrace   time.Duration `env:"SIGNALBOX_CANCEL_GRACE" default:"10s" min:"0s" doc:"Time a worker has to stop by itself after a cancel before its lease is revoked."`
	BackoffScale  float64       `env:"SIGNALBOX_BACKOFF_SCALE" default:"1" min:"0" doc:"Factor on the pauses between attempts (30 s, 2 min, 10 min, 30 min); below 1 for trials only."`
	ShutdownGrace time.Duration `env:"SIGNALBOX_SHUTDOWN_GRACE" default:"10s" min:"0s" doc:"Time that requests in progress have to finish after a termination signal."`

	LogLevel  slog.Level `env:"SIGNALBOX_LOG_LEVEL" default:"INFO" doc:"DEBUG, INFO, WARN or ERROR."`
	LogFormat string     `env:"SIGNALBOX_LOG_FORMAT" default:"json" oneof:"json text" doc:"json, or text for a terminal."`
}

// Worker is what `signalbox-worker` reads; agent profiles and read-only caches are in the file that Config names.
type Worker struct {
	ServerURL  string        `env:"SIGNALBOX_SERVER_URL" default:"http://127.0.0.1:8080" doc:"Address of the server."`
	Name       string        `env:"SIGNALBOX_WORKER_NAME" doc:"Label of this worker on the pages; the machine's name where empty."`
	Credential Secret        `env:"SIGNALBOX_WORKER_CREDENTIAL" doc:"The worker's credential (sbw_…); it is the worker's identity. Empty: the one that an enrolment put into the worker's folder."`
	Enrolment  Secret        `env:"SIGNALBOX_WORKER_ENROLMENT" doc:"A one-time enrolment token (sbe_…), which the first start trades for a credential; later starts ignore it."`
	Config     string        `env:"SIGNALBOX_WORKER_CONFIG" default:"worker.yaml" doc:"File with agent profiles and read-only caches."`
	Dir        string        `env:"SIGNALBOX_WORKER_DIR" default:"/var/lib/signalbox-worker" doc:"Folder of mirrors, caches and workspaces."`
	Roles      []string      `env:"SIGNALBOX_WORKER_ROLES" default:"execute,verify,publish" each:"execute verify publish" doc:"Phases this worker takes, separated by commas."`
	Sandbox    string        `env:"SIGNALBOX_WORKER_SANDBOX" default:"bwrap" oneof:"bwrap process" doc:"Isolation: bwrap, or process, which is unsafe and says so on every page."`
	MaxRuns    int           `env:"SIGNALBOX_WORKER_MAX_RUNS" default:"2" min:"1" doc:"Leases held at once."`
	Heartbeat  time.Duration `env:"SIGNALBOX_WORKER_HEARTBEAT" default:"5s" min:"10ms" doc:"Pause between heartbeats; well below the server's lease time."`
	DrainGrace time.Duration `env:"SIGNALBOX_WORKER_DRAIN_GRACE" default:"30s" min:"0s" doc:"Time that leases have to finish after a termination signal; then they are handed back, which costs no attempt."`
	GitAllow   []string      `env:"SIGNALBOX_GIT_ALLOW" doc:"What git may reach besides public addresses at port 443, spelt as in SIGNALBOX_OIDC_ALLOW: name the networks of your forges here."`
	LogLevel   slog.Level    `env:"SIGNALBOX_LOG_LEVEL" default:"INFO" doc:"DEBUG, INFO, WARN or ERROR."`
	LogFormat  string        `env:"SIGNALBOX_LOG_FORMAT" default:"json" oneof:"json text" doc:"json, or text for a terminal."`
}

// Dev is what `signalbox dev` reads; everything else is decided for you there.
type Dev struct {
	Data string `env:"SIGNALBOX_DATA" doc:"Folder of everything that is kept; /var/lib/signalbox-dev for root, otherwise ~/.local/share/signalbox. It must be reachable by the users that Postgres and the sandboxes run as."`
	Addr string `env:"SIGNALBOX_ADDR" doc:"Address to listen on. Named here it must be free; left empty it is 127.0.0.1:8080, or the next free port, which is then remembered."`
}

// Client is what the commands that speak the JSON API read.
type Client struct {
	ServerURL string `env:"SIGNALBOX_SERVER_URL" default:"http://127.0.0.1:8080" doc:"Address of the server."`
	Token     Secret `env:"SIGNALBOX_TOKEN" doc:"API token (sbt_…); without it the login kept by signalbox login is used."`
}

// LoadServer reads the section for one command, serve or migrate; lookup is os.LookupEnv outside tests. The error
// names every variable that is missing or wrong, not only the first.
func LoadServer(command string, lookup func(string) (string, bool)) (Server, error) {
	var c Server
	err := load(&c, command, lookup)
	if command == "serve" {
		err = errors.Join(err, address("SIGNALBOX_ADDR", c.Addr), origin("SIGNALBOX_PUBLIC_URL", c.PublicURL))
		if c.MetricsAddr != "" {
			err = errors.Join(err, address("SIGNALBOX_METRICS_ADDR", c.MetricsAddr))
		}
		for name, key := range map[string]Secret{"SIGNALBOX_SESSION_KEY": c.SessionKey, "SIGNALBOX_SESSION_KEY_OLD": c.SessionKeyOld} {
			if n := len(key.Reveal()); n > 0 && n < 32 {
				err = errors.Join(err, fmt.Errorf("%s has %d characters, at least 32 are needed", name, n))
			}
		}
		if _, keyErr := secret.ParseRing(c.SecretKeys.Reveal()); keyErr != nil {
			err = errors.Join(err, fmt.Errorf("SIGNALBOX_SECRET_KEYS: %w", keyErr))
		}
		if c.ClientSecret.IsSet() && !c.SecretKeys.IsSet() {
			err = errors.Join(err, errors.New("SIGNALBOX_OIDC_CLIENT_SECRET would be stored in the database, and there is no key to store it under: set SIGNALBOX_SECRET_KEYS_FILE to a file with a line such as the output of echo \"first:$(openssl rand -base64 32)\""))
		}
		if (c.AuditCheckpoints == "") != (c.AuditKey.Reveal() == "") {
			err = errors.Join(err, errors.New("SIGNALBOX_AUDIT_CHECKPOINTS and SIGNALBOX_AUDIT_KEY need each other: set both or neither"))
		}
		if c.AdminSubject != "" && c.Issuer == "" {
			err = errors.Join(err, errors.New("SIGNALBOX_ADMIN_SUBJECT needs SIGNALBOX_OIDC_ISSUER: a subject means something only with its issuer"))
		}
		if (c.Issuer == "") != (c.ClientID == "") {
			err = errors.Join(err, errors.New("SIGNALBOX_OIDC_ISSUER and SIGNALBOX_OIDC_CLIENT_ID need each other: set both or neither"))
		}
	}
	return c, err
}

// LoadWorker reads the worker's section; see LoadServer.
func LoadWorker(lookup func(string) (string, bool)) (Worker, error) {
	var c Worker
	err := load(&c, "worker", lookup)
	return c, errors.Join(err, origin("SIGNALBOX_SERVER_URL", c.ServerURL))
}

// LoadDev reads the section of dev mode; see LoadServer.
func LoadDev(lookup func(string) (string, bool)) (Dev, error) {
	var c Dev
	err := load(&c, "dev", lookup)
	if c.Addr != "" {
		err = errors.Join(err, address("SIGNALBOX_ADDR", c.Addr))
	}
	return c, err
}

// LoadClient reads the section of the command line; see LoadServer.
func LoadClient(lookup func(string) (string, bool)) (Client, error) {
	var c Client
	err := load(&c, "client", lookup)
	return c, errors.Join(err, origin("SIGNALBOX_SERVER_URL", c.ServerURL))
}

func address(name, value string) error {
	if _, _, err := net.SplitHostPort(value); err != nil {
		return fmt.Errorf("%s is %q, want host:port, for example 127.0.0.1:8080", name, value)
	}
	return nil
}

// origin wants scheme and host alone: a path would silently be lost where addresses are built from it.
func origin(name, value string) error {
	u, err := url.Parse(value)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.User != nil {
		return fmt.Errorf("%s is %q, want an http or https address without a path, for example https://signalbox.example.org", name, value)
	}
	return nil
}
