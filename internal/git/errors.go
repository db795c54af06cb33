package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Code is the reason code of a failure. Whoever decides about retries reads the code, never the text.
type Code string

// The reason codes of this package.
const (
	CodeTransient       Code = "GIT_CLONE_FAILED_TRANSIENT" // the remote did not answer, or answered as a busy server does
	CodeRepoNotFound    Code = "REPOSITORY_NOT_FOUND"       // no repository at that address
	CodeRefNotFound     Code = "REF_NOT_FOUND"              // the branch, tag or commit does not exist
	CodeAuth            Code = "GIT_AUTH_FAILED"            // the remote asks for a credential or refuses the one it got
	CodeRemoteRefused   Code = "GIT_REMOTE_REFUSED"         // the address is not one that this installation may contact
	CodeInvalidName     Code = "GIT_NAME_REFUSED"           // a ref, branch or object name outside the allowed form
	CodePushRejected    Code = "GIT_PUSH_REJECTED"          // the remote refused the push (hook, protection, not a fast-forward)
	CodeBranchTouched   Code = "BRANCH_TOUCHED"             // the branch is not where we left it: somebody else wrote to it
	CodePatchConflict   Code = "PATCH_CONFLICT"             // the patch does not apply to that commit
	CodePatchMalformed  Code = "PATCH_MALFORMED"            // the bytes are no patch that git accepts
	CodeMergeConflict   Code = "MERGE_CONFLICT"             // both sides changed the same lines
	CodeWorkspaceLarge  Code = "WORKSPACE_TOO_LARGE"        // more files or bytes than the limits allow
	CodeWorkspaceMoving Code = "WORKSPACE_CHANGED"          // the work tree changed while it was read
	CodeOutputLarge     Code = "GIT_OUTPUT_TOO_LARGE"       // git printed more than the caller asked to keep
	CodeCorrupt         Code = "REPOSITORY_CORRUPT"         // the object check on transfer failed
	CodeFailed          Code = "GIT_FAILED"                 // anything else
)

// Error is a failed operation. Detail is the bounded, cleaned tail of what git said; it may quote repository content,
// so it is evidence to store, not text to trust.
type Error struct {
	Code   Code
	Op     string
	Detail string
	Err    error
}

func (e *Error) Error() string {
	s := "git " + e.Op + ": " + string(e.Code)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap returns the underlying process or file error, if any.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the reason code of err: "" for nil, CodeFailed for an error of another kind.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeFailed
}

func refuse(code Code, op, format string, args ...any) error {
	return &Error{Code: code, Op: op, Detail: fmt.Sprintf(format, args...)}
}

// rule maps words that git prints in the C locale to a code. git has no other channel for them, so the text is read
// here, once, and nowhere else. The order matters: the first match wins.
type rule struct {
	code  Code
	words []string
}

func rules() []rule {
	return []rule{
		{CodeAuth, []string{
			"authentication failed", "could not read username", "could not read password", "terminal prompts disabled",
			"http basic: access denied", "the requested url returned error: 401", "the requested url returned error: 403",
			"permission denied (publickey",
		}},
		{CodeBranchTouched, []string{"stale info", "fetch first", "cannot lock ref", "reference already exists"}},
		{CodePushRejected, []string{"hook declined", "protected branch", "[remote rejected]", "non-fast-forward", "[rejected]"}},
		{CodeRepoNotFound, []string{
			"repository not found", "' not found", "does not appear to be a git repository", "the requested url returned error: 404",
			"the requested url returned error: 410", "/info/refs not found", "does not exist", "not a git repository",
		}},
		{CodeRefNotFound, []string{
			"couldn't find remote ref", "not our ref", "unknown revision", "bad object", "not a valid object name",
			"invalid object name", "needed a single revision", "not a valid commit name", "not a valid object",
		}},
		{CodeInvalidName, []string{"invalid path"}},
		{CodeRemoteRefused, []string{"transport '", "unable to find remote helper", "redirect"}},
		{CodeCorrupt, []string{"fsck error", "object corrupt", "loose object", "invalid index-pack output"}},
		{CodeTransient, []string{
			"could not resolve host", "couldn't connect", "failed to connect", "connection refused", "connection reset",
			"connection timed out", "operation timed out", "operation too slow", "network is unreachable", "no route to host",
			"early eof", "unexpected disconnect", "the remote end hung up", "rpc failed", "the requested url returned error: 5",
			"the requested url returned error: 429", "gnutls", "ssl_error", "empty reply from server", "unexpected eof",
			"http/2 stream", "server closed", "unable to access",
		}},
	}
}

// classify turns git's words into a code. Operations that never leave this machine are never transient.
func classify(stderr string, remote bool) Code {
	s := strings.ToLower(stderr)
	for _, r := range rules() {
		if r.code == CodeTransient && !remote {
			continue
		}
		for _, w := range r.words {
			if strings.Contains(s, w) {
				return r.code
			}
		}
	}
	return CodeFailed
}

// clean makes git's words fit to be stored: valid UTF-8, one line per line, no control characters, at most 2 KiB, and
// without the secrets of the call.
func clean(s string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "[redacted]")
		}
	}
	s = strings.Map(func(r rune) rune {
		if r == '\n' || (r >= ' ' && r != 0x7f && r != utf8.RuneError) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?"))
	s = strings.TrimSpace(s)
	const keep = 2 << 10
	if len(s) > keep {
		s = "… " + strings.ToValidUTF8(s[len(s)-keep:], "")
	}
	return s
}

// stopped reports whether err came from the caller's context, which is no failure of git.
func stopped(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return ctx.Err()
}
