package campaign_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/internal/campaign"
	"signalbox/internal/fault"
)

const sample = `
name: Move to v2
goal: Move {{module}} to v2.
targets:
  match: ["acme/*"]
  list: [{repository: acme/shop, owner: team-shop, vars: {module: shop}}]
  exclude: [{match: "acme/legacy-*", reason: Frozen until March.}]
waves:
  - {kind: canary, size: 5, promotion: rule, soak: 30m}
  - {kind: ramp, size: 20%, concurrency: 5}
  - {kind: full}
stop: {rate: 15, last: 50, sample: 5, first: 3}
limits: {concurrency: 10, tolerance: 5%}
windows: {zone: Europe/Zurich, open: [{days: [mon, tue], from: "08:00", to: "18:00"}]}
`

// A spec is read strictly, what it does not say has its default, and what is wrong is named by its field.
func TestParse(t *testing.T) {
	t.Parallel()
	spec, err := campaign.Parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	if spec.Waves[0].Soak.Duration() != 30*time.Minute || spec.Contract.Mode != "pr_created" || spec.Targets.List[0].Vars["module"] != "shop" || spec.Completes != campaign.WhenOpened {
		t.Errorf("%+v", spec)
	}
	replaced := func(from, to string) string {
		if !strings.Contains(sample, from) {
			t.Fatalf("the sample has no %q", from)
		}
		return strings.Replace(sample, from, to, 1)
	}
	for doc, field := range map[string]string{
		"{":                        "",
		"[]":                       "",
		sample + "---\nname: b":    "", // two documents are not one
		replaced("goal:", "gaol:"): "gaol",
		replaced("name: Move to v2", "name: ' '"):             "name",
		replaced("size: 5,", "size: 0,"):                      "waves[0].size",
		replaced("size: 20%", "size: 200%"):                   "waves[1].size",
		replaced("kind: full", "kind: ramp"):                  "waves[2].kind",
		replaced("soak: 30m", "soak: 3 days"):                 "waves[0].soak",
		replaced("rate: 15", "rate: 150"):                     "stop.rate",
		replaced("rate: 15", "rate: .nan"):                    "",
		replaced("sample: 5", "sample: 51"):                   "stop.sample",
		replaced("concurrency: 10", "concurrency: 0"):         "limits.concurrency",
		replaced("tolerance: 5%", "tolerance: some"):          "limits.tolerance",
		replaced("Europe/Zurich", "Europe/Zurch"):             "windows.zone",
		replaced(`"18:00"`, `"08:00"`):                        "windows.open[0]",
		replaced("[mon, tue]", "[mon, die]"):                  "windows.open[0].days",
		replaced("reason: Frozen until March.", "reason: ''"): "targets.exclude",
		replaced(`match: ["acme/*"]`, `match: ["["]`):         "targets.match",
		replaced("first: 3", "first: 3, counts: [MERGED]"):    "stop.counts",
		replaced("first: 3", "first: many"):                   "stop.first",
		"name: x\ngoal: y\n":                                  "targets",
	} {
		_, err := campaign.Parse([]byte(doc))
		f, ok := fault.Find(err)
		if !ok || f.Kind != fault.Invalid || !strings.HasPrefix(f.Sentence, "Nothing was stored: ") {
			t.Errorf("%q: %v", doc, err)
			continue
		}
		if f.Field != field {
			t.Errorf("%.60q: the field is %q, want %q: %v", doc, f.Field, field, err)
		}
	}
	if _, err := campaign.Parse([]byte(strings.Repeat("#", 5<<20))); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("five megabytes: %v", err)
	}
}

// What waves are called.
func ExampleSpec_WaveName() {
	spec := campaign.Default()
	spec.Waves = append(spec.Waves[:2:2], spec.Waves[1], spec.Waves[2])
	for i := range spec.Waves {
		fmt.Println(spec.WaveName(i))
	}
	// Output:
	// Canary
	// Ramp 1 of 2
	// Ramp 2 of 2
	// Full
}

// A hostile document ends soon, and ends in an error.
func TestParseHostile(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"[", "{a: ", "- ", "? ", "a:\n ", "\t", "'", "&a *a ", "!!x ", "\xff"} {
		if _, err := campaign.Parse([]byte(strings.Repeat(part, (200<<10)/len(part)))); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q again and again: %v", part, err)
		}
	}
}
