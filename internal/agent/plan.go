package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// Plan is what a run may not leave planning without: which files change, how
// the result is verified, what can go wrong, when to stop, what is forbidden.
type Plan struct {
	Summary string `json:"summary,omitempty"`
	// Files are paths or patterns relative to the repository.
	Files []string `json:"files"`
	// Verifiers name the commands that must pass.
	Verifiers []string `json:"verifiers"`
	Risks     []string `json:"risks"`
	// StopCondition says when the agent is done.
	StopCondition string `json:"stop_condition"`
	// ForbiddenChanges are paths or patterns the agent will not touch; an
	// empty list must be said, not left out.
	ForbiddenChanges []string `json:"forbidden_changes"`
	Steps            []string `json:"steps"`
}

// Limits of a plan; people must be able to read it.
const (
	maxPlanEntries = 500
	maxPlanText    = 4096
)

// PlanError names the field of a plan that is missing or unusable.
type PlanError struct {
	Field  string
	Reason string
}

func (e *PlanError) Error() string { return fmt.Sprintf("plan: %s %s", e.Field, e.Reason) }

// ParsePlan reads and validates a plan. Unknown fields are ignored, because
// agents add what they like; missing ones are not.
func ParsePlan(raw []byte) (Plan, error) {
	var shape struct {
		Summary          string    `json:"summary"`
		Files            *[]string `json:"files"`
		Verifiers        *[]string `json:"verifiers"`
		Risks            *[]string `json:"risks"`
		StopCondition    string    `json:"stop_condition"`
		ForbiddenChanges *[]string `json:"forbidden_changes"`
		Steps            *[]string `json:"steps"`
	}
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&shape); err != nil {
		field := "document"
		if te, ok := asTypeError(err); ok && te.Field != "" {
			field = te.Field
		}
		return Plan{}, &PlanError{Field: field, Reason: "is not of the expected type: " + err.Error()}
	}
	p := Plan{Summary: shape.Summary, StopCondition: shape.StopCondition}
	for _, f := range []struct {
		name string
		from *[]string
		to   *[]string
	}{
		{"files", shape.Files, &p.Files},
		{"verifiers", shape.Verifiers, &p.Verifiers},
		{"risks", shape.Risks, &p.Risks},
		{"forbidden_changes", shape.ForbiddenChanges, &p.ForbiddenChanges},
		{"steps", shape.Steps, &p.Steps},
	} {
		if f.from == nil {
			return Plan{}, &PlanError{Field: f.name, Reason: "is missing"}
		}
		*f.to = *f.from
	}
	return p, p.Validate()
}

// Validate checks a plan from any source. Its errors are *PlanError.
func (p Plan) Validate() error {
	if strings.TrimSpace(p.StopCondition) == "" {
		return &PlanError{Field: "stop_condition", Reason: "is missing: say when the work is done"}
	}
	if err := planText("stop_condition", p.StopCondition); err != nil {
		return err
	}
	if err := planText("summary", p.Summary); err != nil {
		return err
	}
	for _, f := range []struct {
		name   string
		list   []string
		needed bool
		path   bool
	}{
		{"files", p.Files, true, true},
		{"verifiers", p.Verifiers, true, false},
		{"risks", p.Risks, false, false},
		{"forbidden_changes", p.ForbiddenChanges, false, true},
		{"steps", p.Steps, true, false},
	} {
		if f.list == nil {
			return &PlanError{Field: f.name, Reason: "is missing"}
		}
		if f.needed && len(f.list) == 0 {
			return &PlanError{Field: f.name, Reason: "is empty"}
		}
		if len(f.list) > maxPlanEntries {
			return &PlanError{Field: f.name, Reason: fmt.Sprintf("has %d entries; the limit is %d", len(f.list), maxPlanEntries)}
		}
		for i, entry := range f.list {
			name := fmt.Sprintf("%s[%d]", f.name, i)
			if strings.TrimSpace(entry) == "" {
				return &PlanError{Field: name, Reason: "is empty"}
			}
			if err := planText(name, entry); err != nil {
				return err
			}
			if f.path {
				if err := planPath(name, entry); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func planText(field, text string) error {
	if len(text) > maxPlanText {
		return &PlanError{Field: field, Reason: fmt.Sprintf("is %d bytes long; the limit is %d", len(text), maxPlanText)}
	}
	if !utf8.ValidString(text) {
		return &PlanError{Field: field, Reason: "is not UTF-8"}
	}
	for _, r := range text {
		if r < ' ' && r != '\n' && r != '\t' {
			return &PlanError{Field: field, Reason: "contains control characters"}
		}
	}
	return nil
}

func planPath(field, p string) error {
	if path.IsAbs(p) || p == ".." || strings.HasPrefix(path.Clean(p), "../") || strings.Contains(p, "\\") {
		return &PlanError{Field: field, Reason: "must be a path inside the repository"}
	}
	return nil
}
