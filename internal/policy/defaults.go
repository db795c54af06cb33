package policy

import "time"

// DefaultVersion names the rules that hold where nobody wrote any.
const DefaultVersion = "default-1"

// Default returns the rules that hold without a document: everything is
// admitted, a person decides before every pull request and before a plan of
// HIGH or CRITICAL risk is carried out, and work runs in bubblewrap.
func Default() Rules {
	const day = Duration(24 * time.Hour)
	sec, minute, hour := Duration(time.Second), Duration(time.Minute), Duration(time.Hour)
	high := func() []Risk { return []Risk{RiskHigh, RiskCritical} }
	return Rules{
		Schema:  1,
		Version: DefaultVersion,
		Admission: AdmissionRules{
			Repositories: []string{"**"},
			AnalysisOnly: []string{},
			Risks:        Risks(),
			Modes:        Modes(),
			Incident:     IncidentRules{RetryAfter: 5 * minute},
		},
		Limits: Limits{
			MaxAttempts: 3, MaxRuns: 3, RepairRounds: 2, Redeliveries: 3, MaxBaseMoves: 3, MaxCrashes: 3, MaxRateLimits: 20,
			StartTimeout: 2 * minute, CommandTimeout: 10 * minute, StepTimeout: 20 * minute,
			AttemptTimeout: 45 * minute, RunTimeout: 3 * hour, QueueTimeout: day,
			ApprovalTimeout: 3 * day, AttestationTimeout: 7 * day,
			MaxDefer: day, MaxPark: 30 * day, MergeWait: 30 * day, TaskIdle: 14 * day,
			CancelGrace: 10 * sec, StopGrace: 30 * sec, LeaseTTL: 30 * sec, Heartbeat: 5 * sec,
			ChangedFiles: 100, DiffLines: 5000, PatchBytes: 2 << 20,
			AgentIterations: 200, ToolCalls: 1000, ShellTime: 30 * minute, VerifierTime: 30 * minute,
			SandboxTime: 6 * hour, ProviderCalls: 10_000, TokensIn: 5_000_000, TokensOut: 500_000, CostCents: 1000,
		},
		Retry: RetryRules{Delays: []Duration{30 * sec, 2 * minute, 10 * minute, 30 * minute}, Jitter: 0.2, Cautious: []Risk{}},
		Gates: GateRules{
			Plan:         GateRule{When: ByRisk, Risks: high(), Quorum: 1, Role: RoleApprover},
			Patch:        GateRule{When: ByRisk, Risks: high(), Quorum: 1, Role: RoleApprover},
			Report:       GateRule{When: Never, Risks: []Risk{}, Quorum: 1, Role: RoleApprover},
			Budget:       GateRule{When: Always, Risks: []Risk{}, Quorum: 1, Role: RoleApprover},
			ConfirmLogin: high(),
			Reconcile:    GateRule{When: Always, Risks: []Risk{}, Quorum: 1, Role: RoleApprover},
		},
		Judge:  JudgeRules{MinConfidence: 0.7},
		AutoPR: AutoPRRules{Allowed: false},
		Paths: PathRules{
			Forbidden:     []string{},
			Protected:     protectedByDefault(),
			ProtectedRisk: RiskHigh,
			Generated: []string{
				"**/*.pb.go", "**/*_pb2.py", "**/*_templ.go", "**/zz_generated*", "**/*.gen.go",
				"**/*_generated.go", "**/*.generated.*", "**/generated/**", "**/*.min.js", "**/*.min.css",
			},
			GeneratedRule:    GeneratedAllow,
			GeneratedSources: []string{},
			Symlinks:         false,
			Binaries:         false,
		},
		Execution:   ExecutionRules{MinIsolation: IsolationBwrap, SameWorkerMayVerify: true},
		Attestation: AttestationRules{Required: false, OnExpiry: OnEscalate},
		Approval:    ApprovalRules{OnExpiry: OnEscalate},
		Budget:      BudgetRules{OnExceeded: OnGate},
		RunTimeout:  RunTimeoutRules{Outcome: OnExpire},
		Routing:     RoutingRules{Queues: []QueueRule{}, Agents: map[string]AgentRule{}, MaxPriority: HighestPriority},
		Concurrency: ConcurrencyRules{Risks: map[Risk]int{}, Providers: map[string]int{}, Pools: map[string]int{}},
		Installation: InstallationRules{Tenants: map[string]TenantShare{},
			Concurrency: ConcurrencyRules{Risks: map[Risk]int{}, Providers: map[string]int{}, Pools: map[string]int{}}},
	}
}

// protectedByDefault lists the files by which a patch could take over what
// runs after it: CI definitions, owners of review, lockfiles, instructions
// and settings that coding agents obey.
func protectedByDefault() []string {
	return []string{
		"**/.github/**", "**/.gitlab-ci.yml", "**/.gitlab/**", "**/.gitea/**", "**/.forgejo/**",
		"**/.woodpecker*", "**/.woodpecker/**", "**/.drone.yml", "**/.circleci/**", "**/.buildkite/**",
		"**/.travis.yml", "**/azure-pipelines*.yml", "**/bitbucket-pipelines.yml", "**/Jenkinsfile*",
		"**/.ci/**", "**/action.yml", "**/action.yaml", "**/CODEOWNERS", "**/.pre-commit-config.yaml",
		"**/.gitmodules", "**/.gitattributes", "**/.lfsconfig",
		"**/go.sum", "**/package-lock.json", "**/npm-shrinkwrap.json", "**/yarn.lock", "**/pnpm-lock.yaml",
		"**/Cargo.lock", "**/poetry.lock", "**/uv.lock", "**/Pipfile.lock", "**/Gemfile.lock",
		"**/composer.lock", "**/gradle.lockfile", "**/flake.lock", "**/.npmrc", "**/.yarnrc*", "**/pip.conf",
		"**/.claude/**", "**/.cursor/**", "**/.codex/**", "**/.gemini/**", "**/.mcp.json",
		"**/AGENTS.md", "**/CLAUDE.md", "**/GEMINI.md", "**/.cursorrules", "**/.windsurfrules",
		"**/.aider*", "**/.vscode/**", "**/.devcontainer/**", "**/.husky/**", "**/.envrc",
	}
}

// Outcome is what a rule makes of an event that nobody wanted.
type Outcome string

// Outcomes. Which of them a field accepts is said at the field.
const (
	OnEscalate Outcome = "escalate"
	OnCancel   Outcome = "cancel"
	OnFail     Outcome = "fail"
	OnGate     Outcome = "gate"
	OnExpire   Outcome = "expire"
)
