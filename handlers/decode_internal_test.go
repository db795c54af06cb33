package handlers

import (
	"encoding/json"
	"testing"
)

// T11: a member that stands twice in an object is found wherever it stands, and the same name in two objects is none.
func TestMemberTwice(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`: "", `7`: "", `"a"`: "", `[]`: "", `{"a":1,"b":"a"}`: "", `{"a":{"a":{"a":"a"}}}`: "", `[{"a":1},{"a":2}]`: "", `{"a":["a","a"],"b":{"a":1}}`: "", `{"a":"a","A":1}`: "",
		`{"a":1,"a":2}`: "a", `{"a":1,"\u0061":2}`: "a", `{"x":{"a":[{}],"a":[]}}`: "a", `[[{"b":{},"c":1,"b":{}}]]`: "b", `{"a":{},"b":[{"a":1}],"a":null}`: "a", `{"":1,"":2}`: "",
	} {
		if name, twice := memberTwice([]byte(body)); name != want || twice != (want != "" || body == `{"":1,"":2}`) {
			t.Errorf("%s: %q %t, want %q", body, name, twice, want)
		}
	}
}

// FuzzMemberTwice: what has no member twice is the same after it was read and written, as far as the number of its members goes.
func FuzzMemberTwice(f *testing.F) {
	for _, s := range []string{`{"a":1,"a":2}`, `{"a":{"b":[1,{"c":null}]}}`, `[{"a":1},{"a":2}]`, `{"\u0061":1,"a":2}`, `"x"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var v any
		if json.Unmarshal(raw, &v) != nil {
			return
		}
		if _, twice := memberTwice(raw); twice {
			return
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if name, twice := memberTwice(again); twice {
			t.Errorf("%q stands twice in %s", name, again)
		}
	})
}
