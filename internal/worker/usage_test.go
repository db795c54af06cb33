package worker_test

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"signalbox/internal/wire"
)

// R-COST-1: what the agent says of its calls arrives: tokens, provider, model, and the cost where it named one. Calls with
// and without a cost, and of different models, are never added up as one; nor is what no model was called for lost.
func TestUsageArrivesAsItWasSaid(t *testing.T) {
	t.Parallel()
	b := newBench(t, `printf '%s\n' '{"type":"usage","input":10,"output":1,"provider":"acme","model":"m","cost_micros":500}' \
 '{"type":"usage","input":20,"output":2,"provider":"acme","model":"m"}' \
 '{"type":"usage","input":30,"output":3,"cache_read":4,"provider":"acme","model":"m","cost_micros":0}' \
 '{"type":"usage","input":40,"output":4,"model":"other","cost_micros":1000000000000}' \
 '{"type":"usage","input":40,"output":4,"model":"other","cost_micros":1000000000000}' \
 '{"type":"usage","input":1,"output":1,"model":"other","cost_micros":-1}' \
 '{"type":"usage","input":1,"output":1,"model":"other","cost_micros":"free"}' \
 '{"type":"tool_started","call_id":"c","name":"sed"}' '{"type":"tool_finished","call_id":"c","status":"ok","duration_ms":7}' >&3
sed -i s/hello/goodbye/ greeting.txt`)
	b.start()
	b.execute()
	type key struct {
		Provider, Model string
		Costed          bool
	}
	type sum struct{ Calls, In, Out, Cost int64 }
	got := map[key]sum{}
	var tools, toolMs int64
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	for _, u := range b.server.usage {
		tools, toolMs = tools+u.ToolCalls, toolMs+u.ToolMs
		if u.ProviderCalls == 0 {
			continue
		}
		k := key{u.Provider, u.Model, u.CostMicros != nil}
		s := got[k]
		got[k] = sum{s.Calls + u.ProviderCalls, s.In + u.InputTokens, s.Out + u.OutputTokens, s.Cost + *cmp.Or(u.CostMicros, new(int64))}
	}
	other := got[key{"", "other", true}]
	if other.Calls != 2 || other.In != 80 || other.Cost < 1_000_000_000_000 {
		t.Errorf("a cost beyond all bounds: %+v", other)
	}
	delete(got, key{"", "other", true})
	want := map[key]sum{{"acme", "m", true}: {2, 44, 4, 500}, {"acme", "m", false}: {1, 20, 2, 0}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if tools != 1 || toolMs != 7 {
		t.Errorf("%d tool calls of %d ms", tools, toolMs)
	}
	if slices.ContainsFunc(b.server.usage, func(u wire.UsageReport) bool { return u.CostMicros != nil && *u.CostMicros > 1_000_000_000_000 }) {
		t.Error("a report that the server refuses")
	}
}

// R-COST-1: amounts that the server would refuse arrive as the greatest that it stores, so that nothing of the same report is lost.
func TestUsageIsBoundedByWhatIsStored(t *testing.T) {
	t.Parallel()
	const most = 1_000_000_000_000
	b := newBench(t, `printf '%s\n' '{"type":"tool_started","call_id":"c","name":"sed"}' '{"type":"tool_finished","call_id":"c","status":"ok","duration_ms":1099511627776}' \
 '{"type":"usage","input":1000000000000,"output":3,"cache_read":1000000000000,"cache_write":7,"model":"m"}' >&3
sed -i s/hello/goodbye/ greeting.txt`)
	b.start()
	b.execute()
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	var in, out int64
	for _, u := range b.server.usage {
		in, out = in+u.InputTokens, out+u.OutputTokens
		if max(u.InputTokens, u.ToolMs) > most {
			t.Errorf("%d tokens and %d ms in one report, want at most %d", u.InputTokens, u.ToolMs, int64(most))
		}
	}
	if in != most || out != 3 {
		t.Errorf("%d tokens in and %d out", in, out)
	}
}
