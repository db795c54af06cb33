package capability_test

import (
	"testing"

	"signalbox/internal/capability"
)

// FuzzParseRequirement: what is read is written as it is read again, and is no more than a name, a comparison and a version.
func FuzzParseRequirement(f *testing.F) {
	for _, text := range []string{"go", " jdk >= 21", "jdk>=21.0.4", "node=20", "a\nb", "jdk >", ">= 21", "é"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := capability.ParseRequirement(text)
		if err != nil {
			return
		}
		if again, err := capability.ParseRequirement(r.String()); err != nil || again != r || r.Name == "" || (r.Op == "") != (r.Version == "") {
			t.Errorf("%q is %+v, and written %q it is %+v: %v", text, r, r.String(), again, err)
		}
		_ = capability.Missing([]string{text}, []string{text, r.Name, r.Name + "=" + r.Version})
	})
}
