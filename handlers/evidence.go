package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"signalbox/db"
	"signalbox/internal/argv"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// maxReport bounds a report that is read for a page.
const maxReport = 8 << 20

// verification is the part of a stored verification report that we read. The worker wrote it, so it is shown and
// compared, never executed.
type verification struct {
	Schema      string   `json:"schema"`
	Verdict     string   `json:"verdict"`
	Repairable  bool     `json:"repairable"`
	PatchDigest string   `json:"patch_digest"`
	Isolation   string   `json:"isolation"`
	Summary     string   `json:"summary"`
	Commands    commands `json:"commands"`
}

// commands are at most maxCommands: two bytes of a hostile report are a whole command in memory and a row of a page.
type commands = listed[command]

// maxCommands bounds the commands of a report and the reasons of a judgement. A verifier runs at most a hundred.
const maxCommands = 100

// listed is a list of at most maxCommands entries; a longer one is refused before it is unfolded.
type listed[T any] []T

// UnmarshalJSON refuses a list that is too long.
func (b *listed[T]) UnmarshalJSON(raw []byte) error {
	*b = nil
	d := json.NewDecoder(bytes.NewReader(raw))
	first, err := d.Token()
	if err != nil || first == nil {
		return err
	}
	if first != json.Delim('[') {
		return errors.New("this is no list")
	}
	for d.More() {
		if len(*b) == maxCommands {
			return fmt.Errorf("the list has more than %d entries", maxCommands)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		*b = append(*b, one)
	}
	return nil
}

type command struct {
	Name        string   `json:"name"`
	Argv        []string `json:"argv"`
	Class       string   `json:"class"`
	Blocks      bool     `json:"blocks"`
	Preexisting bool     `json:"preexisting"`
	ExitCode    int      `json:"exit_code"`
	DurationMS  int64    `json:"duration_ms"`
	Sentence    string   `json:"sentence"`
	Output      struct {
		Head string `json:"head"`
		Tail string `json:"tail"`
	} `json:"output"`
}

func (c command) passed() bool { return c.Class == "passed" }

func (c command) end() string {
	if c.Output.Tail != "" {
		return c.Output.Tail
	}
	return c.Output.Head
}

// judgement is the stored report of the judge.
type judgement struct {
	Verdict    string  `json:"verdict"`
	Confidence float64 `json:"confidence"`
	Reasons    listed[struct {
		Words string `json:"words"`
	}] `json:"reasons"`
}

// runEvidence is what a person can rely on when they decide.
type runEvidence struct {
	verified  bool
	report    verification
	reportID  string
	reportSHA string
	judged    bool
	judge     judgement
	judgeID   string
	judgedAt  time.Time
}

// evidence reads the reports that belong to the run's current result.
func (s *server) evidence(r *http.Request, info db.RunInfo) (runEvidence, error) {
	var ev runEvidence
	artifacts, err := s.store.Artifacts(r.Context(), info.Tenant, info.ID)
	if err != nil {
		return ev, err
	}
	judged, err := s.store.JudgeArtifact(r.Context(), info.Tenant, info.ID)
	if err != nil {
		return ev, err
	}
	for _, a := range artifacts {
		switch {
		case a.Late:
		case a.Kind == "verification_report" && a.SHA256 == info.Verification:
			if err := s.readJSON(r, info, a, &ev.report); err != nil {
				return ev, err
			}
			ev.verified, ev.reportID, ev.reportSHA = true, typeid.Format(typeid.Artifact, a.ID), a.SHA256
		case a.Kind == "judge_report" && typeid.Format(typeid.Artifact, a.ID) == judged:
			if err := s.readJSON(r, info, a, &ev.judge); err != nil {
				return ev, err
			}
			ev.judged, ev.judgeID, ev.judgedAt = true, typeid.Format(typeid.Artifact, a.ID), a.CreatedAt
		}
	}
	return ev, nil
}

// readJSON reads a stored report. One that cannot be read is shown as absent, and says so in the log.
func (s *server) readJSON(r *http.Request, info db.RunInfo, a db.ArtifactInfo, to any) error {
	raw, err := s.artifacts.Read(r.Context(), info.Tenant, a.SHA256, maxReport)
	if err != nil {
		return fmt.Errorf("read %s: %w", a.Kind, err)
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return fault.Wrap(fault.Invalid, err, "A stored report of this run cannot be read, so nothing is shown that stands on it.").WithCode("report_unreadable")
	}
	return nil
}

// evidenceView is the same for a page.
func (s *server) evidenceView(r *http.Request, info db.RunInfo, standing db.Standing) (web.Evidence, error) {
	ev, err := s.evidence(r, info)
	if err != nil {
		return web.Evidence{}, err
	}
	view := web.Evidence{Isolation: info.Isolation, ReportDigest: ev.reportSHA}
	if view.SameWorker, view.Verifier, err = s.verifier(r.Context(), info); err != nil {
		return view, err
	}
	if ev.verified && ev.report.Isolation != "" {
		view.Isolation = ev.report.Isolation
	}
	for _, c := range ev.report.Commands {
		shown := web.CommandResult{
			Command: argv.Format(c.Argv), Passed: c.passed(), ExitCode: c.ExitCode, Duration: time.Duration(c.DurationMS) * time.Millisecond, LogURL: web.ArtifactURL(ev.reportID),
		}
		if c.Preexisting {
			shown.Baseline = "It also fails without the patch."
		}
		if !c.passed() {
			tail, _, _ := logLines([]byte(c.end()), maxTailLines)
			shown.LogTail = joinLines(tail)
		}
		view.Commands = append(view.Commands, shown)
	}
	if ev.judged {
		view.Verdict, view.Confidence = strings.ToUpper(ev.judge.Verdict), fmt.Sprintf("%.2f", ev.judge.Confidence)
		for _, reason := range ev.judge.Reasons {
			view.JudgeReasons = append(view.JudgeReasons, reason.Words)
		}
	}
	for _, g := range standing.Guards {
		view.Guards = append(view.Guards, web.GuardView{Words: g.Words, Met: g.Passed})
	}
	return view, nil
}

// verifier says who verified the run's result, and whether it is the worker that made it.
func (s *server) verifier(ctx context.Context, info db.RunInfo) (same bool, name string, err error) {
	e, ok, err := s.store.LastVerification(ctx, info.Tenant, info.ID)
	if err != nil || !ok {
		return false, "", err
	}
	var started struct {
		Payload run.VerificationStartedEvent `json:"payload"`
	}
	if err := json.Unmarshal(e.Payload, &started); err != nil {
		return false, "", fmt.Errorf("read event %d: %w", e.Seq, err)
	}
	return started.Payload.SameWorker, e.By.Name, nil
}
