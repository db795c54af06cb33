package campaign_test

import (
	"fmt"
	"testing"
	"time"

	"signalbox/internal/campaign"
)

// One look at a campaign in full swing. The goal for 5,000 targets is 50 ms.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{300, 5_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := campaign.Snapshot{Campaign: campaign.Campaign{State: campaign.Running, Spec: campaign.Default(), SpecVersion: 1, ProvenVersion: 1}}
			s.Spec.Waves = s.Spec.Waves[2:]
			s.Spec.Limits.Concurrency, s.Spec.Limits.Tolerance, s.Spec.Limits.OpenPerOwner = 500, "20%", 50
			for i := range n {
				t := campaign.Target{Repository: fmt.Sprint("r", i), Owner: fmt.Sprint("team", i%200), Stage: campaign.Waiting}
				if i < n/2 {
					t.Stage, t.Outcome, t.SpecVersion, t.EndedAt = campaign.Ended, campaign.Delivered, 1, at.Add(-time.Duration(i)*time.Second)
				}
				s.Targets = append(s.Targets, t)
			}
			b.ReportAllocs()
			for b.Loop() {
				if plan := campaign.Plan(s, at); len(plan) == 0 || plan[0].Kind != campaign.ActStart {
					b.Fatalf("the plan is %v", plan)
				}
			}
		})
	}
}
