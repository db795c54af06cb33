package worker

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox/internal/forge"
	"signalbox/internal/sandbox"
	"signalbox/internal/wire"
)

// place is a workspace with its sandbox.
type place struct {
	s    *session
	dir  string // host path of the workspace
	slot int
	box  sandbox.Box
	env  map[string]string
}

// checkout is the host path of the files that the payload changes.
func (p *place) checkout() string { return filepath.Join(p.dir, "repo") }

func (p *place) close() {
	if p.box != nil {
		if err := p.box.Close(); err != nil {
			p.s.w.log.Warn("sandbox not closed", "error", err)
		}
		p.box = nil
	}
}

// isolation refuses work that asks for more than this worker has.
func (s *session) isolation() error {
	rank := map[wire.IsolationTier]int{wire.Process: 1, wire.Bwrap: 2, wire.Container: 3}
	have := wire.IsolationTier(s.w.box.Tier())
	if rank[have] < rank[s.as.MinIsolation] {
		return fail(codeIsolation, "Policy asks for isolation %q; this worker has %q.", string(s.as.MinIsolation), string(have))
	}
	return nil
}

// remoteURL is the clone address on this machine.
func (s *session) remoteURL() (string, error) {
	r := s.as.Repository
	if r.ForgeKind != "local" {
		return r.CloneUrl, nil
	}
	if s.w.cfg.LocalForge == "" {
		return "", fail(codeRepoNotFound, "The repository is on the local forge, whose folder this worker does not have.")
	}
	p, err := forge.LocalPath(s.w.cfg.LocalForge, r.CloneUrl)
	if err != nil {
		return "", failWith(codeRepoNotFound, err, "The repository's address is not one of the local forge.")
	}
	return p, nil
}

// fetchBase brings the base commit here and makes the run's own repository. Without a base commit the branch's newest
// one becomes it.
func (s *session) fetchBase(base string) error {
	return s.act("clone", "Fetch the repository", func() (string, error) {
		raw, err := s.remoteURL()
		if err != nil {
			return "", err
		}
		remote, err := s.w.git.ParseRemote(raw)
		if err != nil {
			return "", gitFailure(err, "Fetching the repository")
		}
		mirror, err := s.w.git.Mirror(s.l.work, s.mirrors(), remote)
		if err != nil {
			return "", gitFailure(err, "Fetching the repository")
		}
		branch := s.as.BaseRef
		if branch == "" {
			branch = s.as.Repository.DefaultBranch
		}
		if base == "" {
			base, err = mirror.Branch(s.l.work, branch)
		} else {
			err = mirror.Commit(s.l.work, base, branch)
		}
		if err != nil {
			return "", gitFailure(err, "Fetching the repository")
		}
		if s.repo, err = mirror.Run(s.l.work, filepath.Join(s.dir, "repo.git")); err != nil {
			return "", gitFailure(err, "Fetching the repository")
		}
		s.base = base
		return "The base commit is " + base[:12] + ".", nil
	})
}

// open makes a workspace with the files of tree and a sandbox over it. convenience adds the throw-away .git at base.
func (s *session) open(name string, slot int, tree string, convenience bool, mounts []MountFile) (*place, error) {
	p := &place{s: s, dir: filepath.Join(s.dir, name), slot: slot, env: map[string]string{}}
	maps.Copy(p.env, s.w.cfg.File.Env)
	s.boxes = append(s.boxes, p)
	err := s.act("sandbox", "Prepare the "+name+" sandbox", func() (string, error) {
		if err := sandbox.MakeLayout(p.dir); err != nil {
			return "", localFailure(err, "Preparing the workspace")
		}
		if err := p.fill(tree, convenience); err != nil {
			return "", err
		}
		spec := sandbox.Spec{Name: fileName(s.as.LeaseId) + "-" + name, Slot: slot, Workspace: p.dir, Env: p.env, Limits: s.sandboxLimits()}
		if err := p.caches(&spec); err != nil {
			return "", localFailure(err, "Copying the dependency caches")
		}
		for _, m := range slices.Concat(s.w.cfg.File.Mounts, mounts) {
			spec.ReadOnly = append(spec.ReadOnly, sandbox.Mount{Host: m.Host, Inside: m.Inside})
		}
		if err := s.w.box.Own(p.dir, slot); err != nil {
			return "", localFailure(err, "Preparing the workspace")
		}
		box, err := s.w.box.Open(s.l.work, spec)
		if err != nil {
			if s.l.work.Err() != nil {
				return "", context.Cause(s.l.work)
			}
			return "", failWith(codeSandboxStart, err, "The sandbox was not started.")
		}
		p.box = box
		return "Isolation: " + box.Tier().Label() + ".", nil
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// fill writes the files of tree into the checkout.
func (p *place) fill(tree string, convenience bool) error {
	s := p.s
	if err := s.repo.Checkout(s.l.work, tree, p.checkout()); err != nil {
		return gitFailure(err, "Checking out the files")
	}
	if convenience {
		if err := s.repo.Convenience(s.l.work, s.base, p.checkout()); err != nil {
			return gitFailure(err, "Checking out the files")
		}
	}
	return nil
}

// refill throws the checkout away and writes it anew: what a planning agent changed does not count.
func (p *place) refill(tree string) error {
	if err := p.s.w.box.Remove(p.checkout()); err != nil {
		return localFailure(err, "Checking out the files")
	}
	if err := p.fill(tree, true); err != nil {
		return err
	}
	if err := p.s.w.box.Own(p.dir, p.slot); err != nil {
		return localFailure(err, "Checking out the files")
	}
	return nil
}

// caches makes the configured dependency caches visible: shared and read-only, or as a copy of the run's own.
func (p *place) caches(spec *sandbox.Spec) error {
	for _, c := range p.s.w.cfg.File.Caches {
		inside := "/caches/" + c.Name
		if c.Copy {
			inside = sandbox.WorkspaceDir + "/caches/" + c.Name
			to := filepath.Join(p.dir, "caches", c.Name)
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				return fmt.Errorf("cache %s: %w", c.Name, err)
			}
			if err := os.CopyFS(to, os.DirFS(c.Host)); err != nil {
				return fmt.Errorf("cache %s: %w", c.Name, err)
			}
		} else {
			spec.ReadOnly = append(spec.ReadOnly, sandbox.Mount{Host: c.Host, Inside: inside})
		}
		for k, v := range c.Env {
			p.env[k] = strings.ReplaceAll(v, "{path}", inside)
		}
	}
	spec.Env = maps.Clone(p.env)
	return nil
}

func (s *session) sandboxLimits() sandbox.Limits {
	f := s.w.cfg.File.Limits
	l := sandbox.Limits{Memory: int64(f.MemoryMB) << 20, Procs: f.Procs, TmpSize: int64(f.TmpMB) << 20, FileSize: int64(f.FileMB) << 20, Output: s.as.Limits.MaxOutputBytes}
	if n := s.as.Limits.AttemptSeconds; n > 0 {
		// Every process may use a processor for the whole attempt, several at once more than that.
		l.CPU = time.Duration(n) * time.Second
	}
	return l
}

// The sandbox users of a lease: one for the work, one for the comparison with the base.
func (s *session) slotFor(second bool) int {
	if second {
		return 2*s.l.slot + 1
	}
	return 2 * s.l.slot
}

func (s *session) mirrors() string { return filepath.Join(s.w.cfg.Dir, "mirrors") }
