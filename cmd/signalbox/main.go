// Command signalbox is the server and its command line. It owns wiring and words on the terminal, and refuses
// everything else: serve, dev, migrate and replay use the database, every other command speaks the JSON API (D-26).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"signalbox/internal/config"
)

// commands is the grammar of the command line, in the order in which a person meets the product.
type commands struct {
	Dev              devCmd              `cmd:"" help:"Start everything on this machine, with a sample task that waits for you."`
	Serve            serveCmd            `cmd:"" help:"Serve pages, API and control loops on a Postgres."`
	Migrate          migrateCmd          `cmd:"" help:"Bring the database's schema to this program's version."`
	Replay           replayCmd           `cmd:"" help:"Fold every run's log from nothing and compare it with what is stored."`
	Admin            adminCmd            `cmd:"" help:"Make the first administrator."`
	Audit            auditCmd            `cmd:"" help:"Read and check the audit log."`
	Secrets          secretsCmd          `cmd:"" help:"Make keys for stored secrets and rotate them."`
	Login            loginCmd            `cmd:"" help:"Sign in with your browser; the login is kept in a file that only you can read."`
	Logout           logoutCmd           `cmd:"" help:"End the kept login."`
	Whoami           whoamiCmd           `cmd:"" help:"Say who the server takes you for."`
	Task             taskCmd             `cmd:"" help:"Ask for changes and follow them."`
	Run              runCmd              `cmd:"" help:"Look at runs, follow and cancel them."`
	Resume           resumeCmd           `cmd:"" help:"Let a run that seems to stand still go on, and say what was found."`
	Gate             gateCmd             `cmd:"" help:"Decide what waits for a person."`
	Queue            queueCmd            `cmd:"" help:"Look at queues, pause and resume them."`
	Providers        providersCmd        `cmd:"" help:"Look at model providers that asked to slow down, and end their pauses."`
	Policy           policyCmd           `cmd:"" help:"Look at the policy, try a new version and put it in force."`
	Workers          workersCmd          `cmd:"" help:"Look at workers, and be told how many fit."`
	Repository       repositoryCmd       `cmd:"" help:"Register repositories."`
	Token            tokenCmd            `cmd:"" help:"Make and revoke API tokens."`
	WorkerCredential workerCredentialCmd `cmd:"" help:"Make and revoke workers' credentials."`
	Version          versionCmd          `cmd:"" help:"Print the version."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	warnUnknown(os.Stderr, os.Environ())
	os.Exit(execute(ctx, os.Args[1:], terminal{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv}))
}

// terminal is where a command reads and writes; tests give their own.
type terminal struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) (string, bool)
}

// silentError ends with a code after the command has said itself what is wrong.
type silentError struct{ code int }

func (e *silentError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// execute runs one command line and returns the exit code: 0 done, 1 not done, 2 not understood.
func execute(ctx context.Context, args []string, t terminal) int {
	var grammar commands
	exited := -1
	parser, err := kong.New(&grammar,
		kong.Name("signalbox"),
		kong.Description("The control plane for background coding agents: an agent proposes, the state machine decides, a person holds the signal."),
		kong.Writers(t.Out, t.Err), kong.Exit(func(code int) { exited = code }), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(t),
	)
	if err != nil {
		fmt.Fprintln(t.Err, "signalbox:", err)
		return 2
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		fmt.Fprintf(t.Err, "signalbox: %s Nothing was done; %s --help says what there is.\n", sentence(err), understood(err))
		return 2
	}
	if err := parsed.Run(); err != nil {
		if silent, ok := errors.AsType[*silentError](err); ok {
			return silent.code
		}
		fmt.Fprintln(t.Err, "signalbox:", err)
		return 1
	}
	return 0
}

// warnUnknown names variables that look like ours and are not: misspelt, they would silently have no effect.
func warnUnknown(w io.Writer, environ []string) {
	for _, name := range config.Unknown(environ) {
		fmt.Fprintf(w, "signalbox: the variable %s has no effect, because there is none of that name; docs/configuration.md lists all.\n", name)
	}
}

// sentence ends the parser's words as a sentence; they may end in a question or in dots already.
func sentence(err error) string {
	words := err.Error()
	if strings.HasSuffix(words, "?") || strings.HasSuffix(words, ".") {
		return words
	}
	return words + "."
}

// understood is the command line up to the last word that was a command, whose help fits best.
func understood(err error) string {
	words := "signalbox"
	if parse, ok := errors.AsType[*kong.ParseError](err); ok && parse.Context != nil {
		for _, step := range parse.Context.Path {
			if step.Command != nil {
				words += " " + step.Command.Name
			}
		}
	}
	return words
}

type versionCmd struct{}

func (versionCmd) Run(t terminal) error {
	_, err := fmt.Fprintln(t.Out, "signalbox", version())
	return err
}

// version is what the build knows about its source.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if revision == "" {
		return info.Main.Version
	}
	return revision + dirty
}
