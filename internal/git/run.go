package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// call is one git process.
type call struct {
	op     string   // for errors
	gitDir string   // --git-dir; "" for commands that need none
	args   []string // after the hardening options
	env    []string // added to the clean environment
	stdin  io.Reader
	dir    string // working directory; "" is Home
	max    int64  // bytes of standard output kept; 0 means 64 MiB
	remote *Remote
	pin    string // set by run
	magic  bool   // the command refuses --literal-pathspecs; its caller makes paths harmless
	// okCodes are exit codes that are answers, not failures.
	okCodes []int
	exit    *int
}

// defaultMax bounds the standard output of a call that asked for no limit of its own.
const defaultMax = 64 << 20

// hardening are the options of every process; on the command line they outrank each configuration file.
func hardening() []string {
	opts := []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null", "core.excludesFile=/dev/null",
		"core.alternateRefsCommand=true", "core.sshCommand=/bin/false", "core.pager=cat", "core.editor=/bin/false",
		"core.protectNTFS=true", "core.protectHFS=true", "core.autocrlf=false", "core.eol=lf", "core.safecrlf=false",
		"core.quotePath=true", "core.logAllRefUpdates=false", "core.precomposeUnicode=false",
		"submodule.recurse=false", "fetch.recurseSubmodules=false", "push.recurseSubmodules=no",
		"protocol.allow=never", "protocol.ext.allow=never", "credential.helper=", "credential.interactive=never",
		"http.followRedirects=false", "http.lowSpeedLimit=1000", "http.lowSpeedTime=60",
		"gc.auto=0", "maintenance.auto=false", "receive.autogc=false", "receive.denyCurrentBranch=refuse",
		"commit.gpgSign=false", "tag.gpgSign=false", "push.gpgSign=false", "push.followTags=false",
		"transfer.fsckObjects=true", "transfer.bundleURI=false", "fetch.writeCommitGraph=false", "advice.detachedHead=false",
		"diff.noprefix=false", "diff.mnemonicPrefix=false", "diff.algorithm=histogram", "diff.renames=false",
		"diff.suppressBlankEmpty=false", "diff.ignoreSubmodules=all", "apply.whitespace=nowarn", "merge.renames=true", "merge.directoryRenames=false",
		"merge.conflictStyle=merge", "safe.bareRepository=all", "pack.threads=2",
	}
	// Old public repositories carry harmless blemishes; what could lead a checkout astray stays an error.
	for _, id := range []string{
		"badTimezone", "missingSpaceBeforeDate", "missingSpaceBeforeEmail", "zeroPaddedFilemode", "missingEmail", "badEmail",
		"badName", "badDate", "badDateOverflow", "zeroPaddedDate", "missingTaggerEntry", "badTagName", "missingNameBeforeEmail", "gitmodulesParse",
	} {
		opts = append(opts, "fetch.fsck."+id+"=ignore", "receive.fsck."+id+"=ignore")
	}
	args := make([]string, 0, 2*len(opts)+8)
	args = append(args, "--no-pager")
	for _, o := range opts {
		args = append(args, "-c", o)
	}
	return args
}

// environment is complete: nothing of the caller's environment reaches git.
func (g *Git) environment(c call) []string {
	protocols := []string{"https"}
	if c.remote != nil && c.remote.scheme != "https" {
		protocols = []string{c.remote.scheme}
	}
	env := []string{
		"PATH=" + filepath.Dir(g.binary) + ":/usr/local/bin:/usr/bin:/bin",
		"HOME=" + filepath.Join(g.home, "home"), "XDG_CONFIG_HOME=" + filepath.Join(g.home, "home"),
		"LC_ALL=C", "LANG=C", "TZ=UTC", "PAGER=cat",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false", "GIT_SSH_COMMAND=/bin/false", "GIT_EDITOR=/bin/false",
		"GIT_LFS_SKIP_SMUDGE=1", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1",
		"GIT_CEILING_DIRECTORIES=/", "GIT_ALLOW_PROTOCOL=" + strings.Join(protocols, ":"),
		"GIT_AUTHOR_NAME=signalbox", "GIT_AUTHOR_EMAIL=signalbox@invalid", "GIT_COMMITTER_NAME=signalbox", "GIT_COMMITTER_EMAIL=signalbox@invalid",
	}
	if c.remote != nil {
		env = append(env, c.remote.env(c.pin)...)
	}
	return append(env, c.env...)
}

func (g *Git) command(ctx context.Context, c call) *exec.Cmd {
	args := hardening()
	if !c.magic {
		args = append(args, "--literal-pathspecs")
	}
	if c.gitDir != "" {
		args = append(args, "--git-dir="+c.gitDir)
	}
	args = append(args, c.args...)
	cmd := exec.CommandContext(ctx, g.binary, args...)
	cmd.Env = g.environment(c)
	cmd.Dir = c.dir
	if cmd.Dir == "" {
		cmd.Dir = filepath.Join(g.home, "home")
	}
	cmd.Stdin = c.stdin
	// Transports are grandchildren: the whole group is stopped, and asked first so that lock files are removed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 3 * time.Second
	return cmd
}

// run starts git, waits for it and returns its standard output.
func (g *Git) run(ctx context.Context, c call) ([]byte, error) {
	if c.remote != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, g.timeout, &Error{Code: CodeTransient, Op: c.op, Detail: "the remote did not answer in " + g.timeout.String()})
		defer cancel()
		var err error
		if c.pin, err = g.pin(ctx, c.op, *c.remote); err != nil {
			if ended := stopped(ctx); ended != nil {
				return nil, ended
			}
			return nil, err
		}
	}
	limit := c.max
	if limit <= 0 {
		limit = defaultMax
	}
	out := &bounded{limit: limit}
	errs := &tail{limit: 16 << 10}
	cmd := g.command(ctx, c)
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	if cmd.Process != nil {
		// Whatever a transport left behind ends with it.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if ctxErr := stopped(ctx); ctxErr != nil && err != nil {
		return nil, ctxErr
	}
	if out.over {
		return nil, &Error{Code: CodeOutputLarge, Op: c.op, Detail: "more than the allowed output"}
	}
	if err == nil {
		return out.buf.Bytes(), nil
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if ok {
		for _, code := range c.okCodes {
			if exit.ExitCode() == code {
				if c.exit != nil {
					*c.exit = code
				}
				return out.buf.Bytes(), nil
			}
		}
	}
	var secrets []string
	if c.remote != nil {
		secrets = c.remote.secrets()
	}
	text := errs.String()
	if c.op == "push" {
		// --porcelain answers on standard output.
		text += "\n" + out.buf.String()
	}
	return nil, &Error{Code: classify(text, c.remote != nil), Op: c.op, Detail: clean(text, secrets...), Err: err}
}

// bounded keeps at most limit bytes and says so instead of growing.
type bounded struct {
	buf   bytes.Buffer
	limit int64
	over  bool
}

var errOver = errors.New("output limit reached")

func (b *bounded) Write(p []byte) (int, error) {
	if int64(b.buf.Len()+len(p)) > b.limit {
		b.over = true
		return 0, errOver
	}
	return b.buf.Write(p)
}

// tail keeps the last limit bytes.
type tail struct {
	buf   []byte
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - t.limit; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.buf) }
