package run

import (
	"slices"
	"time"
)

// Category groups failures for people and for the retry matrix (SM 16).
type Category string

// The eleven failure categories.
const (
	CatInfrastructure     Category = "INFRASTRUCTURE"
	CatRepositoryAccess   Category = "REPOSITORY_ACCESS"
	CatPolicyDenied       Category = "POLICY_DENIED"
	CatPlanningFailed     Category = "PLANNING_FAILED"
	CatToolFailed         Category = "TOOL_FAILED"
	CatVerificationFailed Category = "VERIFICATION_FAILED"
	CatJudgeRejected      Category = "JUDGE_REJECTED"
	CatBudgetExceeded     Category = "BUDGET_EXCEEDED"
	CatPRCreationFailed   Category = "PR_CREATION_FAILED"
	CatUserCancelled      Category = "USER_CANCELLED"
	CatUnknown            Category = "UNKNOWN"
)

// Categories lists the failure categories.
func Categories() []Category {
	return []Category{CatInfrastructure, CatRepositoryAccess, CatPolicyDenied, CatPlanningFailed,
		CatToolFailed, CatVerificationFailed, CatJudgeRejected, CatBudgetExceeded,
		CatPRCreationFailed, CatUserCancelled, CatUnknown}
}

// Code is a failure's reason code. The retry decision reads it and never a log.
type Code string

// Reason codes. Each has one row in Codes.
const (
	CodeWorkerLost            Code = "WORKER_LOST"
	CodeSandboxStartTimeout   Code = "SANDBOX_START_TIMEOUT"
	CodeSandboxStartFailed    Code = "SANDBOX_START_FAILED"
	CodeIsolationTooWeak      Code = "ISOLATION_TOO_WEAK"
	CodeProviderRateLimit     Code = "PROVIDER_RATE_LIMIT"
	CodeGitCloneTransient     Code = "GIT_CLONE_FAILED_TRANSIENT"
	CodeGitAuthFailed         Code = "GIT_AUTH_FAILED"
	CodeRepositoryNotFound    Code = "REPOSITORY_NOT_FOUND"
	CodeRepositoryUnreachable Code = "REPOSITORY_UNREACHABLE"
	CodeRefNotFound           Code = "REF_NOT_FOUND"
	CodeRepositoryTooLarge    Code = "REPOSITORY_TOO_LARGE"
	CodeRepositoryUnsafe      Code = "REPOSITORY_UNSAFE"
	CodeDiskFull              Code = "DISK_FULL"
	CodeToolMissing           Code = "TOOL_MISSING"
	CodeDependencyUnavailable Code = "DEPENDENCY_UNAVAILABLE"
	CodeStartTimeout          Code = "START_TIMEOUT"
	CodeAttemptTimeout        Code = "ATTEMPT_TIMEOUT"
	CodeAgentExit             Code = "AGENT_EXIT_NONZERO"
	CodeAgentTimeout          Code = "AGENT_TIMEOUT"
	CodeAgentNoOutput         Code = "AGENT_NO_RESULT"
	CodeContextTooLarge       Code = "CONTEXT_TOO_LARGE"
	CodeAgentProtocol         Code = "AGENT_PROTOCOL_ERROR"
	CodePlanInvalid           Code = "PLAN_INVALID"
	CodeUnexpectedDiff        Code = "UNEXPECTED_DIFF"
	CodeEmptyPatch            Code = "EMPTY_PATCH"
	CodePatchInvalid          Code = "PATCH_INVALID"
	CodePatchDoesNotApply     Code = "PATCH_DOES_NOT_APPLY"
	CodePatchTooLarge         Code = "PATCH_TOO_LARGE"
	CodeVerifierFailed        Code = "VERIFIER_FAILED"
	CodeVerifierError         Code = "VERIFIER_ERROR"
	CodeJudgeRejected         Code = "JUDGE_REJECTED"
	CodeJudgeError            Code = "JUDGE_ERROR"
	CodePolicyDenied          Code = "POLICY_DENIED"
	CodeSecretFound           Code = "SECRET_FOUND"
	CodePatchNotScanned       Code = "PATCH_NOT_SCANNED"
	CodeForbiddenPath         Code = "FORBIDDEN_PATH"
	CodeGeneratedFiles        Code = "GENERATED_FILE_POLICY"
	CodeTaskContractInvalid   Code = "TASK_CONTRACT_INVALID"
	CodeCancelledByUser       Code = "CANCELLED_BY_USER"
	CodeHumanRejected         Code = "HUMAN_REJECTED"
	CodeApprovalExpired       Code = "APPROVAL_EXPIRED"
	CodeAttestationRefused    Code = "ATTESTATION_REFUSED"
	CodeAttestationExpired    Code = "ATTESTATION_EXPIRED"
	CodeBudgetExceeded        Code = "BUDGET_EXCEEDED"
	CodeRunTimeout            Code = "RUN_TIMEOUT"
	CodeQueueTimeout          Code = "QUEUE_TIMEOUT"
	CodeDeferTimeout          Code = "DEFER_TIMEOUT"
	CodePushRejected          Code = "PUSH_REJECTED"
	CodeForgeUnavailable      Code = "FORGE_UNAVAILABLE"
	CodePRCreationFailed      Code = "PR_CREATION_FAILED"
	CodeBranchTouched         Code = "BRANCH_TOUCHED"
	CodeUnknown               Code = "UNKNOWN"
)

// Retry says what a reason code allows.
type Retry string

// What may follow a failure.
const (
	// RetryAgain: the control plane tries again by itself, with backoff.
	RetryAgain Retry = "retry"
	// RetryRepair: back to EXECUTING with feedback while rounds are left.
	RetryRepair Retry = "repair"
	// RetryNever: trying again would give the same, or must not be done.
	RetryNever Retry = "never"
	// RetryHuman: a person looks at it first.
	RetryHuman Retry = "human"
)

// CodeInfo is one row of the retry matrix.
type CodeInfo struct {
	Code     Code
	Category Category
	Retry    Retry
	// Sentence tells a person what it means.
	Sentence string
}

// Codes is the retry matrix of R-FAIL-2: one row per reason code.
func Codes() []CodeInfo {
	return []CodeInfo{
		{CodeWorkerLost, CatInfrastructure, RetryAgain, "The worker stopped answering."},
		{CodeSandboxStartTimeout, CatInfrastructure, RetryAgain, "The sandbox did not start in time."},
		{CodeSandboxStartFailed, CatInfrastructure, RetryAgain, "The sandbox could not be started."},
		{CodeIsolationTooWeak, CatPolicyDenied, RetryNever, "The worker's sandbox is weaker than policy asks for."},
		{CodeProviderRateLimit, CatInfrastructure, RetryAgain, "The model provider asked to slow down."},
		{CodeGitCloneTransient, CatInfrastructure, RetryAgain, "The repository could not be fetched; the fault looks temporary."},
		{CodeGitAuthFailed, CatRepositoryAccess, RetryNever, "The repository refused the credential."},
		{CodeRepositoryNotFound, CatRepositoryAccess, RetryNever, "The repository does not exist at its address."},
		{CodeRepositoryUnreachable, CatRepositoryAccess, RetryAgain, "The repository's host could not be reached."},
		{CodeRefNotFound, CatRepositoryAccess, RetryNever, "The branch, tag or commit to start from does not exist."},
		{CodeRepositoryTooLarge, CatRepositoryAccess, RetryNever, "The repository is larger than the workspace allows."},
		{CodeRepositoryUnsafe, CatRepositoryAccess, RetryNever, "The repository holds objects that git refuses as broken or unsafe."},
		{CodeDiskFull, CatInfrastructure, RetryAgain, "The worker ran out of disk space."},
		{CodeToolMissing, CatInfrastructure, RetryNever, "A program that the run needs is not installed on the worker."},
		{CodeDependencyUnavailable, CatInfrastructure, RetryAgain, "A dependency could not be had."},
		{CodeStartTimeout, CatInfrastructure, RetryAgain, "The worker took the run and did not start in time."},
		{CodeAttemptTimeout, CatToolFailed, RetryAgain, "The attempt took longer than its limit."},
		{CodeAgentExit, CatToolFailed, RetryAgain, "The agent ended with an error."},
		{CodeAgentTimeout, CatToolFailed, RetryAgain, "The agent did not finish in time."},
		{CodeAgentNoOutput, CatToolFailed, RetryAgain, "The agent ended without a result."},
		{CodeContextTooLarge, CatPlanningFailed, RetryAgain, "The agent read more than its model can hold."},
		{CodeAgentProtocol, CatToolFailed, RetryAgain, "The agent's output could not be understood."},
		{CodePlanInvalid, CatPlanningFailed, RetryAgain, "The agent's plan lacks something that a plan must state."},
		{CodeUnexpectedDiff, CatToolFailed, RetryAgain, "The task asked for a report only, but files were changed."},
		{CodeEmptyPatch, CatToolFailed, RetryAgain, "The agent handed in a patch without a change."},
		{CodePatchInvalid, CatToolFailed, RetryAgain, "The patch could not be read."},
		{CodePatchDoesNotApply, CatToolFailed, RetryAgain, "The stored patch does not apply to a fresh checkout."},
		{CodePatchTooLarge, CatToolFailed, RetryNever, "The patch is larger than the limit."},
		{CodeVerifierFailed, CatVerificationFailed, RetryRepair, "The build, the tests or another check failed on the stored patch."},
		{CodeVerifierError, CatInfrastructure, RetryAgain, "The checks could not be run."},
		{CodeJudgeRejected, CatJudgeRejected, RetryRepair, "The judge did not accept the change."},
		{CodeJudgeError, CatInfrastructure, RetryAgain, "The judge could not give a verdict."},
		{CodePolicyDenied, CatPolicyDenied, RetryNever, "Policy does not allow this run."},
		{CodeSecretFound, CatPolicyDenied, RetryRepair, "The patch holds something that looks like a secret."},
		{CodePatchNotScanned, CatPolicyDenied, RetryNever, "The patch could not be scanned for secrets."},
		{CodeForbiddenPath, CatPolicyDenied, RetryRepair, "The patch touches a path that must not change."},
		{CodeGeneratedFiles, CatPolicyDenied, RetryRepair, "The patch breaks the policy for generated files."},
		{CodeTaskContractInvalid, CatPolicyDenied, RetryNever, "The task's contract is not valid."},
		{CodeCancelledByUser, CatUserCancelled, RetryNever, "A person cancelled the run."},
		{CodeHumanRejected, CatJudgeRejected, RetryNever, "A person rejected it."},
		{CodeApprovalExpired, CatPolicyDenied, RetryNever, "Nobody decided before the request expired."},
		{CodeAttestationRefused, CatVerificationFailed, RetryNever, "The attestor refused the result."},
		{CodeAttestationExpired, CatVerificationFailed, RetryNever, "No attestation came in time."},
		{CodeBudgetExceeded, CatBudgetExceeded, RetryNever, "The run reached its budget."},
		{CodeRunTimeout, CatBudgetExceeded, RetryNever, "The run took longer than its limit."},
		{CodeQueueTimeout, CatInfrastructure, RetryAgain, "No worker took the run in time."},
		{CodeDeferTimeout, CatInfrastructure, RetryAgain, "The run was put off for longer than allowed."},
		{CodePushRejected, CatPRCreationFailed, RetryAgain, "The forge refused the push."},
		{CodeForgeUnavailable, CatPRCreationFailed, RetryAgain, "The forge did not answer."},
		{CodePRCreationFailed, CatPRCreationFailed, RetryAgain, "The pull request could not be opened."},
		{CodeBranchTouched, CatPRCreationFailed, RetryNever, "Somebody else committed to the run's branch."},
		{CodeUnknown, CatUnknown, RetryHuman, "The failure could not be classified; a person should look."},
	}
}

// Lookup returns the row of a reason code. An unknown code is classified as
// UNKNOWN: it goes to a person and is never retried automatically.
func Lookup(c Code) CodeInfo {
	for _, i := range Codes() {
		if i.Code == c {
			return i
		}
	}
	return CodeInfo{Code: CodeUnknown, Category: CatUnknown, Retry: RetryHuman,
		Sentence: "The failure could not be classified; a person should look."}
}

// Deterministic reports whether the same work, done again by the same agent from the same base with nothing new said to
// it, is likely to end with the code again. Such a failure is tried again once and not twice in a row (R-FAIL-9).
func (c Code) Deterministic() bool {
	return slices.Contains([]Code{CodePlanInvalid, CodeUnexpectedDiff, CodeEmptyPatch, CodePatchInvalid, CodePatchDoesNotApply,
		CodeAgentNoOutput, CodeAgentProtocol, CodeContextTooLarge}, c)
}

// Crash reports whether the code says that a worker went down with the run or never got going with it. What the work
// itself does wrong is no crash.
func (c Code) Crash() bool { return c == CodeWorkerLost || c == CodeStartTimeout }

// Instruction is what the next try is told to do differently after the code; empty where the same may be tried as it
// was. It is given once: the same code again ends the run (R-FAIL-9).
func (c Code) Instruction() string {
	switch c {
	case CodeContextTooLarge:
		return "The last attempt read more than the model can hold. Work with a smaller context: read only the files that the task names and those next to them."
	case CodePlanInvalid:
		return "The last plan could not be used. Plan with a smaller context: few files, and every part that a plan must state."
	}
	return ""
}

// Failure is what a failed or expired run keeps.
type Failure struct {
	Category Category `json:"category"`
	Code     Code     `json:"code"`
	// Retryable says whether a new run of the same task may help.
	Retryable bool   `json:"retryable"`
	Summary   string `json:"summary"`
	// Evidence is the artifact that shows it, or empty.
	Evidence string `json:"evidence,omitempty"`
}

// failure builds a Failure from a code; summary falls back to the code's sentence.
func failure(c Code, summary, evidence string) *Failure {
	i := Lookup(c)
	if summary == "" {
		summary = i.Sentence
	}
	return &Failure{Category: i.Category, Code: i.Code, Retryable: i.Retry == RetryAgain || i.Retry == RetryRepair,
		Summary: summary, Evidence: evidence}
}

// Backoff returns the delay before try n (1 is the first retry): the n-th of
// delays, the last one for every later n, plus at most the fraction jitter of it.
// draw is a number in [0, 1) that the caller drew.
func Backoff(delays []time.Duration, n int, jitter, draw float64) time.Duration {
	if len(delays) == 0 || n < 1 {
		return 0
	}
	d := delays[min(n, len(delays))-1]
	share := min(max(jitter, 0), 1) * min(max(draw, 0), 1)
	return d + time.Duration(share*float64(d))
}
