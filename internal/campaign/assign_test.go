package campaign_test

import (
	"fmt"
	"slices"
	"testing"

	"signalbox/internal/campaign"
)

// The canary is chosen for variety, the others follow by name, and the same candidates in any order get the same waves.
func TestAssign(t *testing.T) {
	t.Parallel()
	var all []campaign.Candidate
	for i := range 40 {
		language := "go"
		if i >= 30 {
			language = []string{"java", "python"}[i%2]
		}
		all = append(all, campaign.Candidate{Repository: fmt.Sprintf("r%02d", i), Owner: fmt.Sprint("team", i/10), Language: language, Size: int64(i)})
	}
	waves := []campaign.Wave{{Kind: campaign.Canary, Size: "4"}, {Kind: campaign.Ramp, Size: "25%"}, {Kind: campaign.Full}}
	got, err := campaign.Assign(all, waves)
	if err != nil {
		t.Fatal(err)
	}
	count, languages, owners := map[int]int{}, map[string]bool{}, map[string]bool{}
	for i, w := range got {
		count[w]++
		if w == 0 {
			languages[all[i].Language], owners[all[i].Owner] = true, true
		}
	}
	if count[0] != 4 || count[1] != 10 || count[2] != 26 {
		t.Errorf("waves of %v", count)
	}
	if len(languages) != 3 || len(owners) != 3 {
		t.Errorf("a canary of %v and %v", languages, owners)
	}
	turned := slices.Clone(all)
	slices.Reverse(turned)
	again, err := campaign.Assign(turned, waves)
	if slices.Reverse(again); err != nil || !slices.Equal(again, got) {
		t.Errorf("in another order: %v, want %v (%v)", again, got, err)
	}
	if _, err := campaign.Assign(all, waves[:2]); err == nil {
		t.Error("targets without a wave were accepted")
	}
	if few, err := campaign.Assign(all[:2], waves); err != nil || !slices.Equal(few, []int{0, 0}) {
		t.Errorf("two: %v, %v", few, err)
	}
}

// One cause has one signature, whatever paths, numbers, ids and names are in it; two causes have two.
func TestSignature(t *testing.T) {
	t.Parallel()
	for want, texts := range map[string][]string{
		"<path>:<n>:<n>: undefined: NewClient": {
			"# example.org/a\n./client_test.go:14:7: undefined: NewClient\nFAIL", "\x1b[31msrc/net/x.go:9:12: undefined: NewClient\x1b[0m",
		},
		"--- FAIL: TestRetry (<n>s)":                        {"ok  a 0.1s\n--- FAIL: TestRetry (0.02s)\n    x_test.go:3: bad", "=== RUN\n--- FAIL: TestRetry (13.5s)"},
		"ModuleNotFoundError: No module named <text>":       {"Traceback:\n  line 3\nModuleNotFoundError: No module named 'yaml'"},
		"fatal: unable to access <text>: timed out (<n> s)": {"fatal: unable to access 'https://x/y': timed out (30 s)"},
		"no output":       {"", " \n\t\n"},
		"exit status <n>": {"exit status 2", "exit status 137\n"},
	} {
		for _, text := range texts {
			if got := campaign.Signature(text); got != want {
				t.Errorf("%q has the signature %q, want %q", text, got, want)
			}
		}
	}
}

// What a line of somebody's output becomes is bounded and is text.
func FuzzSignature(f *testing.F) {
	f.Add("error: 'a' /b/c 0xdeadbeef00")
	f.Fuzz(func(t *testing.T, text string) {
		got := campaign.Signature(text)
		if got == "" || len(got) > 200 {
			t.Errorf("%q has the signature %q", text, got)
		}
	})
}

// A template takes its target's variables, and says which it misses.
func TestFill(t *testing.T) {
	t.Parallel()
	text, unknown := campaign.Fill("{{a}} {{ b }} {{c}} {{c}} {{x", map[string]string{"a": "{{b}}", "b": "2"})
	if text != "{{b}} 2   {{x" || !slices.Equal(unknown, []string{"c"}) {
		t.Errorf("%q, %v", text, unknown)
	}
}
