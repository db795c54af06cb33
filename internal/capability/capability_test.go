package capability_test

import (
	"slices"
	"strings"
	"testing"

	"signalbox/internal/capability"
	"signalbox/internal/fault"
)

// R-Q-7: required ⊆ offered, with versions.
func TestMissing(t *testing.T) {
	t.Parallel()
	offered := []string{"jdk=21.0.4", "go=1.26.8", "docker", "python=3.14.0-rc1", "model=sonnet-5", "disk=50", "agent:codemod"}
	for _, c := range []struct {
		required string
		missing  bool
	}{
		{"docker", false}, {"Docker", false}, {"podman", true},
		{"jdk >= 21", false}, {"jdk>=21.0.4", false}, {"jdk >= 21.0.5", true}, {"jdk > 21", false}, {"jdk > 21.0.4", true}, {"jdk < 22", false}, {"jdk <= 21", true}, {"jdk = 21", false}, {"jdk = 2", true},
		{"go >= 1.9", false}, {"go < 1.9", true}, {"go >= 1.100", true},
		{"python >= 3.14", false}, {"model = sonnet-5", false}, {"model = sonnet", true}, {"model >= 5", true},
		{"disk >= 20", false}, {"disk >= 100", true}, {"docker >= 1", true}, {"agent:codemod", false}, {"agent:other", true}, {"", true}, {"; rm", true},
	} {
		if got := capability.Missing([]string{c.required}, offered); (len(got) > 0) != c.missing {
			t.Errorf("%q: missing %v, want %t", c.required, got, c.missing)
		}
	}
	if got := capability.Missing([]string{"go", "rust", "docker", "jdk >= 22"}, offered); !slices.Equal(got, []string{"rust", "jdk >= 22"}) {
		t.Errorf("missing %q", got)
	}
	if got := capability.Missing(nil, nil); got != nil {
		t.Errorf("nothing required, missing %q", got)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"go": "go", " jdk>=21 ": "jdk >= 21", "c++ = 20": "c++ = 20", "node.js <22": "node.js < 22"} {
		r, err := capability.ParseRequirement(in)
		if err != nil || r.String() != want {
			t.Errorf("%q is read as %q, %v", in, r, err)
		}
	}
	for _, in := range []string{"", ">= 2", "go >=", "go ~> 1", "go >= 1 2", "\x00", "go\n", strings.Repeat("x", 110), "go >= " + strings.Repeat("1", 70)} {
		if _, err := capability.ParseRequirement(in); fault.KindOf(err) != fault.Invalid && in != "go\n" {
			t.Errorf("%q is read: %v", in, err)
		}
	}
	for in, ok := range map[string]bool{"go": true, "go=1.26": true, "go = 1": false, "": false, "=1": false, "go=": false} {
		if err := capability.CheckOffer(in); (err == nil) != ok {
			t.Errorf("offer %q: %v", in, err)
		}
	}
}
