package handlers

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// What a download about a run holds at most, so that a run of any length makes a file that can be sent on.
const (
	exportEvents    = 2000 // of a longer log the beginning and the end
	exportGates     = 100
	bundleEvents    = 300
	bundleSteps     = 30
	bundleTailBytes = 200 << 10 // all log tails together
)

// runExport is the evidence of a run as one document: what happened with its hashes, who decided on what, what went out, what is stored.
// Contents of artifacts are not in it; their digests are.
type runExport struct {
	Schema    string            `json:"schema"`
	MadeAt    time.Time         `json:"made_at"`
	Run       wire.Run          `json:"run"`
	Events    []exportedEvent   `json:"events"`
	LeftOut   int64             `json:"events_left_out"`
	Gates     []exportedGate    `json:"gates"`
	Effects   []db.Operation    `json:"operations"`
	Attempts  []exportedAttempt `json:"attempts"`
	Artifacts []wire.Artifact   `json:"artifacts"`
	Cost      string            `json:"cost,omitempty"`
}

type exportedEvent struct {
	Seq     int64           `json:"seq"`
	Kind    run.Kind        `json:"kind"`
	By      run.Actor       `json:"by"`
	From    run.State       `json:"from,omitempty"`
	To      run.State       `json:"to,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	At      time.Time       `json:"at"`
	Payload json.RawMessage `json:"payload"`
	Hash    string          `json:"hash,omitempty"`
}

type exportedGate struct {
	ID        string             `json:"id"`
	Kind      run.GateKind       `json:"kind"`
	State     run.GateState      `json:"state"`
	Revision  int                `json:"revision"`
	Digest    string             `json:"digest"`
	OpenedAt  time.Time          `json:"opened_at"`
	Decisions []exportedDecision `json:"decisions"`
}

type exportedDecision struct {
	By         string    `json:"by"`
	Verdict    string    `json:"verdict"`
	Revision   int       `json:"revision"`
	DigestSeen string    `json:"digest_seen"`
	Text       string    `json:"text,omitempty"`
	Channel    string    `json:"channel"`
	At         time.Time `json:"at"`
}

type exportedAttempt struct {
	Number  int        `json:"number"`
	State   string     `json:"state"`
	Code    run.Code   `json:"code,omitempty"`
	Worker  string     `json:"worker"`
	Started time.Time  `json:"started_at"`
	Ended   *time.Time `json:"ended_at,omitempty"`
}

// diagnostics is what somebody who looks into a failure is sent: the newest events, versions, steps and the tails of their logs.
type diagnostics struct {
	runExport
	Server   map[string]string `json:"server"`
	Versions map[string]string `json:"versions"`
	Steps    []stepDiagnosis   `json:"steps"`
	Notes    []string          `json:"notes"`
}

type stepDiagnosis struct {
	Name     string     `json:"name"`
	Kind     string     `json:"kind"`
	State    string     `json:"state"`
	Attempt  int        `json:"attempt"`
	Started  time.Time  `json:"started_at"`
	Ended    *time.Time `json:"ended_at,omitempty"`
	ExitCode *int       `json:"exit_code,omitempty"`
	Summary  string     `json:"summary,omitempty"`
	LogTail  []string   `json:"log_tail,omitempty"`
	LogLines int        `json:"log_lines,omitempty"`
}

// getRunExport downloads the evidence of a run.
func (s *server) getRunExport(w http.ResponseWriter, r *http.Request) error {
	info, err := s.runAsked(r)
	if err != nil {
		return err
	}
	doc, err := s.export(r, info, exportEvents)
	if err != nil {
		return err
	}
	return s.downloadJSON(w, r, "run", doc.Run.Id, doc)
}

// getRunDiagnostics downloads what is needed to look into a run elsewhere.
func (s *server) getRunDiagnostics(w http.ResponseWriter, r *http.Request) error {
	info, err := s.runAsked(r)
	if err != nil {
		return err
	}
	doc := diagnostics{Versions: map[string]string{"agent": strings.TrimSpace(info.AgentProfile + " " + info.AdapterVersion), "policy": info.PolicyVersion, "isolation": info.Isolation},
		Server: s.serverVersions(), Notes: []string{"Contents of artifacts are not in this file.", "Of the logs the last lines are here; the whole logs are on the run's page."}}
	if doc.runExport, err = s.export(r, info, bundleEvents); err != nil {
		return err
	}
	doc.Schema = "signalbox.diagnostics/v1"
	if doc.Steps, err = s.diagnoseSteps(r, info); err != nil {
		return err
	}
	return s.downloadJSON(w, r, "diagnostics", doc.Run.Id, doc)
}

func (s *server) serverVersions() map[string]string {
	v := map[string]string{"version": s.version}
	if b, ok := debug.ReadBuildInfo(); ok {
		v["go"], v["module"] = b.GoVersion, b.Main.Version
		for _, set := range b.Settings {
			if set.Key == "vcs.revision" {
				v["revision"] = set.Value
			}
		}
	}
	return v
}

// downloadJSON sends a document with all that looks like a secret left out: the file goes to places which the pages do not.
func (s *server) downloadJSON(w http.ResponseWriter, r *http.Request, what, id string, doc any) error {
	raw, err := s.withoutSecrets(r.Context(), doc)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if err := json.Indent(&body, raw, "", "  "); err != nil {
		return fmt.Errorf("indent %s: %w", what, err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", "signalbox-"+what+"-"+id+".json"))
	w.Header().Set("Cache-Control", "private, no-store")
	body.WriteByte('\n')
	_, err = w.Write(body.Bytes())
	return err
}

// export reads the document about a run with at most this many events.
func (s *server) export(r *http.Request, info db.RunInfo, most int64) (runExport, error) {
	doc := runExport{Schema: "signalbox.run/v1", MadeAt: time.Now().UTC(), Run: wireRun(info), Events: []exportedEvent{}, Gates: []exportedGate{}, Artifacts: []wire.Artifact{}}
	if err := s.exportEvents(r, info, most, &doc); err != nil {
		return doc, err
	}
	if err := s.exportGates(r, info, &doc); err != nil {
		return doc, err
	}
	var err error
	if doc.Effects, err = s.store.Operations(r.Context(), db.Ref{Tenant: info.Tenant, Run: info.ID}); err != nil {
		return doc, err
	}
	attempts, err := s.store.Attempts(r.Context(), info.Tenant, info.ID)
	if err != nil {
		return doc, err
	}
	for _, a := range attempts {
		doc.Attempts = append(doc.Attempts, exportedAttempt{a.No, string(a.State), a.Code, a.Worker, a.StartedAt, a.EndedAt})
	}
	artifacts, err := s.store.Artifacts(r.Context(), info.Tenant, info.ID)
	if err != nil {
		return doc, err
	}
	for _, a := range artifacts {
		doc.Artifacts = append(doc.Artifacts, wireArtifact(a))
	}
	cost, err := s.store.RunCost(r.Context(), db.Ref{Tenant: info.Tenant, Run: info.ID})
	if err != nil {
		return doc, err
	}
	doc.Cost = costWords(cost, s.currency)
	return doc, s.unsecretParts(r, &doc)
}

func (s *server) exportEvents(r *http.Request, info db.RunInfo, most int64, doc *runExport) error {
	spans := [][2]int64{{0, info.Version}}
	if info.Version > most {
		doc.LeftOut = info.Version - most
		spans = [][2]int64{{0, most / 2}, {info.Version - (most - most/2), most - most/2}}
	}
	for _, span := range spans {
		events, err := s.store.Events(r.Context(), info.Tenant, info.ID, span[0], int32(span[1]))
		if err != nil {
			return err
		}
		for _, e := range events {
			doc.Events = append(doc.Events, exportedEvent{e.Seq, e.Kind, e.By, e.From, e.To, e.Attempt, e.At, e.Payload, hex.EncodeToString(e.Hash)})
		}
	}
	return nil
}

func (s *server) exportGates(r *http.Request, info db.RunInfo, doc *runExport) error {
	gates, err := s.store.GatesOfRun(r.Context(), info.Tenant, info.ID, exportGates)
	if err != nil {
		return err
	}
	ids := make([]uuid.UUID, len(gates))
	for i, g := range gates {
		ids[i] = g.ID
	}
	all, err := s.store.Decisions(r.Context(), info.Tenant, ids...)
	if err != nil {
		return err
	}
	decisions := map[uuid.UUID][]exportedDecision{}
	for _, d := range all {
		decisions[d.Gate] = append(decisions[d.Gate], exportedDecision{d.UserName, string(d.Verdict), d.Revision, d.Digest, d.Text, d.Channel, d.At})
	}
	for _, g := range gates {
		e := exportedGate{ID: typeid.Format(typeid.Gate, g.ID), Kind: g.Kind, State: g.State, Revision: g.Revision, Digest: g.Digest, OpenedAt: g.OpenedAt, Decisions: []exportedDecision{}}
		e.Decisions = append(e.Decisions, decisions[g.ID]...)
		doc.Gates = append(doc.Gates, e)
	}
	return nil
}

// diagnoseSteps are the newest steps, with the tails of their logs as far as they fit.
func (s *server) diagnoseSteps(r *http.Request, info db.RunInfo) ([]stepDiagnosis, error) {
	steps, err := s.store.LastSteps(r.Context(), info.Tenant, info.ID, bundleSteps)
	if err != nil {
		return nil, err
	}
	all, room := []stepDiagnosis{}, bundleTailBytes
	for _, step := range steps {
		d := stepDiagnosis{Name: step.Name, Kind: step.Kind, State: string(step.State), Attempt: step.AttemptNo, Started: step.StartedAt, Ended: step.FinishedAt, ExitCode: step.ExitCode, Summary: step.Summary}
		tail, total, err := s.stepTail(r.Context(), info.Tenant, info.ID, step)
		if err != nil {
			return nil, err
		}
		d.LogLines = total
		for _, line := range tail {
			if room -= len(line); room < 0 {
				break
			}
			d.LogTail = append(d.LogTail, line)
		}
		if d.LogTail, err = s.unsecretLines(r, d.LogTail); err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}
