// Package sandbox owns the running of programs that nobody trusts: it opens a
// box over one workspace, runs commands in it under limits, and sees to it that
// nothing of them is left afterwards. It refuses to run a payload as uid 0, to
// give it a descriptor, a variable or a mount that was not asked for, and to
// call a box safe that has not been probed on this machine.
//
// Two tiers exist. "bwrap" is the default: own namespaces, no network,
// read-only system, system call filter, dropped uid. "process" isolates
// nothing but the process group and the limits; it is for development and must
// be labelled as unsafe wherever it is shown.
package sandbox

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Tier names how strongly a box isolates.
type Tier string

// The tiers, from strong to none.
const (
	// TierBwrap isolates by bubblewrap namespaces and a system call filter.
	TierBwrap Tier = "bwrap"
	// TierProcess isolates nothing: same files, same network, limits only.
	TierProcess Tier = "process"
)

// Safe says whether the tier keeps a hostile payload away from the host.
func (t Tier) Safe() bool { return t == TierBwrap }

// Label is the tier in words for people.
func (t Tier) Label() string {
	switch t {
	case TierBwrap:
		return "bubblewrap sandbox, no network"
	case TierProcess:
		return "plain process, NOT isolated (unsafe)"
	default:
		return fmt.Sprintf("unknown tier %q", string(t))
	}
}

// The layout of a workspace as the payload sees it in tier bwrap. In tier
// process the same folders lie under the workspace's own host path: use
// Box.Path to translate.
const (
	// WorkspaceDir is where the workspace is mounted, writable.
	WorkspaceDir = "/workspace"
	// RepoDir holds the checkout that the payload may change.
	RepoDir = WorkspaceDir + "/repo"
	// HomeDir is HOME.
	HomeDir = WorkspaceDir + "/home"
	// InputDir holds what the worker tells the payload.
	InputDir = WorkspaceDir + "/input"
)

// Options configure a Sandbox.
type Options struct {
	// Tier is required.
	Tier Tier
	// StateDir holds the sandbox's own small files (generated passwd, a copy
	// of the init binary). Every parent must be searchable by other users.
	// Empty: a fresh directory below os.TempDir, removed by Close.
	StateDir string
	// UIDBase is the first user id given to payloads when the worker runs as
	// root; box slot n runs as UIDBase+n. 0 means 200000. The 65536 users from
	// here on must be this worker's alone: with StateDir given, New ends what
	// a killed predecessor left running as one of them. When the worker is not
	// root, payloads run as the worker's own user.
	UIDBase uint32
	// Bwrap is the bubblewrap executable; empty means the one in PATH.
	Bwrap string
	// NoCgroups leaves control groups alone even where they are writable.
	NoCgroups bool
}

// Sandbox opens boxes of one tier.
type Sandbox interface {
	// Tier says how boxes of this sandbox isolate.
	Tier() Tier
	// User is the uid and gid that a payload of the slot runs as.
	User(slot int) (uid, gid uint32)
	// Own gives the tree at dir to the slot's user, never following symbolic
	// links. It must run after the worker has filled a workspace.
	Own(dir string, slot int) error
	// Remove deletes a tree that a payload may have filled, never following
	// symbolic links. A tree that does not exist is no error.
	Remove(dir string) error
	// Open makes a box over an owned workspace.
	Open(ctx context.Context, spec Spec) (Box, error)
	// Probe tries to break out of a box of this tier and reports each attempt.
	Probe(ctx context.Context) (Isolation, error)
	// Close removes the sandbox's own files. Boxes must be closed before.
	Close() error
}

// Mount is a host path that the payload sees read-only.
type Mount struct {
	Host   string // absolute; a file or a directory
	Inside string // absolute path inside; empty means the same as Host
}

// Spec describes a box.
type Spec struct {
	// Name is a label for control groups and messages, such as a run id.
	Name string
	// Slot picks the user id; two open boxes must not share a slot unless
	// they share the workspace.
	Slot int
	// Workspace is the absolute host path of the one writable tree.
	Workspace string
	// ReadOnly are extra mounts. In tier process they are not mounted; paths
	// in Env that point at Inside are rewritten to Host.
	ReadOnly []Mount
	// Env is added to the small default environment (PATH, HOME, TMPDIR,
	// LANG, USER). Inside paths in values (alone, in lists by colon or comma,
	// after an equals sign or "file://") are translated for tier process.
	Env map[string]string
	// Limits; zero fields mean the defaults.
	Limits Limits
}

// Limits bound one command. Zero means the default of DefaultLimits.
type Limits struct {
	CPU      time.Duration // processor time of each process
	Procs    int           // processes and threads together
	Files    int           // open descriptors of each process
	FileSize int64         // bytes of any one file
	Memory   int64         // bytes; the whole box where a control group is writable, else data of each process
	TmpSize  int64         // bytes of /tmp (tier bwrap)
	Output   int64         // bytes of stdout and stderr together; more is dropped and counted
}

// DefaultLimits are generous enough for a compiler and its tests.
func DefaultLimits() Limits {
	return Limits{
		CPU:      time.Hour,
		Procs:    4096,
		Files:    4096,
		FileSize: 4 << 30,
		Memory:   4 << 30,
		TmpSize:  1 << 30,
		Output:   64 << 20,
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.CPU <= 0 {
		l.CPU = d.CPU
	}
	if l.Procs <= 0 {
		l.Procs = d.Procs
	}
	if l.Files <= 0 {
		l.Files = d.Files
	}
	if l.FileSize <= 0 {
		l.FileSize = d.FileSize
	}
	if l.Memory <= 0 {
		l.Memory = d.Memory
	}
	if l.TmpSize <= 0 {
		l.TmpSize = d.TmpSize
	}
	if l.Output <= 0 {
		l.Output = d.Output
	}
	return l
}

// Command is one program to run in a box.
type Command struct {
	// Argv; Argv[0] is looked up in the box's PATH.
	Argv []string
	// Dir is the working directory as an inside path; empty means RepoDir if
	// it exists, else WorkspaceDir.
	Dir string
	// Env is added to the box's environment for this command.
	Env map[string]string
	// Stdin may be nil (end of file at once).
	Stdin io.Reader
	// Stdout and Stderr receive bytes as they come, with no line limit. They
	// are called from different goroutines unless they are the same value.
	Stdout, Stderr io.Writer
	// Report, when not nil, receives what the payload writes to file
	// descriptor 3. Without it descriptor 3 is closed in the payload.
	Report io.Writer
	// Timeout is the wall clock; 0 means none.
	Timeout time.Duration
	// Grace is the time between TERM and KILL; 0 means 5 seconds.
	Grace time.Duration
}

// Result is how a command ended. A command that ran is not an error, however
// it ended.
type Result struct {
	ExitCode  int    // 0..255; 127 not found, 126 not executable; -1 when ended by a signal
	Signal    string // such as "killed"; empty when it exited
	TimedOut  bool   // ended by Command.Timeout
	Cancelled bool   // ended because the context ended
	OOMKilled bool   // a process of the box was killed for memory (control group only)
	Duration  time.Duration
	CPU       time.Duration // user and system time of the payload
	MaxRSS    int64         // bytes, largest process
	Leftovers int           // processes that outlived the payload and were killed
	// OutputBytes counts what the payload wrote to stdout and stderr;
	// OutputDropped is the part above Limits.Output.
	OutputBytes, OutputDropped int64
	// Killed says that TERM did not suffice within the grace period.
	Killed bool
	// Detail is the init's own message, for example "not found in PATH".
	Detail string
}

// OK says that the command exited with 0 on its own.
func (r Result) OK() bool {
	return r.ExitCode == 0 && r.Signal == "" && !r.TimedOut && !r.Cancelled
}

// Box is an open sandbox over one workspace. Run may be called many times, one
// after the other; each run has fresh namespaces and leaves no process.
type Box interface {
	// Tier says how this box isolates.
	Tier() Tier
	// Workspace is the host path of the workspace.
	Workspace() string
	// Path translates an inside path (below WorkspaceDir or a mount) to the
	// path that the payload sees. In tier bwrap it is the same.
	Path(inside string) string
	// Run runs a command to its end. The error is about the sandbox itself
	// (it did not start); how the payload ended is in the Result.
	Run(ctx context.Context, cmd Command) (Result, error)
	// Close kills whatever still runs and removes the box's own files. The
	// workspace stays.
	Close() error
}

// UnavailableError says that a tier does not work on this machine.
type UnavailableError struct {
	Tier   Tier
	Reason string
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("sandbox tier %s is not available: %s", e.Tier, e.Reason)
}

// New prepares a sandbox of a tier. It returns *UnavailableError where the
// machine lacks what the tier needs.
func New(opts Options) (Sandbox, error) {
	h := &host{opts: opts, root: os.Geteuid() == 0, rangeGiven: opts.UIDBase != 0}
	if !h.rangeGiven {
		h.opts.UIDBase = 200_000
	}
	switch opts.Tier {
	case TierBwrap:
		path, err := findBwrap(opts.Bwrap)
		if err != nil {
			return nil, err
		}
		h.bwrap = path
	case TierProcess:
	default:
		return nil, &UnavailableError{Tier: opts.Tier, Reason: "no such tier; known are bwrap and process"}
	}
	if opts.StateDir == "" {
		dir, err := os.MkdirTemp("", "signalbox-sandbox-")
		if err != nil {
			return nil, fmt.Errorf("make sandbox state directory: %w", err)
		}
		h.state, h.ownState = dir, true
	} else {
		dir, err := filepath.Abs(opts.StateDir)
		if err != nil {
			return nil, fmt.Errorf("resolve sandbox state directory: %w", err)
		}
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("make sandbox state directory: %w", err)
		}
		h.state = dir
	}
	// Payload users must pass through, but have no business listing it.
	if err := os.Chmod(h.state, 0o711); err != nil {
		return nil, fmt.Errorf("open sandbox state directory to payload users: %w", err)
	}
	if err := h.tidy(); err != nil {
		return nil, err
	}
	if err := h.installInit(); err != nil {
		return nil, err
	}
	if !opts.NoCgroups {
		h.cgroups = findCgroups()
		removeStale(h.cgroups)
	}
	return h, nil
}
