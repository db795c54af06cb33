package worker

import (
	"go.opentelemetry.io/otel/trace"

	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"signalbox/internal/egress"
	"signalbox/internal/sandbox"
	"signalbox/internal/wire"
)

// Config is everything a worker needs to start.
type Config struct {
	ServerURL  string
	Credential string // sbw_…, the worker's identity
	Name       string // a label
	Version    string // of this program
	Dir        string // mirrors, workspaces
	Phases     []wire.Phase
	Tier       sandbox.Tier
	MaxRuns    int
	Heartbeat  time.Duration // 0 takes the server's word
	DrainGrace time.Duration // time that leases have to finish once Run's context ends
	// LocalForge is the folder of the local forge's repositories, where this machine has it.
	LocalForge string
	// GitAllow is what git may reach besides public addresses.
	GitAllow egress.Allow
	File     File
	Log      *slog.Logger
	// Tracer makes the spans of this worker; nil: nothing is traced.
	Tracer trace.Tracer
	// HTTP sends requests; nil is a client without an overall time-out.
	HTTP *http.Client
	// Hook is called at named points of a lease's work. Only tests set it: it is where they kill the process.
	Hook func(point string)
	// SkipProbe starts without trying to break out of the sandbox first. Only tests of other things set it.
	SkipProbe bool
	// OldTextsTime is how long the old texts beside a patch may hold up its hand-in; 0 means 30 seconds. Only tests set it.
	OldTextsTime time.Duration
}

// The points at which Hook is called, in the order of a whole run.
const (
	PointAfterClaim       = "after_claim"
	PointInPreparation    = "in_preparation"
	PointInExecution      = "in_execution"
	PointAfterPatchStored = "after_patch_stored"
	PointInVerification   = "in_verification"
	PointAfterPush        = "after_push"
	PointAfterPR          = "after_pr"
	PointAfterReport      = "after_report"
)

// Points lists the named points.
func Points() []string {
	return []string{
		PointAfterClaim, PointInPreparation, PointInExecution, PointAfterPatchStored,
		PointInVerification, PointAfterPush, PointAfterPR, PointAfterReport,
	}
}

// File is worker.yaml: what runs here and what may be read (D-25).
type File struct {
	// Agents by profile name.
	Agents map[string]Profile `yaml:"agents"`
	// Caches of dependencies, visible to agents and to verification.
	Caches []Cache `yaml:"caches"`
	// Env and Mounts are those of every sandbox here: where toolchains lie.
	Env    map[string]string `yaml:"env"`
	Mounts []MountFile       `yaml:"mounts"`
	// Tools are capabilities beside the programs that are found, for example docker or
	// jdk=21.0.4; one that names a version takes the place of a program that was found.
	Tools []string `yaml:"tools"`
	// Queues are those served here; without one, the queue named default.
	Queues []string `yaml:"queues"`
	// Pools are the sandbox pools that this worker belongs to.
	Pools []string `yaml:"pools"`
	// LocalForge is the folder of the local forge's bare repositories.
	LocalForge string `yaml:"local_forge"`
	// UIDBase is the first user id of payloads; 0 derives one from the worker's folder.
	UIDBase uint32 `yaml:"uid_base"`
	// Limits of one sandbox.
	Limits LimitsFile `yaml:"limits"`
}

// LimitsFile bounds a sandbox; zero fields take the sandbox's defaults.
type LimitsFile struct {
	MemoryMB int `yaml:"memory_mb"`
	Procs    int `yaml:"processes"`
	TmpMB    int `yaml:"tmp_mb"`
	FileMB   int `yaml:"file_mb"`
}

// Profile is one agent as it is run here.
type Profile struct {
	// Adapter is command, the only one so far.
	Adapter string   `yaml:"adapter"`
	Version string   `yaml:"version"`
	Argv    []string `yaml:"argv"`
	// Env is given to the agent; Secrets too, and their values never reach a log.
	Env     map[string]string `yaml:"env"`
	Secrets map[string]string `yaml:"secrets"`
	Mounts  []MountFile       `yaml:"mounts"`
	// Plan says who writes the plan: auto (the agent where a person will see it, else the contract), agent, contract.
	Plan string `yaml:"plan"`
	// EmptyIsNoChange takes a clean end without a change as the statement that nothing needs one: right for codemods.
	EmptyIsNoChange bool `yaml:"empty_is_no_change"`
	FirstOutput     Span `yaml:"first_output"`
	Idle            Span `yaml:"idle"`
	Wall            Span `yaml:"wall"`
	Grace           Span `yaml:"grace"`
}

// MountFile is a path of the host that a sandbox sees, read-only.
type MountFile struct {
	Host   string `yaml:"host"`
	Inside string `yaml:"inside"`
}

// Cache is a folder of dependencies. Mounted read-only it is shared; with Copy each run writes its own copy.
type Cache struct {
	Name string            `yaml:"name"`
	Host string            `yaml:"host"`
	Copy bool              `yaml:"copy"`
	Env  map[string]string `yaml:"env"` // {path} stands for where the cache is inside
}

// Span is a duration in words, "90s" or "15m".
type Span time.Duration

// UnmarshalYAML reads the words.
func (s *Span) UnmarshalYAML(raw []byte) error {
	d, err := time.ParseDuration(strings.Trim(strings.TrimSpace(string(raw)), `"'`))
	if err != nil || d < 0 {
		return fmt.Errorf("%q is no duration, write for example 90s or 15m", strings.TrimSpace(string(raw)))
	}
	*s = Span(d)
	return nil
}

// ReadFile reads and checks worker.yaml. Errors name the line or the member.
func ReadFile(path string) (File, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return File{}, fmt.Errorf("worker configuration: %w", err)
	}
	return ParseFile(raw)
}

// ParseFile is ReadFile for bytes.
func ParseFile(raw []byte) (File, error) {
	var f File
	if err := yaml.UnmarshalWithOptions(raw, &f, yaml.Strict()); err != nil {
		return File{}, fmt.Errorf("worker configuration: %w", err)
	}
	return f, f.check()
}

func (f File) check() error {
	var errs []error
	say := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("worker configuration: "+format, args...))
	}
	mounts := func(where string, list []MountFile) {
		for _, m := range list {
			if !filepath.IsAbs(m.Host) || (m.Inside != "" && !filepath.IsAbs(m.Inside)) {
				say("%s: %q and %q must be absolute paths", where, m.Host, m.Inside)
			}
		}
	}
	mounts("mounts", f.Mounts)
	name := regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,99}$`)
	for n, p := range f.Agents {
		if !name.MatchString(n) {
			say("agents: %q is no profile name, use small letters, digits, dot, dash", n)
		}
		if p.Adapter != "command" {
			say("agents.%s.adapter is %q, known is: command", n, p.Adapter)
		}
		if len(p.Argv) == 0 {
			say("agents.%s.argv is empty", n)
		}
		if !slices.Contains([]string{"", "auto", "agent", "contract"}, p.Plan) {
			say("agents.%s.plan is %q, known are: auto, agent, contract", n, p.Plan)
		}
		mounts("agents."+n+".mounts", p.Mounts)
	}
	seen := map[string]bool{}
	for _, c := range f.Caches {
		if !name.MatchString(c.Name) || seen[c.Name] {
			say("caches: %q is no name, or is there twice", c.Name)
		}
		seen[c.Name] = true
		if !filepath.IsAbs(c.Host) {
			say("caches.%s.host %q must be an absolute path", c.Name, c.Host)
		}
	}
	return errors.Join(errs...)
}

// secrets are the values that must not appear in anything stored.
func (f File) secrets() []string {
	var out []string
	for _, p := range f.Agents {
		for _, v := range p.Secrets {
			out = append(out, v)
		}
	}
	return out
}

// Validate checks what the environment gave.
func (c Config) Validate() error {
	var errs []error
	if c.ServerURL == "" {
		errs = append(errs, errors.New("worker: no server address"))
	}
	if c.Credential == "" {
		errs = append(errs, errors.New("worker: no credential"))
	}
	if !filepath.IsAbs(c.Dir) {
		errs = append(errs, fmt.Errorf("worker: folder %q must be an absolute path", c.Dir))
	}
	if len(c.Phases) == 0 {
		errs = append(errs, errors.New("worker: no phase"))
	}
	if c.MaxRuns < 1 {
		errs = append(errs, errors.New("worker: at least one run at a time"))
	}
	return errors.Join(errs...)
}
