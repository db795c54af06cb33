// Package workercmd is the worker's main: flags, environment and worker.yaml to a configuration, and the meaning of
// signals. It is a package so that the tests which kill a worker at named points run exactly this wiring. It refuses
// everything else; above all it has no database credential.
package workercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"signalbox/internal/config"
	"signalbox/internal/egress"
	"signalbox/internal/sandbox"
	"signalbox/internal/trail"
	"signalbox/internal/wire"
	"signalbox/internal/worker"
)

// flags override the environment, for a worker that is started by hand.
type flags struct {
	Roles   []string `help:"Phases to take: execute, verify, publish." placeholder:"ROLE"`
	Config  string   `help:"File with agent profiles and read-only caches." type:"path"`
	Name    string   `help:"A label for the workers page; else SIGNALBOX_WORKER_NAME, else this machine's name."`
	Enrol   bool     `help:"Read a one-time enrolment token from standard input, trade it for this worker's credential, keep that in the worker's folder, and end."`
	Check   bool     `help:"Read the configuration, try to break out of the sandbox, print what was found, and end."`
	Version bool     `help:"Print the version and end."`
}

// Options of a worker process beside what its surroundings say.
type Options struct {
	// Stdin is where --enrol reads its token; nil is the process's own.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Lookup         func(string) (string, bool)
	// Hook is worker.Config.Hook; the shipped program sets none.
	Hook func(point string)
}

// Main runs the command and returns its exit code. sandbox.InitMain must have been called before.
func Main(args []string, o Options) int {
	var f flags
	parser, err := kong.New(&f, kong.Name("signalbox-worker"), kong.Description("Claims work from a Signalbox server: executes, verifies, publishes."), kong.Writers(o.Stdout, o.Stderr))
	if err != nil {
		fmt.Fprintln(o.Stderr, "signalbox-worker:", err)
		return 2
	}
	if _, err := parser.Parse(args); err != nil {
		fmt.Fprintln(o.Stderr, "signalbox-worker:", err)
		return 2
	}
	if f.Version {
		fmt.Fprintln(o.Stdout, "signalbox-worker", version())
		return 0
	}
	if f.Enrol {
		if err := enrol(o); err != nil {
			fmt.Fprintln(o.Stderr, "signalbox-worker:", err)
			return 1
		}
		return 0
	}
	cfg, err := configure(f, o.Lookup, o.Stderr)
	if err != nil {
		fmt.Fprintln(o.Stderr, "signalbox-worker: not started:", err)
		return 2
	}
	cfg.Hook = o.Hook
	tracer, flush, err := trail.Open(context.Background(), "signalbox-worker", version(), o.Lookup)
	if err != nil {
		fmt.Fprintln(o.Stderr, "signalbox-worker: not started:", err)
		return 2
	}
	cfg.Tracer = tracer
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if err := flush(ctx); err != nil {
			fmt.Fprintln(o.Stderr, "signalbox-worker: traces were not sent:", err)
		}
	}()
	if err := work(cfg, f.Check, o.Stdout); err != nil {
		fmt.Fprintln(o.Stderr, "signalbox-worker:", err)
		return 1
	}
	return 0
}

func configure(f flags, lookup func(string) (string, bool), stderr io.Writer) (worker.Config, error) {
	env, err := config.LoadWorker(lookup)
	if err != nil {
		return worker.Config{}, err
	}
	path, named := env.Config, f.Config != ""
	if named {
		path = f.Config
	} else {
		_, named = lookup("SIGNALBOX_WORKER_CONFIG")
	}
	file, err := worker.ReadFile(path)
	if err != nil && (named || !errors.Is(err, fs.ErrNotExist)) {
		return worker.Config{}, err
	}
	roles := env.Roles
	if len(f.Roles) > 0 {
		roles = f.Roles
	}
	dir, err := filepath.Abs(env.Dir)
	if err != nil {
		return worker.Config{}, fmt.Errorf("SIGNALBOX_WORKER_DIR: %w", err)
	}
	name := cmp.Or(f.Name, env.Name)
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			name = "worker"
		}
	}
	allow, err := egress.ParseAllow("SIGNALBOX_GIT_ALLOW", env.GitAllow)
	if err != nil {
		return worker.Config{}, err
	}
	credential, err := identity(env, dir, stderr)
	if err != nil {
		return worker.Config{}, err
	}
	cfg := worker.Config{
		ServerURL: env.ServerURL, Credential: credential, Name: name, Version: version(), Dir: dir, Tier: sandbox.Tier(env.Sandbox),
		MaxRuns: env.MaxRuns, Heartbeat: env.Heartbeat, DrainGrace: env.DrainGrace, GitAllow: allow, File: file, Log: logger(env, stderr),
	}
	for _, r := range roles {
		switch p := wire.Phase(r); p {
		case wire.Execute, wire.Verify, wire.Publish:
			cfg.Phases = append(cfg.Phases, p)
		default:
			return worker.Config{}, fmt.Errorf("unknown role %q: known are execute, verify, publish", r)
		}
	}
	return cfg, cfg.Validate()
}

// identity is the credential that was given, or was kept by an enrolment, or is got by one now: at the first start.
func identity(env config.Worker, dir string, stderr io.Writer) (string, error) {
	if given := env.Credential.Reveal(); given != "" {
		return given, nil
	}
	kept, err := worker.KeptCredential(dir)
	if kept != "" || err != nil {
		return kept, err
	}
	token := env.Enrolment.Reveal()
	if token == "" {
		return "", fmt.Errorf("SIGNALBOX_WORKER_CREDENTIAL is not set (nor SIGNALBOX_WORKER_CREDENTIAL_FILE), %s holds no credential, and SIGNALBOX_WORKER_ENROLMENT gives no token for one: ask an administrator for an enrolment token", dir)
	}
	ctx, cancel := context.WithTimeout(context.Background(), enrolTime)
	defer cancel()
	credential, err := worker.Enrol(ctx, env.ServerURL, dir, token, nil)
	if err == nil {
		fmt.Fprintf(stderr, "signalbox-worker: enrolled; the credential is in %s\n", dir)
	}
	return credential, err
}

// enrolTime is how long the server has to answer an enrolment.
const enrolTime = time.Minute

// enrol is the first start alone, with the token from standard input, where no list of processes or environments shows it.
func enrol(o Options) error {
	env, err := config.LoadWorker(o.Lookup)
	if err != nil {
		return err
	}
	from := o.Stdin
	if from == nil {
		from = os.Stdin
	}
	token, err := io.ReadAll(io.LimitReader(from, 1<<10))
	if err != nil {
		return fmt.Errorf("not enrolled: read token: %w", err)
	}
	dir, err := filepath.Abs(env.Dir)
	if err != nil {
		return fmt.Errorf("SIGNALBOX_WORKER_DIR: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), enrolTime)
	defer cancel()
	if _, err := worker.Enrol(ctx, env.ServerURL, dir, string(token), nil); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Stdout, "Enrolled. The credential is in %s; start signalbox-worker without it.\n", dir)
	return err
}

func logger(env config.Worker, to io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: env.LogLevel}
	if env.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(to, opts))
	}
	return slog.New(slog.NewJSONHandler(to, opts))
}

// work runs until the first termination signal has drained the worker. A second one hands back at once what is under way,
// a third ends the process.
func work(cfg worker.Config, check bool, stdout io.Writer) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	w, err := worker.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer w.Close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for _, next := range []func(){stop, w.Hurry} {
			select {
			case <-signals:
				next()
			case <-ended:
				return
			}
		}
		signal.Stop(signals) // the next one has its ordinary effect
	}()
	if check {
		return w.Check(ctx, stdout)
	}
	return w.Run(ctx)
}

// version is what the build knows about its source.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return info.Main.Version
}
