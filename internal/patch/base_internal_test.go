package patch

import "testing"

// A text without a name is neither kept nor found: a section without an index line would have it for its own.
func TestNoTextWithoutAName(t *testing.T) {
	t.Parallel()
	if base := ParseBase([]byte(" blob 5\nhello\n")); len(base.texts) != 0 {
		t.Errorf("%d texts are kept", len(base.texts))
	}
	base := &Base{texts: map[string]*oldText{"": {text: "hello"}}}
	if _, ok := base.find(""); ok {
		t.Error("a text was found under no name")
	}
}
