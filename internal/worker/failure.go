package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"signalbox/internal/agent"
	"signalbox/internal/git"
	"signalbox/internal/sandbox"
)

// The reason codes that a worker reports. What they allow is the server's knowledge alone.
const (
	codeSandboxStart    = "SANDBOX_START_FAILED"
	codeIsolation       = "ISOLATION_TOO_WEAK"
	codeRateLimit       = "PROVIDER_RATE_LIMIT"
	codeTooLargeRepo    = "REPOSITORY_TOO_LARGE"
	codeUnsafeRepo      = "REPOSITORY_UNSAFE"
	codeDiskFull        = "DISK_FULL"
	codeToolMissing     = "TOOL_MISSING"
	codeAgentExit       = "AGENT_EXIT_NONZERO"
	codeAgentTimeout    = "AGENT_TIMEOUT"
	codeAgentNoResult   = "AGENT_NO_RESULT"
	codeContextTooLarge = "CONTEXT_TOO_LARGE"
	codeAttemptTimeout  = "ATTEMPT_TIMEOUT"
	codePlanInvalid     = "PLAN_INVALID"
	codeUnexpectedDiff  = "UNEXPECTED_DIFF"
	codeEmptyPatch      = "EMPTY_PATCH"
	codePatchInvalid    = "PATCH_INVALID"
	codePatchNoApply    = "PATCH_DOES_NOT_APPLY"
	codePatchTooLarge   = "PATCH_TOO_LARGE"
	codeVerifierError   = "VERIFIER_ERROR"
	codeJudgeError      = "JUDGE_ERROR"
	codeContractInvalid = "TASK_CONTRACT_INVALID"
	codePushRejected    = "PUSH_REJECTED"
	codeForgeAway       = "FORGE_UNAVAILABLE"
	codePRFailed        = "PR_CREATION_FAILED"
	codeRepoNotFound    = "REPOSITORY_NOT_FOUND"
	codeRefNotFound     = "REF_NOT_FOUND"
	codeUnknown         = "UNKNOWN"
)

// failure ends an attempt with a reason code and a sentence.
type failure struct {
	code     string
	sentence string
	err      error
	evidence []byte        // stored as the attempt's failure, if any
	after    time.Duration // how long the model's provider asked to be left alone
}

func (f *failure) Error() string {
	if f.err != nil {
		return f.code + ": " + f.sentence + ": " + f.err.Error()
	}
	return f.code + ": " + f.sentence
}

func (f *failure) Unwrap() error { return f.err }

func fail(code, sentence string, args ...any) error {
	return &failure{code: code, sentence: fmt.Sprintf(sentence, args...)}
}

func failWith(code string, err error, sentence string, args ...any) error {
	return &failure{code: code, sentence: fmt.Sprintf(sentence, args...), err: err}
}

// gitFailure gives a git error the code and the sentence of the run's world. Errors of another kind pass.
func gitFailure(err error, doing string) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*git.Error](err)
	if !ok {
		return localFailure(err, doing)
	}
	code, why := string(e.Code), ""
	switch e.Code {
	case git.CodeTransient:
		why = "the remote did not answer"
	case git.CodeAuth:
		why = "the remote refused the credential"
	case git.CodeRepoNotFound:
		why = "there is no repository at that address"
	case git.CodeRefNotFound, git.CodeInvalidName:
		code, why = codeRefNotFound, "there is no such branch or commit"
	case git.CodeRemoteRefused:
		code, why = codeRepoNotFound, "this worker may not contact that address"
	case git.CodePatchConflict:
		code, why = codePatchNoApply, "the stored patch does not fit the commit"
	case git.CodePatchMalformed:
		code, why = codePatchInvalid, "git refuses the patch"
	case git.CodeWorkspaceLarge, git.CodeOutputLarge:
		code, why = codePatchTooLarge, "the change is larger than a patch may be"
	case git.CodeWorkspaceMoving:
		code, why = codePatchInvalid, "the files changed while they were read"
	case git.CodePushRejected:
		code, why = codePushRejected, "the forge refused the push"
	case git.CodeCorrupt:
		code, why = codeUnsafeRepo, "the repository holds objects that git refuses as broken or unsafe"
	case git.CodeMergeConflict, git.CodeBranchTouched, git.CodeFailed:
		code, why = codeUnknown, "git failed"
	}
	return failWith(code, err, "%s did not succeed: %s.", doing, why)
}

// localFailure gives an error of this machine a code where its kind says one.
func localFailure(err error, doing string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return failWith(codeDiskFull, err, "%s did not succeed: the disk is full.", doing)
	}
	if un, ok := errors.AsType[*sandbox.UnavailableError](err); ok {
		return failWith(codeSandboxStart, err, "The sandbox was not started: %s.", un.Reason)
	}
	return err
}

// agentFailure says whether an agent's end leaves a result to look at.
func agentFailure(o agent.Outcome) error {
	// An agent that failed may have said that all is well: how it ended comes first, its own words are quoted.
	sentence := o.End
	if o.Summary != "" {
		sentence += " Its own words: " + clip(o.Summary, 1000)
	}
	switch o.Reason {
	case agent.Completed:
		return nil
	case agent.Quota:
		return &failure{code: codeRateLimit, sentence: "The model provider asked to slow down. " + sentence, after: o.RetryAfter}
	case agent.ContextFull:
		return fail(codeContextTooLarge, "%s", sentence)
	case agent.TimedOut, agent.Idle, agent.NoStart:
		return fail(codeAgentTimeout, "%s", sentence)
	case agent.NoResult:
		return fail(codeAgentNoResult, "%s", sentence)
	case agent.Crashed:
		if (o.Result.ExitCode == 127 || o.Result.ExitCode == 126) && o.Result.Detail != "" {
			return fail(codeToolMissing, "The agent's program could not be started on this worker: %s.", clip(o.Result.Detail, 300))
		}
	case agent.MaxTurns, agent.Budget, agent.Refused, agent.Cancelled, agent.Auth, agent.OutOfMemory:
	}
	return fail(codeAgentExit, "%s", sentence)
}

// asFailure turns whatever ended the work into something to report.
func asFailure(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	f := &failure{code: codeUnknown, sentence: "The attempt ended for a reason that the worker cannot classify.", err: err}
	if p, ok := errors.AsType[*problemError](err); ok {
		words := strings.TrimSpace(p.problem.Detail)
		if words == "" {
			words = p.problem.Title
		}
		f.sentence = clip("The server did not accept what the worker reported ("+p.op+"): "+words, 1000)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		f.code, f.sentence = codeAttemptTimeout, "The attempt used up its time."
	}
	return f
}
