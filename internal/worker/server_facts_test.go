package worker_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"signalbox/internal/wire"
)

func (s *contractServer) fact(w http.ResponseWriter, kind, lease string, seq int64, store func()) {
	s.mu.Lock()
	key := kind + lease
	last := s.sequences[key]
	replayed := seq <= last
	if seq > last+1 {
		s.t.Errorf("%s: sequence %d after %d", key, seq, last)
	}
	if !replayed {
		s.sequences[key] = seq
		store()
	}
	s.mu.Unlock()
	if !s.lost(w, kind) {
		reply(w, http.StatusOK, wire.FactAck{Sequence: seq, Replayed: replayed})
	}
}

func (s *contractServer) postSteps(w http.ResponseWriter, r *http.Request) {
	var b wire.StepBatch
	if s.read(w, r, "StepBatch", &b) {
		s.fact(w, "steps", b.LeaseId, b.Sequence, func() { s.steps = append(s.steps, b.Steps...) })
	}
}

func (s *contractServer) postLogs(w http.ResponseWriter, r *http.Request) {
	var b wire.LogBatch
	if s.read(w, r, "LogBatch", &b) {
		s.fact(w, "logs", b.LeaseId, b.Sequence, func() {
			for _, c := range b.Chunks {
				s.logs[c.Stream] = append(s.logs[c.Stream], c.Data...)
			}
		})
	}
}

func (s *contractServer) postUsage(w http.ResponseWriter, r *http.Request) {
	var b wire.UsageReport
	if s.read(w, r, "UsageReport", &b) {
		s.fact(w, "usage", b.LeaseId, b.Sequence, func() { s.usage = append(s.usage, b) })
	}
}

func (s *contractServer) listPulls(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := wire.LocalPullList{Items: []wire.LocalPull{}}
	for _, p := range s.pulls {
		if p.RepositoryId == r.PathValue("repo") && p.HeadBranch == r.URL.Query().Get("branch") {
			list.Items = append(list.Items, p)
		}
	}
	reply(w, http.StatusOK, list)
}

func (s *contractServer) ensurePull(w http.ResponseWriter, r *http.Request) {
	var b wire.LocalPullEnsure
	if !s.read(w, r, "LocalPullEnsure", &b) {
		return
	}
	repo := r.PathValue("repo")
	at, err := s.forge.Branch(r.Context(), s.clone[repo], b.HeadBranch)
	if err != nil || at != b.HeadSha {
		problem(w, http.StatusConflict, wire.Problem{Detail: fmt.Sprintf("the branch stands at %q: %v", at, err)})
		return
	}
	s.mu.Lock()
	status := http.StatusOK
	i := slices.IndexFunc(s.pulls, func(p wire.LocalPull) bool {
		return p.RepositoryId == repo && p.HeadBranch == b.HeadBranch && p.State == "OPEN"
	})
	if i < 0 {
		i, status = len(s.pulls), http.StatusCreated
		s.pulls = append(s.pulls, wire.LocalPull{
			Id: fmt.Sprintf("pr_%d", i+1), RepositoryId: repo, Number: int64(i + 1), Url: s.url + "/pulls/1", State: "OPEN", HeadBranch: b.HeadBranch, BaseBranch: b.BaseBranch, HeadSha: b.HeadSha, Title: b.Title, Body: b.Body,
		})
	}
	p := s.pulls[i]
	s.mu.Unlock()
	if !s.lost(w, "pull") {
		reply(w, status, p)
	}
}

// names are the commands that took effect, in order.
func (s *contractServer) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, c := range s.commands {
		out = append(out, string(c.Command))
	}
	return out
}

// last is the newest command of a name.
func (s *contractServer) last(name wire.CommandName) *wire.RunCommand {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Backward(s.commands) {
		if c.Command == name {
			return &c
		}
	}
	return nil
}

// stored are the artifacts of a kind, oldest first.
func (s *contractServer) stored(kind wire.ArtifactKind) []wire.Artifact {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []wire.Artifact
	for _, a := range s.kinds {
		if a.Kind == kind {
			out = append(out, a)
		}
	}
	return out
}

func (s *contractServer) bytesOf(id string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.artifacts[id]
}

func (s *contractServer) logOf(stream string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.logs[stream])
}

// stepStates are the final states of the steps by name.
func (s *contractServer) stepStates() map[string]wire.StepState {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, states := map[string]string{}, map[string]wire.StepState{}
	for _, st := range s.steps {
		names[st.CallId] = st.Name
		states[st.CallId] = st.State
	}
	out := map[string]wire.StepState{}
	for id, n := range names {
		out[n] = states[id]
	}
	return out
}

func (s *contractServer) describe() string {
	var b strings.Builder
	fmt.Fprintln(&b, "commands:", s.names())
	if f := s.last(wire.CmdAttemptFailed); f != nil {
		fmt.Fprintf(&b, "failure: %+v\n%s\n", *f.AttemptFailed, s.bytesOf(f.AttemptFailed.ArtifactId))
	}
	steps := s.stepStates()
	for _, n := range slices.Sorted(maps.Keys(steps)) {
		fmt.Fprintln(&b, "step:", n, steps[n])
	}
	return b.String()
}
