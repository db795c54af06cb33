package signalbox_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// product says whether a file is part of what is shipped; what only tests link may do as it likes.
func (s source) product() bool {
	return !s.test && !s.generated && s.dir != "." && !strings.HasPrefix(s.dir, "internal/e2e") && !strings.HasPrefix(s.dir, "internal/dbtest") && !strings.HasPrefix(s.dir, "internal/egress/")
}

// selected is package and name of pkg.Name; empty for anything else.
func selected(n ast.Node) string {
	if sel, ok := n.(*ast.SelectorExpr); ok {
		if id, ok := sel.X.(*ast.Ident); ok {
			return id.Name + "." + sel.Sel.Name
		}
	}
	return ""
}

// connects are files outside internal/egress that open connections, each with its reason.
var connects = map[string]string{
	"internal/devmode/browser.go":      "plays a person's browser in the self-test, which follows redirects and keeps cookies",
	"internal/sandbox/probe_kernel.go": "tries from within the sandbox to reach what must not be reached",
}

// ways are how a client or a connection comes to be without the guard.
var ways = []string{
	"http.DefaultClient", "http.DefaultTransport", "http.Get", "http.Head", "http.Post", "http.PostForm", "http.ProxyFromEnvironment",
	"net.Dial", "net.DialTimeout", "net.DialTCP", "net.DialUDP", "net.DialIP", "tls.Dial", "tls.DialWithDialer",
}

var made = []string{"http.Client", "http.Transport", "net.Dialer", "tls.Dialer"}

// W10, W11, O17: every client of the product is made in internal/egress, which looks at the address that is really called.
func TestOnlyEgressMakesClients(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, s := range sources(t) {
		if !s.product() || s.dir == "internal/egress" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			found := ""
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if slices.Contains(ways, selected(n)) {
					found = selected(n)
				}
			case *ast.CompositeLit:
				if n.Type != nil && slices.Contains(made, selected(n.Type)) {
					found = selected(n.Type)
				}
			case *ast.ValueSpec:
				if n.Type != nil && slices.Contains(made, selected(n.Type)) {
					found = selected(n.Type)
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "new" && len(n.Args) == 1 && slices.Contains(made, selected(n.Args[0])) {
					found = selected(n.Args[0])
				}
				// The generated client makes one of its own where it is given none.
				if name := selected(n.Fun); strings.HasPrefix(name, "wire.NewClient") && !slices.ContainsFunc(n.Args, func(a ast.Expr) bool {
					c, ok := a.(*ast.CallExpr)
					return ok && selected(c.Fun) == "wire.WithHTTPClient"
				}) {
					found = name + " without a client"
				}
			}
			if found == "" {
				return true
			}
			if connects[s.path] != "" {
				seen++
				return true
			}
			t.Errorf("%s: %s: clients are made in internal/egress, so that no address leads a call inside", s.at(n.Pos()), found)
			return true
		})
	}
	if seen < len(connects) {
		t.Errorf("%d exceptions, %d uses of them: one is no longer needed", len(connects), seen)
	}
}

// chance are the files that may draw from a generator that can be foretold: none of them makes a secret or a name.
var chance = map[string]string{
	"db/store.go":                "which lanes of a long queue are looked at",
	"internal/control/clocks.go": "jitter of a retry",
	"internal/loop/loop.go":      "jitter of a tick",
	"internal/sandbox/probe.go":  "a user id for a trial",
	"internal/worker/client.go":  "jitter of a retry",
}

// objectNames are where git's own names of objects are computed, which are SHA-1.
var objectNames = []string{"internal/git/snapshot.go", "internal/patch/base.go"}

// S17: what could be foretold is drawn where nothing hangs on it, and nowhere else.
func TestChanceIsUnpredictable(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, s := range sources(t) {
		if !s.product() {
			continue
		}
		for name, pos := range s.imports {
			if strings.HasPrefix(name, "math/rand") {
				used[s.path] = true
				if chance[s.path] == "" {
					t.Errorf("%s: math/rand can be foretold; secrets, names and decisions take crypto/rand", s.at(pos))
				}
			}
			if name == "crypto/md5" || name == "crypto/sha1" && !slices.Contains(objectNames, s.path) || name == "crypto/des" || name == "crypto/rc4" {
				t.Errorf("%s: %s is broken", s.at(pos), name)
			}
		}
	}
	for file := range chance {
		if !used[file] {
			t.Errorf("%s draws nothing any more", file)
		}
	}
}

// S17: TLS checks its peer and is of version 1.2 or later, and no check of a token is switched off (O6).
func TestTLSAndTokensAreChecked(t *testing.T) {
	t.Parallel()
	off := regexp.MustCompile(`^(InsecureSkip\w*|Skip(ClientID|Expiry|Issuer|Nonce)Check|InsecureIssuerURLContext)$`)
	for _, s := range sources(t) {
		if !s.product() && !s.generated {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if off.MatchString(n.Name) {
					t.Errorf("%s: %s switches a check off", s.at(n.Pos()), n.Name)
				}
			case *ast.SelectorExpr:
				if name := selected(n); name == "tls.VersionTLS10" || name == "tls.VersionTLS11" || name == "tls.VersionSSL30" {
					t.Errorf("%s: %s is broken", s.at(n.Pos()), name)
				}
			case *ast.CompositeLit:
				if n.Type == nil || selected(n.Type) != "tls.Config" {
					return true
				}
				if !slices.ContainsFunc(n.Elts, func(e ast.Expr) bool {
					kv, ok := e.(*ast.KeyValueExpr)
					if !ok {
						return false
					}
					key, ok := kv.Key.(*ast.Ident)
					return ok && key.Name == "MinVersion"
				}) {
					t.Errorf("%s: a TLS configuration says its least version itself", s.at(n.Pos()))
				}
			}
			return true
		})
	}
}

// secretName is what a value is called whose bytes somebody could find out by measuring how long a comparison takes.
var secretName = regexp.MustCompile(`(?i)(secret|password|passphrase|credential|nonce|verifier|idtoken|apikey|signature|hmac|challenge)$`)

// S7, S17: secrets are compared in constant time or by their hash. Whether one is set may be asked.
func TestSecretsAreNotComparedByEquality(t *testing.T) {
	t.Parallel()
	name := func(e ast.Expr) string {
		if sel := selected(e); strings.HasPrefix(sel, "wire.") {
			return "" // a word of the contract
		}
		switch e := e.(type) {
		case *ast.Ident:
			return e.Name
		case *ast.SelectorExpr:
			return e.Sel.Name
		case *ast.CallExpr:
			if sel, ok := e.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Reveal" {
				return "secret"
			}
		}
		return ""
	}
	plain := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.BasicLit:
			return true
		case *ast.Ident:
			return e.Name == "nil"
		}
		return false
	}
	looked := 0
	for _, s := range sources(t) {
		if !s.product() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op != token.EQL && n.Op != token.NEQ {
					return true
				}
				looked++
				if plain(n.X) || plain(n.Y) {
					return true
				}
				if x, y := name(n.X), name(n.Y); secretName.MatchString(x) || secretName.MatchString(y) {
					t.Errorf("%s: %s %s %s: secrets are compared with subtle.ConstantTimeCompare or hmac.Equal", s.at(n.Pos()), x, n.Op, y)
				}
			case *ast.CallExpr:
				if f := selected(n.Fun); f == "bytes.Equal" || f == "strings.EqualFold" {
					if slices.ContainsFunc(n.Args, func(a ast.Expr) bool { return secretName.MatchString(name(a)) }) {
						t.Errorf("%s: %s takes longer the more of a secret was guessed", s.at(n.Pos()), f)
					}
				}
			}
			return true
		})
	}
	t.Logf("S17: %d comparisons looked at", looked)
}
