package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// Contract is what a task allows and asks for. It does not change after
// submission and its digest is part of every run of the task.
type Contract struct {
	Mode Mode   `json:"mode"`
	Risk string `json:"risk"`
	// Scope are globs of paths that may change; empty means all. Forbidden ones
	// must not.
	Scope      []string `json:"scope,omitempty"`
	Forbidden  []string `json:"forbidden,omitempty"`
	Acceptance []string `json:"acceptance,omitempty"`
	// PlanGate asks a person about the plan, AutoPR allows a pull request without
	// a person where policy agrees, Attestation halts before success.
	PlanGate    bool `json:"plan_gate,omitempty"`
	AutoPR      bool `json:"auto_pr,omitempty"`
	Attestation bool `json:"attestation,omitempty"`
	// Requires are capabilities that the workers must offer, beside the repository's.
	Requires []string `json:"requires,omitempty"`
	// Verification are checks beside those of the repository.
	Verification []Check `json:"verification,omitempty"`
}

// Check is one verification command. It runs without a shell.
type Check struct {
	Name string `json:"name"`
	// Kind is format, lint, compile, test, static_analysis or domain.
	Kind           string   `json:"kind,omitempty"`
	Argv           []string `json:"argv"`
	Dir            string   `json:"dir,omitempty"`
	TimeoutSeconds int      `json:"timeout_seconds,omitempty"`
}

// Digest is the SHA-256 of the contract's canonical JSON, in lower-case hex.
func (c Contract) Digest() (string, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode contract: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Unverifiable says why a change could not be verified with the repository's checks and the contract's own, and what to
// do; it is empty where it can be, and in the mode without a change. The set is fixed before the work begins, so that
// this is known before a token is spent.
func (c Contract) Unverifiable(repository []Check) string {
	if c.Mode == ModeAnalysis {
		return ""
	}
	all := slices.Concat(repository, c.Verification)
	if len(all) == 0 {
		return "Neither the repository nor the task names a check, so nothing could tell whether the change works. " +
			"Name at least one check in the task, choose a repository that has one, or ask for a report only."
	}
	seen := map[string]bool{}
	for _, k := range all {
		if seen[k.Name] {
			return fmt.Sprintf("Two checks are named %q, so a report could not tell them apart. Give the task's check another name.", k.Name)
		}
		seen[k.Name] = true
	}
	return ""
}
