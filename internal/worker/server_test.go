package worker_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/api"
	"signalbox/internal/forge"
	"signalbox/internal/sandbox"
	"signalbox/internal/wire"
)

func TestMain(m *testing.M) {
	sandbox.InitMain()
	os.Exit(m.Run())
}

// contractServer speaks the worker's side of the API contract: every body is checked against the document itself. It
// has no state machine; a test says what is assigned and looks at what was reported.
type contractServer struct {
	t     *testing.T
	url   string
	doc   *api.Document
	forge *forge.Local
	clone map[string]string // repository id → clone address

	mu         sync.Mutex
	queue      []wire.Assignment
	claims     map[string]wire.ClaimAck
	commands   []wire.RunCommand
	answers    map[string]answer
	artifacts  map[string][]byte
	refuseKind wire.ArtifactKind // uploads of this kind are refused, and counted
	refuseWith int               // the status of that; 0 means 422
	refused    int
	kinds      []wire.Artifact
	steps      []wire.StepReport
	logs       map[string][]byte
	sequences  map[string]int64
	operations map[string]string
	usage      []wire.UsageReport
	pulls      []wire.LocalPull
	beats      []wire.Heartbeat
	goodbyes   int
	registered []wire.WorkerRegister

	ttl     time.Duration
	gate    bool                                      // the plan is shown to a person
	signal  func(lease string) wire.LeaseSignalSignal // nil: alive
	refuse  func(c wire.RunCommand) *wire.Problem     // nil answer: accepted
	lose    map[string]int                            // answers to lose after the effect, by command or path
	onCmd   func(c wire.RunCommand)
	onBeat  func(l wire.HeldLease)
	arrived chan struct{}
	silent  bool // heartbeats get no answer
}

type answer struct {
	digest string
	body   []byte
}

func newContractServer(t *testing.T) *contractServer {
	t.Helper()
	doc, err := api.Parse()
	if err != nil {
		t.Fatal(err)
	}
	s := &contractServer{
		t: t, doc: doc, claims: map[string]wire.ClaimAck{}, answers: map[string]answer{}, artifacts: map[string][]byte{}, logs: map[string][]byte{},
		sequences: map[string]int64{}, operations: map[string]string{}, lose: map[string]int{}, ttl: 3 * time.Second, clone: map[string]string{}, arrived: make(chan struct{}, 1),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/workers/register", s.register)
	mux.HandleFunc("POST /api/v1/workers/deregister", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		s.goodbyes++
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /api/v1/workers/heartbeat", s.heartbeat)
	mux.HandleFunc("POST /api/v1/workers/claims", s.claim)
	mux.HandleFunc("POST /api/v1/runs/{run}/commands", s.command)
	mux.HandleFunc("POST /api/v1/runs/{run}/artifacts", s.upload)
	mux.HandleFunc("GET /api/v1/artifacts/{id}/content", s.content)
	mux.HandleFunc("POST /api/v1/runs/{run}/steps", s.postSteps)
	mux.HandleFunc("POST /api/v1/runs/{run}/logs", s.postLogs)
	mux.HandleFunc("POST /api/v1/runs/{run}/usage", s.postUsage)
	mux.HandleFunc("GET /api/v1/local-forge/repositories/{repo}/pulls", s.listPulls)
	mux.HandleFunc("POST /api/v1/local-forge/repositories/{repo}/pulls", s.ensurePull)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sbw_test" {
			problem(w, http.StatusUnauthorized, wire.Problem{Title: "no"})
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func problem(w http.ResponseWriter, status int, p wire.Problem) {
	p.Type, p.Status = "about:blank", status
	if p.Title == "" {
		p.Title = http.StatusText(status)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(p)
}

// read decodes a body into out and holds it against the contract.
func (s *contractServer) read(w http.ResponseWriter, r *http.Request, schema string, out any) bool {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		s.t.Errorf("%s: no JSON: %v", schema, err)
	}
	for _, v := range s.doc.Check(schema, value) {
		s.t.Errorf("%s.%s: %s", schema, v.Field, v.Message)
		problem(w, http.StatusUnprocessableEntity, wire.Problem{Detail: v.Message})
		return false
	}
	if err := json.Unmarshal(raw, out); err != nil {
		s.t.Errorf("%s: %v", schema, err)
	}
	return true
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// lost takes the answer away after the effect, as a network does.
func (s *contractServer) lost(w http.ResponseWriter, what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lose[what] <= 0 {
		return false
	}
	s.lose[what]--
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.Close()
	}
	return true
}

func (s *contractServer) register(w http.ResponseWriter, r *http.Request) {
	var b wire.WorkerRegister
	if s.read(w, r, "WorkerRegister", &b) {
		s.mu.Lock()
		s.registered = append(s.registered, b)
		s.mu.Unlock()
		reply(w, http.StatusCreated, wire.WorkerBoot{WorkerId: "wrk_1", BootId: "boot_1", LeaseTtlMs: s.ttl.Milliseconds(), HeartbeatMs: (s.ttl / 6).Milliseconds(), DrainGraceMs: 1000, CancelGraceMs: 1000})
	}
}

func (s *contractServer) heartbeat(w http.ResponseWriter, r *http.Request) {
	var b wire.Heartbeat
	if !s.read(w, r, "Heartbeat", &b) {
		return
	}
	s.mu.Lock()
	s.beats = append(s.beats, b)
	silent := s.silent
	s.mu.Unlock()
	if silent {
		problem(w, http.StatusServiceUnavailable, wire.Problem{})
		return
	}
	ack := wire.HeartbeatAck{Leases: []wire.LeaseSignal{}}
	for _, l := range b.Leases {
		if s.onBeat != nil {
			s.onBeat(l)
		}
		sig := wire.SignalAlive
		if s.signal != nil {
			sig = s.signal(l.LeaseId)
		}
		ack.Leases = append(ack.Leases, wire.LeaseSignal{LeaseId: l.LeaseId, RunId: l.RunId, Signal: sig, ExpiresInMs: s.ttl.Milliseconds()})
	}
	reply(w, http.StatusOK, ack)
}

// assign offers work and wakes a waiting claim.
func (s *contractServer) assign(a wire.Assignment) {
	s.mu.Lock()
	s.queue = append(s.queue, a)
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

func (s *contractServer) claim(w http.ResponseWriter, r *http.Request) {
	var b wire.Claim
	if !s.read(w, r, "Claim", &b) {
		return
	}
	give := func() (wire.ClaimAck, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ack, ok := s.claims[b.ClaimId]; ok {
			return ack, true
		}
		n := min(b.Max, len(s.queue))
		if n == 0 {
			return wire.ClaimAck{Assignments: []wire.Assignment{}}, false
		}
		ack := wire.ClaimAck{Assignments: slices.Clone(s.queue[:n])}
		s.queue = s.queue[n:]
		s.claims[b.ClaimId] = ack
		return ack, true
	}
	ack, ok := give()
	if !ok && b.WaitSeconds > 0 {
		select {
		case <-s.arrived:
		case <-r.Context().Done():
		case <-time.After(time.Duration(b.WaitSeconds) * time.Second):
		}
		ack, _ = give()
	}
	if !s.lost(w, "claim") {
		reply(w, http.StatusOK, ack)
	}
}

func ends(c wire.RunCommand, gate bool) bool {
	switch c.Command {
	case wire.CmdPlanSubmitted:
		return gate
	case wire.CmdVerificationReported:
		return !c.VerificationReported.Passed
	case wire.CmdPatchSubmitted, wire.CmdReportSubmitted, wire.CmdNoChangeSubmitted, wire.CmdJudgeReported, wire.CmdPrReported, wire.CmdBaseMoved,
		wire.CmdBranchTouched, wire.CmdAttemptFailed, wire.CmdRelease, wire.CmdStopped, wire.CmdCancelConfirmed:
		return true
	}
	return false
}

func (s *contractServer) command(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	var c wire.RunCommand
	if !s.read(w, r, "RunCommand", &c) {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	sum := sha256.Sum256(raw)
	digest := hex.EncodeToString(sum[:])
	s.mu.Lock()
	stored, known := s.answers[key]
	s.mu.Unlock()
	if known {
		if stored.digest != digest {
			s.t.Errorf("key %s came with two contents", key)
		}
		w.Header().Set("Idempotency-Replayed", "true")
		_, _ = w.Write(stored.body)
		return
	}
	if s.refuse != nil {
		if p := s.refuse(c); p != nil {
			problem(w, p.Status, *p)
			return
		}
	}
	body, err := json.Marshal(wire.CommandAck{Run: wire.RunRef{Id: r.PathValue("run"), State: wire.RunStateEXECUTING, Version: 1}, Continue: !ends(c, s.gate)})
	if err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	switch c.Command {
	case wire.CmdOperationIntended:
		s.operations[c.OperationIntended.Identity] = c.LeaseId
	case wire.CmdOperationDispatched, wire.CmdOperationObserved:
		identity := ""
		if c.OperationDispatched != nil {
			identity = c.OperationDispatched.Identity
		} else {
			identity = c.OperationObserved.Identity
		}
		if s.operations[identity] != c.LeaseId {
			s.t.Errorf("%s of %q, which lease %q holds", c.Command, identity, s.operations[identity])
		}
	}
	s.commands = append(s.commands, c)
	s.answers[key] = answer{digest, body}
	s.mu.Unlock()
	if s.onCmd != nil {
		s.onCmd(c)
	}
	if !s.lost(w, string(c.Command)) {
		_, _ = w.Write(body)
	}
}

func (s *contractServer) upload(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	q := r.URL.Query()
	sum := sha256.Sum256(raw)
	digest := hex.EncodeToString(sum[:])
	if digest != q.Get("sha256") || q.Get("lease_id") == "" || q.Get("fencing_token") == "" {
		s.t.Errorf("upload %s: digest or lease wrong", q.Get("kind"))
	}
	if s.refuseKind != "" && q.Get("kind") == string(s.refuseKind) {
		s.mu.Lock()
		s.refused++
		s.mu.Unlock()
		problem(w, cmp.Or(s.refuseWith, http.StatusUnprocessableEntity), wire.Problem{})
		return
	}
	id := "art_" + digest[:12] + q.Get("kind")
	a := wire.Artifact{Id: id, RunId: r.PathValue("run"), Kind: wire.ArtifactKind(q.Get("kind")), Name: q.Get("name"), Sha256: digest, Size: int64(len(raw)), CreatedAt: time.Unix(1, 0).UTC()}
	s.mu.Lock()
	if _, again := s.artifacts[id]; !again {
		s.kinds = append(s.kinds, a)
	}
	s.artifacts[id] = raw
	s.mu.Unlock()
	if !s.lost(w, "upload") {
		reply(w, http.StatusCreated, a)
	}
}

func (s *contractServer) content(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	raw, ok := s.artifacts[r.PathValue("id")]
	s.mu.Unlock()
	if !ok {
		problem(w, http.StatusNotFound, wire.Problem{})
		return
	}
	_, _ = w.Write(raw)
}

// fact takes a batch once per sequence and kind.
