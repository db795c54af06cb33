package verify

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"signalbox/internal/sandbox"
)

// ReportSchema names the shape of a stored report.
const ReportSchema = "signalbox.verification/v1"

// Verdict is what a verification came to.
type Verdict string

// The verdicts.
const (
	VerdictPassed Verdict = "passed"
	VerdictFailed Verdict = "failed"
	// VerdictError says that nothing can be said about the change.
	VerdictError Verdict = "error"
)

// Class is how one command ended.
type Class string

// The classes. Failed and timed out can be repaired by changing the patch; an
// error is the machine's.
const (
	ClassPassed   Class = "passed"
	ClassFailed   Class = "failed"
	ClassTimedOut Class = "timed_out"
	ClassError    Class = "error"
	ClassNotRun   Class = "not_run"
)

// Report is the stored evidence of a verification.
type Report struct {
	Schema      string          `json:"schema"`
	Verdict     Verdict         `json:"verdict"`
	Repairable  bool            `json:"repairable"` // every blocking failure can be repaired by a new patch
	BaseCommit  string          `json:"base_commit"`
	PatchDigest string          `json:"patch_digest"`
	Isolation   string          `json:"isolation"` // sandbox tier that the commands ran in
	StartedAt   string          `json:"started_at"`
	EndedAt     string          `json:"ended_at"`
	Commands    []CommandReport `json:"commands"`
	// BaselineNote says why a comparison with the base is missing.
	BaselineNote string `json:"baseline_note,omitempty"`
	// Summary is a sentence for people.
	Summary string `json:"summary"`
}

// CommandReport is one command of the set.
type CommandReport struct {
	Name       string   `json:"name"`
	Kind       Kind     `json:"kind"`
	Argv       []string `json:"argv"`
	Class      Class    `json:"class"`
	Repairable bool     `json:"repairable"`
	// Blocks says that this command keeps the change from passing.
	Blocks bool `json:"blocks"`
	// Preexisting says that it failed on the base as well.
	Preexisting bool   `json:"preexisting"`
	ExitCode    int    `json:"exit_code"`
	Signal      string `json:"signal,omitempty"`
	Detail      string `json:"detail,omitempty"`
	StartedAt   string `json:"started_at,omitempty"`
	EndedAt     string `json:"ended_at,omitempty"`
	DurationMS  int64  `json:"duration_ms"`
	MaxRSS      int64  `json:"max_rss_bytes,omitempty"`
	Leftovers   int    `json:"leftover_processes,omitempty"`
	Output      Output `json:"output"`
	// Baseline is the same command on the base; nil when it was not run.
	Baseline *Baseline `json:"baseline,omitempty"`
	// Sentence says in words how it ended.
	Sentence string `json:"sentence"`
}

// Baseline is how a command ended on the base.
type Baseline struct {
	Class      Class  `json:"class"`
	ExitCode   int    `json:"exit_code"`
	Signal     string `json:"signal,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	Detail     string `json:"detail,omitempty"`
}

// Failure is structured feedback about one failing command, for the agent.
type Failure struct {
	Command  string   `json:"command"`
	Argv     []string `json:"argv"`
	ExitCode int      `json:"exit_code"`
	Class    string   `json:"class"`
	Tail     string   `json:"tail"`
}

// MaxFeedbackTail bounds the output in a Failure, in bytes.
const MaxFeedbackTail = 16 << 10

// Failures are the blocking commands that a new patch can repair.
func (r Report) Failures() []Failure {
	var out []Failure
	for _, c := range r.Commands {
		if c.Blocks && c.Repairable {
			out = append(out, Failure{
				Command: c.Name, Argv: c.Argv, ExitCode: c.ExitCode, Class: string(c.Class), Tail: c.Output.last(MaxFeedbackTail),
			})
		}
	}
	return out
}

// Encode is the report as it is stored.
func (r Report) Encode() ([]byte, error) {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode verification report: %w", err)
	}
	return append(raw, '\n'), nil
}

func (c *CommandReport) classify(res sandbox.Result, err error, timeout time.Duration) {
	switch {
	case err != nil:
		c.Class, c.Detail = ClassError, err.Error()
		c.Sentence = fmt.Sprintf("%s could not be run: the sandbox failed.", c.Name)
	case res.TimedOut:
		c.Class, c.Repairable = ClassTimedOut, true
		c.Sentence = fmt.Sprintf("%s was stopped after %s without ending.", c.Name, timeout)
	case res.OOMKilled && !res.OK():
		c.Class, c.Repairable, c.Detail = ClassFailed, true, "out of memory"
		c.Sentence = fmt.Sprintf("%s ran out of the sandbox's memory.", c.Name)
	case (res.ExitCode == 127 || res.ExitCode == 126) && res.Detail != "":
		// Init itself found no program: the toolchain is missing here, and no
		// patch will bring it.
		c.Class = ClassError
		c.Sentence = fmt.Sprintf("%s could not be run on this worker: %s.", c.Name, res.Detail)
	case res.OK():
		c.Class = ClassPassed
		c.Sentence = fmt.Sprintf("%s passed in %s.", c.Name, res.Duration.Round(time.Millisecond))
	case res.Signal != "":
		c.Class, c.Repairable = ClassFailed, true
		c.Sentence = fmt.Sprintf("%s was ended by signal %q.", c.Name, res.Signal)
	default:
		c.Class, c.Repairable = ClassFailed, true
		c.Sentence = fmt.Sprintf("%s failed with exit code %d.", c.Name, res.ExitCode)
	}
}

func notRun(c Command, after string) CommandReport {
	return CommandReport{
		Name: c.Name, Kind: c.Kind, Argv: c.Argv, Class: ClassNotRun,
		Sentence: fmt.Sprintf("%s was not run, because %s could not be run.", c.Name, after),
	}
}

// conclude sets what blocks, the verdict and the summary.
func (r *Report) conclude(preexistingBlocks bool) {
	var passed, blocking, before int
	broken := ""
	r.Repairable = true
	for i := range r.Commands {
		c := &r.Commands[i]
		switch c.Class {
		case ClassPassed:
			passed++
		case ClassError:
			broken = c.Sentence
		case ClassFailed, ClassTimedOut:
			if b := c.Baseline; b != nil && (b.Class == ClassFailed || b.Class == ClassTimedOut) {
				c.Preexisting = true
				before++
				c.Sentence += " It failed before the change as well."
			} else if b != nil && b.Class == ClassPassed {
				c.Sentence += " It passed before the change."
			}
			c.Blocks = !c.Preexisting || preexistingBlocks
			if c.Blocks {
				blocking++
				r.Repairable = r.Repairable && c.Repairable
			}
		}
	}
	switch {
	case broken != "":
		r.Verdict, r.Repairable = VerdictError, false
		r.Summary = "Nothing can be said about the change. " + broken
	case blocking > 0:
		r.Verdict = VerdictFailed
		r.Summary = fmt.Sprintf("%d of %d checks failed because of the change.", blocking, len(r.Commands))
	default:
		r.Verdict, r.Repairable = VerdictPassed, false
		r.Summary = fmt.Sprintf("%d of %d checks passed.", passed, len(r.Commands))
	}
	if before > 0 {
		r.Summary += fmt.Sprintf(" %d failed before the change as well.", before)
	}
}

func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// localDir says whether a directory stays inside the checkout.
func localDir(dir string) bool {
	clean := path.Clean(dir)
	return !path.IsAbs(clean) && clean != ".." && !strings.HasPrefix(clean, "../")
}

func inRepo(dir string) string { return path.Join(sandbox.RepoDir, dir) }
