package devmode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"signalbox/db"
	"signalbox/internal/config"
	"signalbox/internal/oidc"
	"signalbox/internal/pgserver"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/secret"
	"signalbox/internal/typeid"
	"signalbox/migrations"
)

const (
	providerName = "the sample people"
	clientID     = "signalbox-dev"
	stopGrace    = 15 * time.Second
)

// Options of a dev mode.
type Options struct {
	// Data is the folder of everything that is kept; "" is the default one.
	Data string
	// Addr is the address that was asked for; "" leaves the choice to dev mode.
	Addr string
	// Sandbox is the worker's isolation: bwrap, or process, which isolates nothing.
	Sandbox string
	// Fresh is for throw-away folders: commits need not outlive a power failure.
	Fresh bool
	// Out gets the words for the person at the terminal; everything else goes to a log in the data folder.
	Out io.Writer
}

// Dev is a dev mode whose surroundings stand: database, provider, repositories. The caller serves the product on
// Listener with Config, and then calls StartWorker and Sample.
type Dev struct {
	options  Options
	folder   *folder
	memory   memory
	listener net.Listener
	url      string
	postgres *pgserver.Server
	provider *http.Server
	store    *db.Store
	logFile  *os.File
	log      *slog.Logger
	config   config.Server
	worker   *supervisor
}

// Start brings the surroundings up. It is a *RunningError where this folder's dev mode runs already. What was started
// is stopped again where a later part fails.
func Start(ctx context.Context, o Options) (_ *Dev, err error) {
	if _, err := workerBinary(); err != nil {
		return nil, err
	}
	if o.Data == "" {
		if o.Data, err = DefaultFolder(os.Geteuid(), os.Getenv("HOME")); err != nil {
			return nil, err
		}
	}
	d := &Dev{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Stop())
		}
	}()
	if d.folder, err = openFolder(o.Data); err != nil {
		return nil, err
	}
	if d.logFile, err = os.OpenFile(d.folder.path("signalbox.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	d.log = slog.New(slog.NewTextHandler(d.logFile, nil))
	if err := d.folder.read("memory.json", &d.memory); err != nil {
		return nil, err
	}
	if d.listener, err = listen(ctx, o.Addr, d.memory.Addr); err != nil {
		return nil, err
	}
	d.say("Starting a private Postgres, sample people, sample repositories and a worker …")
	d.memory.Addr = d.listener.Addr().String()
	d.url = "http://" + d.memory.Addr
	if err := d.startDatabase(ctx); err != nil {
		return nil, err
	}
	if err := d.configure(); err != nil {
		return nil, err
	}
	if err := d.startProvider(ctx); err != nil {
		return nil, err
	}
	if err := d.saveCredential(ctx); err != nil {
		return nil, err
	}
	if err := d.savePolicy(ctx); err != nil {
		return nil, err
	}
	for _, s := range samples() {
		if err := s.plant(ctx, d.folder.path("forge")); err != nil {
			return nil, err
		}
	}
	if err := d.folder.write("memory.json", d.memory); err != nil {
		return nil, err
	}
	return d, d.folder.write("instance.json", instance{URL: d.url, PID: os.Getpid()})
}

// Listener is where the product has to be served.
func (d *Dev) Listener() net.Listener { return d.listener }

// Config is what the product has to be served with.
func (d *Dev) Config() config.Server { return d.config }

// URL is the product's address.
func (d *Dev) URL() string { return d.url }

// Log is for everything that is not meant for the person at the terminal.
func (d *Dev) Log() *slog.Logger { return d.log }

// Sampled says whether an earlier start submitted the sample task, so that this one does not.
func (d *Dev) Sampled() bool { return d.memory.Sampled }

// Folder is where everything is kept.
func (d *Dev) Folder() string { return d.folder.root }

// People are those whom one can sign in as.
func (d *Dev) People() []oidc.Person { return oidc.SamplePeople() }

func (d *Dev) startDatabase(ctx context.Context) error {
	var err error
	d.postgres, err = pgserver.Start(ctx, pgserver.Options{Dir: d.folder.path("postgres"), Fsync: !d.options.Fresh, Log: d.log})
	if err != nil {
		return err
	}
	if err := migrations.Up(ctx, d.postgres.URL(pgserver.Owner, pgserver.Database)); err != nil {
		return err
	}
	secretKeys, err := d.secretKeys()
	if err != nil {
		return err
	}
	ring, err := secret.ParseRing(secretKeys)
	if err != nil {
		return err
	}
	d.store, err = db.Open(ctx, db.Options{URL: d.postgres.URL(pgserver.Engine, pgserver.Database), AppURL: d.postgres.URL(pgserver.App, pgserver.Database), MaxConns: 2, Keys: ring, Log: d.log})
	return err
}

// secretKeys is the key that the first start made, in a file of its own.
func (d *Dev) secretKeys() (string, error) {
	return d.folder.secret("secret-keys", func() (string, error) { return secret.NewKey("dev"), nil })
}

func (d *Dev) configure() error {
	secretKeys, err := d.secretKeys()
	if err != nil {
		return err
	}
	sessionKey, err := d.folder.secret("session-key", randomText)
	if err != nil {
		return err
	}
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{
			"SIGNALBOX_ADDR":             d.memory.Addr,
			"SIGNALBOX_PUBLIC_URL":       d.url,
			"SIGNALBOX_DATABASE_URL":     d.postgres.URL(pgserver.Engine, pgserver.Database),
			"SIGNALBOX_DATABASE_APP_URL": d.postgres.URL(pgserver.App, pgserver.Database),
			"SIGNALBOX_ARTIFACT_URL":     "file://" + d.folder.path("artifacts"),
			"SIGNALBOX_LOCAL_FORGE":      d.folder.path("forge"),
			"SIGNALBOX_SESSION_KEY":      sessionKey,
			"SIGNALBOX_SECRET_KEYS":      secretKeys,
		}[name]
		return value, ok
	}
	d.config, err = config.LoadServer("serve", lookup)
	return err
}

// startProvider listens, tells the database about it, and serves. The listener comes first, because the port is part
// of the issuer; it may differ from last time's, which the row of a dev provider allows (D-24).
func (d *Dev) startProvider(ctx context.Context) error {
	l, err := listenProvider(ctx, d.memory.Provider)
	if err != nil {
		return err
	}
	d.memory.Provider = l.Addr().String()
	d.config.ProviderAllow = []string{d.memory.Provider}
	clientSecret, err := d.folder.secret("client-secret", randomText)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	issuer := "http://" + d.memory.Provider
	id, err := d.store.SaveProvider(ctx, db.Provider{
		Name: providerName, Issuer: issuer, ClientID: clientID, ClientSecret: config.NewSecret(clientSecret), GroupsClaim: "groups", Dev: true,
		Groups: map[string][]policy.Role{
			"requester": {policy.RoleViewer, policy.RoleRequester},
			"approver":  {policy.RoleViewer, policy.RoleApprover},
			"admin":     {policy.RoleViewer, policy.RoleAdmin},
		},
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	handler, err := oidc.New(oidc.Options{
		Issuer: issuer, ClientID: clientID, ClientSecret: clientSecret, KeyDir: d.folder.path("keys"), People: oidc.SamplePeople(),
		RedirectURIs: []string{d.url + "/auth/oidc/" + typeid.Format(typeid.Provider, id) + "/callback"},
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	d.provider = &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelWarn)}
	go func() {
		if err := d.provider.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.log.Error("the sample provider ended", "error", err)
		}
	}()
	return nil
}

// listenProvider takes the port of last time where it can, so that a page that is open keeps working.
func listenProvider(ctx context.Context, remembered string) (net.Listener, error) {
	var c net.ListenConfig
	if remembered != "" && loopbackOnly(remembered) == nil {
		if l, err := c.Listen(ctx, "tcp", remembered); err == nil {
			return l, nil
		}
	}
	l, err := c.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("nothing was started: no port for the sample people's login: %w", err)
	}
	return l, nil
}

// saveCredential makes the worker's identity once; it stays over restarts (D-22).
func (d *Dev) saveCredential(ctx context.Context) error {
	secret, err := d.folder.secret("worker-credential", func() (string, error) { return db.Mint(db.PrefixWorker), nil })
	if err != nil {
		return err
	}
	if _, err := d.store.WorkerByHash(ctx, db.HashToken(secret)); err == nil {
		return nil
	}
	_, err = d.store.CreateWorkerCredential(ctx, db.WorkerCredential{
		Tenant: db.DefaultTenant, Name: "dev worker", Phases: []run.Phase{run.PhaseExecute, run.PhaseVerify, run.PhasePublish},
	}, secret)
	return err
}

// unsafePolicy begins the versions of policies that dev mode put in force because its worker isolates nothing.
const unsafePolicy = "dev-unsafe-"

// savePolicy lowers the policy's isolation where the person asked for a worker without any, and takes that back with
// the next start that does not ask: by default policy refuses such workers, whose runs would then wait for ever.
func (d *Dev) savePolicy(ctx context.Context) error {
	rules, err := d.store.Rules(ctx, db.DefaultTenant)
	if err != nil {
		return err
	}
	wanted, lowered := d.options.Sandbox == "process", strings.HasPrefix(rules.Version, unsafePolicy)
	if wanted == lowered || wanted && rules.Execution.MinIsolation == policy.IsolationProcess {
		return nil
	}
	version, execution := fmt.Sprintf("dev-%d", time.Now().Unix()), ""
	if wanted {
		version, execution = fmt.Sprintf("%s%d", unsafePolicy, time.Now().Unix()), "execution:\n  min_isolation: process\n"
	}
	_, err = d.store.SavePolicy(ctx, db.DefaultTenant, "schema: 1\nversion: "+version+"\n"+execution)
	return err
}

// StartWorker starts the worker and keeps it running. The product has to be served by now.
func (d *Dev) StartWorker() error {
	binary, err := workerBinary()
	if err != nil {
		return err
	}
	file := d.folder.path("worker", "worker.yaml")
	text, err := workerFile(d.folder.path("forge"))
	if err != nil {
		return err
	}
	if err := replace(file, text); err != nil {
		return err
	}
	// A clean environment: the worker runs untrusted code, and what is not here cannot leak from it.
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + d.folder.path("worker"), "LANG=C.UTF-8",
		"SIGNALBOX_SERVER_URL=" + d.url,
		"SIGNALBOX_WORKER_NAME=dev worker",
		"SIGNALBOX_WORKER_CREDENTIAL_FILE=" + d.folder.path("keys", "worker-credential"),
		"SIGNALBOX_WORKER_CONFIG=" + file,
		"SIGNALBOX_WORKER_DIR=" + d.folder.path("worker"),
		"SIGNALBOX_WORKER_SANDBOX=" + d.options.Sandbox,
		"SIGNALBOX_WORKER_DRAIN_GRACE=5s",
		"SIGNALBOX_LOG_FORMAT=text",
	}
	d.worker, err = supervise(binary, env, d.folder.path("worker.log"), d.log)
	return err
}

// workerFile is worker.yaml with the sample agent, under its own name and as the default.
func workerFile(forge string) ([]byte, error) {
	script, err := agentScript()
	if err != nil {
		return nil, err
	}
	profile := map[string]any{
		"adapter": "command", "version": "1", "argv": []string{"sh", "-c", script}, "plan": "agent", "wall": "5m",
	}
	text, err := yaml.Marshal(map[string]any{
		"local_forge": forge,
		"agents":      map[string]any{"default": profile, "replace": profile},
	})
	if err != nil {
		return nil, fmt.Errorf("write the worker's configuration: %w", err)
	}
	return text, nil
}

// StopWorker drains the worker while the product is still served, so that it can hand its leases back.
func (d *Dev) StopWorker() error {
	if d.worker == nil {
		return nil
	}
	err := d.worker.stop()
	d.worker = nil
	return err
}

// Stop ends what is left in the order in which nothing is missed: the worker, the provider, the database. The product
// has to have stopped before.
func (d *Dev) Stop() error {
	problems := []error{d.StopWorker()}
	if d.provider != nil {
		problems = append(problems, d.provider.Close())
	}
	if d.store != nil {
		d.store.Close()
	}
	if d.listener != nil {
		if err := d.listener.Close(); !errors.Is(err, net.ErrClosed) {
			problems = append(problems, err)
		}
	}
	if d.postgres != nil {
		problems = append(problems, d.postgres.Stop(context.Background()))
	}
	if d.folder != nil {
		problems = append(problems, d.folder.close())
	}
	if d.logFile != nil {
		problems = append(problems, d.logFile.Close())
	}
	return errors.Join(problems...)
}

func (d *Dev) say(format string, args ...any) {
	fmt.Fprintf(d.options.Out, format+"\n", args...)
}

// Greet prints where to go and whom to sign in as.
func (d *Dev) Greet(w Waiting) {
	d.say("")
	d.say("  Signalbox is at %s", d.url)
	if w.Gate != "" {
		d.say("  A change is waiting for your approval: %s", w.Gate)
		d.say("  Sign in as Ana Approver to decide. (Rita asked for it, so she may not.)")
	} else {
		d.say("  Sign in as Rita Requester to ask for changes, as Ana Approver to decide them.")
	}
	d.say("")
	d.say("  Others to sign in as: %s.", strings.Join(others(), ", "))
	d.say("  Rita may ask for more. The sample agent has no model; it understands: %s", sampleGoal)
	d.say("  On the command line: %s", d.commandLine())
	if d.options.Sandbox == "process" {
		d.say("  UNSAFE: the worker isolates nothing (--sandbox=process). Run only agents that you trust.")
	}
	d.say("  Everything is kept in %s. Ctrl-C stops all of it.", d.folder.root)
	d.say("")
}

// commandLine is what to type first; the command line looks at the default address unless told otherwise.
func (d *Dev) commandLine() string {
	login := os.Args[0] + " login"
	if d.memory.Addr == DefaultAddr {
		return login
	}
	return "export SIGNALBOX_SERVER_URL=" + d.url + "; " + login
}

func others() []string {
	var names []string
	for _, p := range oidc.SamplePeople() {
		if p.Subject != "ana" {
			names = append(names, p.Name)
		}
	}
	return names
}
