package worker

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"signalbox/internal/agent"
	"signalbox/internal/git"
	"signalbox/internal/verify"
	"signalbox/internal/wire"
)

// planFor gets the plan that the agent works by. submit says that the run is still planning: then the plan is stored
// and reported, and the server decides whether a person looks at it first.
func (s *session) planFor(p *place, profile Profile, tree string, submit bool) (*agent.Plan, error) {
	content, err := s.knownPlan()
	if err != nil {
		return nil, err
	}
	if !submit {
		if content == nil {
			return nil, nil
		}
		plan, err := agent.ParsePlan(content)
		if err != nil {
			return nil, failWith(codePlanInvalid, err, "The stored plan could not be read.")
		}
		return &plan, nil
	}
	if content == nil {
		if content, err = s.makePlan(p, profile, tree); err != nil {
			return nil, err
		}
	}
	plan, err := agent.ParsePlan(content)
	if err != nil {
		return nil, failWith(codePlanInvalid, err, "The plan lacks something that a plan must state: %s.", err)
	}
	stored, err := s.store(wire.ArtifactKindPlan, "plan.json", content, uploadOptions{})
	if err != nil {
		return nil, refusedUpload(err, codePlanInvalid, "The server refused the plan")
	}
	s.l.facts.drain()
	if err := s.l.step(wire.RunCommand{Command: wire.CmdPlanSubmitted, PlanSubmitted: &wire.PlanSubmitted{ArtifactId: stored.Id}}); err != nil {
		return nil, err
	}
	return &plan, nil
}

// knownPlan is the plan in force: the approved one, or in EXECUTING the one that was stored.
func (s *session) knownPlan() ([]byte, error) {
	known := s.as.Plan
	if known == nil || (!known.Approved && s.as.State != wire.RunStateEXECUTING) {
		return nil, nil
	}
	content, err := s.l.fetch(known.ArtifactId, known.Digest, 4<<20)
	if err != nil {
		return nil, failWith(codePlanInvalid, err, "The stored plan could not be read.")
	}
	return content, nil
}

// makePlan asks the agent where it plans itself, else writes down what the contract already says.
func (s *session) makePlan(p *place, profile Profile, tree string) ([]byte, error) {
	asks := profile.Plan == "agent" || (profile.Plan != "contract" && s.as.PlanGate)
	plan := s.contractPlan()
	if asks {
		out, err := s.runAgent(p, profile, agent.PhasePlan, nil)
		if err != nil {
			return nil, err
		}
		if err := agentFailure(out); err != nil {
			return nil, withOutcome(err, out)
		}
		if out.Plan == nil {
			why := "The agent ended its planning without a plan."
			if out.Summary != "" {
				why += " Its own words: " + clip(out.Summary, 1000)
			}
			return nil, withOutcome(fail(codePlanInvalid, "%s", why), out)
		}
		plan = *out.Plan
		// Nothing is edited before EXECUTING (R-CTX-1): what a planning agent changed is thrown away.
		if err := s.act("checkout", "Restore the checkout after planning", func() (string, error) { return "", p.refill(tree) }); err != nil {
			return nil, err
		}
	}
	content, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	return append(content, '\n'), nil
}

// contractPlan says no more than the contract does, and says that it does so.
func (s *session) contractPlan() agent.Plan {
	c := s.as.Contract
	plan := agent.Plan{
		Summary:          "Written by the worker from the task's contract; this agent does not plan by itself.",
		Files:            slices.Clone(c.Scope),
		Risks:            []string{"Risk class of the task: " + string(c.Risk) + "."},
		StopCondition:    "The goal is met and every verification command passes.",
		ForbiddenChanges: append([]string{}, c.Forbidden...),
		Steps:            []string{"Run the agent profile " + s.as.AgentProfile + " on the goal: " + clip(s.as.Title, 300)},
	}
	if len(plan.Files) == 0 {
		plan.Files = []string{"**"}
	}
	for _, v := range s.as.Verification {
		plan.Verifiers = append(plan.Verifiers, v.Name)
	}
	for _, v := range c.Verification {
		if !slices.Contains(plan.Verifiers, v.Name) {
			plan.Verifiers = append(plan.Verifiers, v.Name)
		}
	}
	if len(plan.Verifiers) == 0 {
		plan.Verifiers = []string{"the commands that the repository's settings name"}
	}
	if len(c.Acceptance) > 0 {
		plan.StopCondition = clip("All of this is true: "+strings.Join(c.Acceptance, " "), 4000)
	}
	return plan
}

// feedback is what verifier, judge and people said, in the agent's form. A verification report is read for its
// failing commands, so that the agent gets them structured and not as prose.
func (s *session) feedback() ([]agent.Feedback, error) {
	var all []agent.Feedback
	for _, f := range s.as.Feedback {
		one := agent.Feedback{Source: string(f.Source), Message: f.Text, Revision: f.Revision}
		if f.Source == wire.FeedbackVerifier && f.ArtifactId != "" {
			raw, err := s.l.fetch(f.ArtifactId, "", 64<<20)
			if err != nil {
				return nil, fmt.Errorf("read the verifier's report: %w", err)
			}
			var report verify.Report
			if json.Unmarshal(raw, &report) == nil {
				for _, bad := range report.Failures() {
					one.Failures = append(one.Failures, agent.Failure{Command: bad.Command, Argv: bad.Argv, ExitCode: bad.ExitCode, Class: bad.Class, Tail: bad.Tail})
				}
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// instructionNames are the files that repositories use to tell agents and people how to work in them.
func instructionNames() []string {
	return []string{
		"AGENTS.md", "CLAUDE.md", "GEMINI.md", "CONTRIBUTING.md", "CONTRIBUTING", "CONTRIBUTING.rst", "DEVELOPMENT.md", "CODEOWNERS", ".github/CONTRIBUTING.md",
		".github/copilot-instructions.md", ".github/CODEOWNERS", "docs/CONTRIBUTING.md", "README.md", "README", "README.rst",
	}
}

type instruction struct {
	Path    string `json:"path"`
	Object  string `json:"object"`
	Bytes   int64  `json:"bytes"`
	Cut     bool   `json:"cut,omitempty"`
	Content string `json:"content"`
}

type repositoryMap struct {
	Schema     string         `json:"schema"`
	BaseCommit string         `json:"base_commit"`
	Files      int            `json:"files"`
	Bytes      int64          `json:"bytes"`
	Languages  map[string]int `json:"files_by_extension"`
	Top        []string       `json:"top_level"`
	Builds     []string       `json:"build_files"`
	Submodules []string       `json:"submodules,omitempty"`
	Paths      []string       `json:"paths"`
	Cut        bool           `json:"paths_cut,omitempty"`
}

type contextDocument struct {
	Schema        string        `json:"schema"`
	Task          string        `json:"task"`
	Goal          string        `json:"goal"`
	BaseCommit    string        `json:"base_commit"`
	RepositoryMap string        `json:"repository_map_artifact"`
	Instructions  []instruction `json:"instructions"`
	Verifiers     []string      `json:"verifiers"`
	Feedback      int           `json:"feedback_entries"`
}

// The bounds of a context: people and models read it.
const (
	maxMapPaths         = 5000
	maxInstructionBytes = 64 << 10
)

// buildContext reads the repository from its objects, never from the workspace, and stores map and first context.
func (s *session) buildContext() error {
	var id string
	err := s.act("context", "Read the repository", func() (string, error) {
		entries, err := s.repo.Tree(s.l.work, s.base)
		if err != nil {
			return "", gitFailure(err, "Reading the repository")
		}
		m := mapOf(s.base, entries)
		raw, err := json.MarshalIndent(m, "", "  ")
		if err != nil {
			return "", fmt.Errorf("encode repository map: %w", err)
		}
		mapped, err := s.l.upload(s.l.work, wire.ArtifactKindRepositoryMap, "repository-map.json", raw, uploadOptions{})
		if err != nil {
			return "", err
		}
		doc := contextDocument{Schema: "signalbox.context/v1", Task: s.as.Title, Goal: s.as.Goal, BaseCommit: s.base, RepositoryMap: mapped.Id, Feedback: len(s.as.Feedback), Instructions: []instruction{}}
		for _, v := range s.as.Verification {
			doc.Verifiers = append(doc.Verifiers, v.Name)
		}
		if doc.Instructions, err = s.instructions(entries); err != nil {
			return "", err
		}
		if raw, err = json.MarshalIndent(doc, "", "  "); err != nil {
			return "", fmt.Errorf("encode context: %w", err)
		}
		stored, err := s.l.upload(s.l.work, wire.ArtifactKindContext, "context.json", raw, uploadOptions{})
		if err != nil {
			return "", err
		}
		id = stored.Id
		return fmt.Sprintf("%d files; %d instruction files read.", m.Files, len(doc.Instructions)), nil
	})
	if err != nil {
		return err
	}
	return s.l.step(wire.RunCommand{Command: wire.CmdContextReady, ContextReady: &wire.ContextReady{ArtifactId: id}})
}

func (s *session) instructions(entries []git.Entry) ([]instruction, error) {
	found := []instruction{}
	names := instructionNames()
	for _, e := range entries {
		if !slices.Contains(names, e.Path) || e.Mode == "120000" || e.Mode == "160000" || e.Size < 0 {
			continue
		}
		i := instruction{Path: e.Path, Object: e.Object, Bytes: e.Size}
		if e.Size > 4<<20 {
			i.Cut = true
			found = append(found, i)
			continue
		}
		raw, err := s.repo.Blob(s.l.work, e.Object, 4<<20)
		if err != nil {
			return nil, gitFailure(err, "Reading the repository")
		}
		i.Content, i.Cut = clip(string(raw), maxInstructionBytes), len(raw) > maxInstructionBytes
		found = append(found, i)
	}
	return found, nil
}

func mapOf(base string, entries []git.Entry) repositoryMap {
	m := repositoryMap{Schema: "signalbox.repository_map/v1", BaseCommit: base, Languages: map[string]int{}, Top: []string{}, Builds: []string{}, Paths: []string{}}
	builds := []string{
		"go.mod", "package.json", "pyproject.toml", "setup.py", "requirements.txt", "Cargo.toml", "pom.xml", "build.gradle", "build.gradle.kts", "Makefile", "CMakeLists.txt", "Gemfile", "composer.json", "mix.exs", "BUILD.bazel",
	}
	for _, e := range entries {
		if e.Mode == "160000" {
			m.Submodules = append(m.Submodules, clip(e.Path, 400))
			continue
		}
		m.Files++
		m.Bytes += max(0, e.Size)
		ext := strings.ToLower(path.Ext(e.Path))
		if ext == "" || len(ext) > 12 {
			ext = "other"
		}
		m.Languages[clip(ext, 40)]++
		top, _, deep := strings.Cut(e.Path, "/")
		if deep {
			top += "/"
		}
		if top = clip(top, 400); !slices.Contains(m.Top, top) && len(m.Top) < 500 {
			m.Top = append(m.Top, top)
		}
		if slices.Contains(builds, path.Base(e.Path)) && len(m.Builds) < 200 {
			m.Builds = append(m.Builds, clip(e.Path, 400))
		}
		if len(m.Paths) < maxMapPaths {
			m.Paths = append(m.Paths, clip(e.Path, 400))
		} else {
			m.Cut = true
		}
	}
	return m
}
