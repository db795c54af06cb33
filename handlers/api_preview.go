package handlers

import (
	"net/http"
	"time"

	"signalbox/internal/wire"
	"signalbox/web"
)

// apiPreviewTask says what would become of the task. It stores nothing.
func (s *server) apiPreviewTask(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[wire.TaskCreate](s, r)
	if err != nil {
		return err
	}
	spec, err := taskSpec(body)
	if err != nil {
		return err
	}
	data, err := s.foreseen(r, spec)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, wirePreview(data))
}

func wirePreview(d web.TaskPreviewData) wire.TaskPreview {
	words := d.Words()
	shown := wire.TaskPreview{
		AsOf: d.Now, PolicyVersion: d.Plan.PolicyVersion, Admission: wire.TaskPreviewAdmission(d.Admission.Verdict), Refused: d.Refused != "",
		RetryAfterSeconds: int(d.Admission.RetryAfter.Std() / time.Second), Message: words.Verdict, Reasons: words.Reasons, Gates: []wire.PreviewGate{},
		NotAsked: words.Unasked, Attestation: words.Attested, MayNotWhy: words.Barred,
	}
	for _, g := range words.Gates {
		shown.Gates = append(shown.Gates, wire.PreviewGate{
			Kind: wire.GateKind(g.Kind), Role: g.Role, Quorum: g.Quorum, Title: g.Title, Reasons: g.Reasons, Approvers: g.People, Short: g.Short,
		})
	}
	if words.Wait == "" {
		return shown
	}
	shown.Limits = words.Bounds
	shown.Wait = &wire.PreviewWait{
		Queue: d.Wait.Queue, Ahead: d.Wait.Ahead, OldestAt: d.Wait.Oldest, CompletionsPerMinute: float32(d.Wait.Went), WorkerFree: d.Wait.AtOnce,
		Message: words.Wait, Reason: d.Wait.Why,
	}
	shown.LastRuns = &wire.PreviewRuns{Currency: string(d.Currency), CostsMicros: d.Last.Costs, Unpriced: d.Last.Unpriced, ActiveSeconds: []int{}, Cost: words.Cost, Time: words.Time}
	if shown.LastRuns.CostsMicros == nil {
		shown.LastRuns.CostsMicros = []int64{}
	}
	for _, took := range d.Last.Worked {
		shown.LastRuns.ActiveSeconds = append(shown.LastRuns.ActiveSeconds, int(took/time.Second))
	}
	return shown
}
