package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"signalbox/db"
	"signalbox/internal/patch"
	"signalbox/internal/run"
	"signalbox/web"
)

// agentWords reads what the agent says about the run's current result: about exactly the stored patch, or why nothing
// needs to change. The words are hostile until shown otherwise. Hidden characters are written out, and words that hold a
// secret are neither shown nor published.
func (s *server) agentWords(r *http.Request, info db.RunInfo) (web.AgentWords, error) {
	kind := run.KindPatchCreated
	switch info.Outcome {
	case run.OutcomePatch:
	case run.OutcomeNoChange:
		kind = run.KindNoChangeReported
	default:
		return web.AgentWords{}, nil
	}
	e, ok, err := s.store.LastEvent(r.Context(), info.Tenant, info.ID, kind)
	if err != nil || !ok {
		return web.AgentWords{}, err
	}
	var said struct {
		Payload struct {
			Patch   run.Patch `json:"patch"`
			Summary string    `json:"summary"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(e.Payload, &said); err != nil {
		return web.AgentWords{}, fmt.Errorf("read event %d: %w", e.Seq, err)
	}
	if info.Patch != nil && said.Payload.Patch.Artifact != info.Patch.Artifact {
		return web.AgentWords{}, nil
	}
	text := strings.TrimSpace(said.Payload.Summary)
	if text == "" {
		return web.AgentWords{}, nil
	}
	secret, err := s.scanner.InText(r.Context(), text)
	switch {
	case err != nil:
		return web.AgentWords{}, fmt.Errorf("look for secrets in the agent's words: %w", err)
	case secret:
		return web.AgentWords{Withheld: "What the agent says holds something that looks like a secret, so it is not shown and goes into no pull request."}, nil
	}
	text, _ = patch.Reveal(text)
	return web.AgentWords{Text: text}, nil
}
