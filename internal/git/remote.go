package git

import (
	"context"
	"encoding/base64"
	"errors"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"signalbox/internal/egress"
)

// Remote is an address that ParseRemote accepted. AuthHeader, when set, is one HTTP header line ("Authorization: …");
// it travels in the environment of the one process that needs it, never in an argument, a file or an error.
type Remote struct {
	AuthHeader string

	scheme string
	host   string // http and https: without the port
	port   uint16
	url    string
	path   string // file only: the resolved directory
}

// String is the rebuilt address; it never holds a credential.
func (r Remote) String() string { return r.url }

// Local reports whether the address is a repository of the local forge.
func (r Remote) Local() bool { return r.scheme == "file" }

// env is what one process is told about its remote. pin holds a name to the addresses that were checked: git would ask again,
// and a name server may answer otherwise then (W11).
func (r Remote) env(pin string) []string {
	var pairs [][2]string
	if r.AuthHeader != "" && r.scheme != "file" {
		pairs = append(pairs, [2]string{"http." + r.url + ".extraHeader", r.AuthHeader})
	}
	if pin != "" {
		pairs = append(pairs, [2]string{"http.curloptResolve", pin})
	}
	if len(pairs) == 0 {
		return nil
	}
	env := []string{"GIT_CONFIG_COUNT=" + strconv.Itoa(len(pairs))}
	for i, p := range pairs {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+p[0], "GIT_CONFIG_VALUE_"+n+"="+p[1])
	}
	return env
}

// secrets are the credential in each form in which the other end may print it back: the header, its words, and name and
// password in it, of which either may be the token.
func (r Remote) secrets() []string {
	all := []string{r.AuthHeader}
	_, value, _ := strings.Cut(r.AuthHeader, ":")
	_, value, _ = strings.Cut(strings.TrimSpace(value), " ") // the scheme is no secret
	for _, word := range strings.Fields(value) {
		all = append(all, word)
		if pair, err := base64.StdEncoding.DecodeString(word); err == nil {
			all = append(all, string(pair))
			for part := range strings.SplitSeq(string(pair), ":") {
				if len(part) >= 8 { // shorter ones are no secret, and would take the words of others apart
					all = append(all, part)
				}
			}
		}
	}
	return all
}

// pin looks a remote up, refuses it where no address of it is open, and answers the line that holds curl to those that are;
// empty for a remote that is an address itself.
func (g *Git) pin(ctx context.Context, op string, r Remote) (string, error) {
	if r.scheme == "file" {
		return "", nil
	}
	open, err := g.guard.Resolve(ctx, r.host, r.port, r.scheme == "http")
	if refused, ok := errors.AsType[*egress.RefusedError](err); ok {
		return "", &Error{Code: CodeRemoteRefused, Op: op, Detail: refused.Error(), Err: err}
	}
	if err != nil {
		return "", &Error{Code: CodeTransient, Op: op, Detail: "the name of the remote could not be looked up", Err: err}
	}
	if _, err := netip.ParseAddr(r.host); err == nil {
		return "", nil
	}
	var texts []string
	for _, addr := range open {
		if addr.Is6() {
			texts = append(texts, "["+addr.String()+"]")
		} else {
			texts = append(texts, addr.String())
		}
	}
	return r.host + ":" + strconv.Itoa(int(r.port)) + ":" + strings.Join(texts, ","), nil
}

// serve is the command that answers at the other end of a file address: our options outrank that repository's own.
func (r Remote) serve(g *Git, service string) []string {
	if r.scheme != "file" {
		return nil
	}
	opts := []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.alternateRefsCommand=true", "receive.autogc=false", "gc.auto=0", "maintenance.auto=false",
		"receive.denyCurrentBranch=refuse", "receive.fsckObjects=true", "receive.denyNonFastForwards=true", "uploadpack.allowAnySHA1InWant=true", "safe.directory=*",
	}
	cmd := []string{"'" + strings.ReplaceAll(g.binary, "'", `'\''`) + "'"}
	for _, o := range opts {
		cmd = append(cmd, "-c", "'"+o+"'")
	}
	return []string{"--" + service + "=" + strings.Join(append(cmd, service), " ")}
}

// The pattern holders are functions, not variables: the package has no state.
func pathPattern() *regexp.Regexp {
	return regexp.MustCompile(`^/[A-Za-z0-9._~][A-Za-z0-9._~/+@-]*$`)
}

// ParseRemote reads an address once and rebuilds it from its parts, so that what was checked is what git is given.
// Allowed are https, plain http where configured, and directories under the local forge's root. No
// user information, no query, no fragment, no escapes, no option-like names.
func (g *Git) ParseRemote(raw string) (Remote, error) {
	const op = "remote"
	if raw == "" || len(raw) > 2000 || strings.ContainsAny(raw, "\\%\"'`$ \t\r\n\x00") || strings.HasPrefix(raw, "-") {
		return Remote{}, refuse(CodeRemoteRefused, op, "the address is empty, too long or holds characters that no address needs")
	}
	if strings.HasPrefix(raw, "/") {
		raw = "file://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		return Remote{}, refuse(CodeRemoteRefused, op, "the address cannot be read")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" || u.ForceQuery {
		return Remote{}, refuse(CodeRemoteRefused, op, "the address may hold no user, query or fragment")
	}
	if !pathPattern().MatchString(u.Path) || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") || strings.Contains(u.Path, "/-") {
		return Remote{}, refuse(CodeRemoteRefused, op, "the path of the address is not in the allowed form")
	}
	switch u.Scheme {
	case "file":
		return g.localRemote(u)
	case "https", "http":
		return g.webRemote(raw)
	}
	return Remote{}, refuse(CodeRemoteRefused, op, "only https addresses and repositories of the local forge are allowed")
}

// webRemote checks what the spelling tells; what a name leads to is looked at before each conversation.
func (g *Git) webRemote(raw string) (Remote, error) {
	const op = "remote"
	u, err := egress.ParseURL(raw)
	if err != nil {
		return Remote{}, &Error{Code: CodeRemoteRefused, Op: op, Detail: err.Error(), Err: err}
	}
	r := Remote{scheme: u.Scheme, host: u.Hostname(), port: 443, url: u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/")}
	if u.Scheme == "http" {
		r.port = 80
	}
	if u.Port() != "" {
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil {
			return Remote{}, refuse(CodeRemoteRefused, op, "the port of the address is none")
		}
		r.port = uint16(n)
	}
	if name := strings.ToLower(r.host); name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return Remote{}, refuse(CodeRemoteRefused, op, "the address is this machine by name; name the address itself and open it in SIGNALBOX_GIT_ALLOW")
	}
	if addr, err := netip.ParseAddr(r.host); err == nil {
		if err := g.guard.Allow.Check(g.guard.Purpose, netip.AddrPortFrom(addr, r.port), r.scheme == "http"); err != nil {
			return Remote{}, &Error{Code: CodeRemoteRefused, Op: op, Detail: err.Error(), Err: err}
		}
	} else if r.scheme == "http" {
		return Remote{}, refuse(CodeRemoteRefused, op, "plain http goes only to an address that is named in SIGNALBOX_GIT_ALLOW, and to no name")
	}
	return r, nil
}

func (g *Git) localRemote(u *url.URL) (Remote, error) {
	const op = "remote"
	if g.localRoot == "" || u.Host != "" {
		return Remote{}, refuse(CodeRemoteRefused, op, "no local forge is configured here, so file addresses are refused")
	}
	dir := path.Clean(u.Path)
	resolved, err := filepath.EvalSymlinks(dir)
	if os.IsNotExist(err) {
		// Said only for names inside the root: what exists elsewhere on this machine is nobody's business.
		if strings.HasPrefix(dir, g.localRoot+"/") {
			return Remote{}, refuse(CodeRepoNotFound, op, "no repository at that address")
		}
		return Remote{}, refuse(CodeRemoteRefused, op, "the path is outside the local forge")
	}
	if err != nil || !strings.HasPrefix(resolved, g.localRoot+"/") {
		return Remote{}, refuse(CodeRemoteRefused, op, "the path is outside the local forge")
	}
	if !isBare(resolved) {
		return Remote{}, refuse(CodeRepoNotFound, op, "no bare repository at that address")
	}
	return Remote{scheme: "file", url: "file://" + resolved, path: resolved}, nil
}

func isBare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

func refPattern() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+@=-]{0,199}$`) }

// CheckBranch refuses a branch or tag name outside the allowed form, which is narrower than git's own: no leading
// dash, nothing that a shell, a page or a refspec could read as more than a name.
func CheckBranch(name string) error {
	if !refPattern().MatchString(name) || strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.Contains(name, "//") ||
		strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".") || name == "@" {
		return refuse(CodeInvalidName, "ref", "the name is not in the allowed form")
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasPrefix(part, "-") || strings.HasSuffix(part, ".lock") {
			return refuse(CodeInvalidName, "ref", "the name is not in the allowed form")
		}
	}
	return nil
}

// IsObject reports whether s is a full object name in lower-case hex: 40 digits, or 64 for SHA-256 repositories.
func IsObject(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func checkObject(names ...string) error {
	for _, s := range names {
		if !IsObject(s) {
			return refuse(CodeInvalidName, "object", "not a full object name")
		}
	}
	return nil
}

// LsRemote asks the remote where a branch stands. CodeRefNotFound: the remote answered and has no such branch.
func (g *Git) LsRemote(ctx context.Context, r Remote, branch string) (string, error) {
	if err := CheckBranch(branch); err != nil {
		return "", err
	}
	args := append([]string{"ls-remote", "--refs"}, r.serve(g, "upload-pack")...)
	out, err := g.run(ctx, call{op: "ls-remote", args: append(args, "--", r.url, "refs/heads/"+branch), remote: &r, max: 1 << 20})
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		sha, ref, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if ok && ref == "refs/heads/"+branch && IsObject(sha) {
			return sha, nil
		}
	}
	return "", refuse(CodeRefNotFound, "ls-remote", "the remote has no branch %s", branch)
}

// DefaultBranch asks the remote for the branch that HEAD names and where it stands.
func (g *Git) DefaultBranch(ctx context.Context, r Remote) (branch, sha string, err error) {
	args := append([]string{"ls-remote", "--symref"}, r.serve(g, "upload-pack")...)
	out, err := g.run(ctx, call{op: "ls-remote", args: append(args, "--", r.url, "HEAD"), remote: &r, max: 1 << 20})
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(out)) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok || right != "HEAD" {
			continue
		}
		if name, found := strings.CutPrefix(left, "ref: refs/heads/"); found {
			branch = name
		} else if IsObject(left) {
			sha = left
		}
	}
	if branch == "" || sha == "" || CheckBranch(branch) != nil {
		return "", "", refuse(CodeRefNotFound, "ls-remote", "the remote names no usable default branch")
	}
	return branch, sha, nil
}
