package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Mirror is a bare repository of ours that caches one remote. Several workers of one machine may share the folder: a
// file lock admits one writer at a time. Nothing is ever pruned, because run repositories borrow its objects.
type Mirror struct {
	g      *Git
	remote Remote
	dir    string
}

// Mirror opens, or makes, the mirror of a remote under cacheDir.
func (g *Git) Mirror(ctx context.Context, cacheDir string, r Remote) (*Mirror, error) {
	sum := sha256.Sum256([]byte(r.url))
	m := &Mirror{g: g, remote: r, dir: filepath.Join(cacheDir, hex.EncodeToString(sum[:16])+".git")}
	if err := os.MkdirAll(cacheDir, 0o700); err != nil {
		return nil, fmt.Errorf("mirror folder: %w", err)
	}
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := g.initBare(ctx, m.dir); err != nil {
		return nil, err
	}
	return m, nil
}

// Dir is the mirror's git directory.
func (m *Mirror) Dir() string { return m.dir }

// lock waits for the file lock of the mirror. The wait ends with the context.
func (m *Mirror) lock(ctx context.Context) (func(), error) {
	f, err := os.OpenFile(m.dir+".lock", os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("mirror lock: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // closing the file drops the lock
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("mirror lock: %w", err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, stopped(ctx)
		case <-tick.C:
		}
	}
}

func (m *Mirror) repo() *Repo { return &Repo{g: m.g, dir: m.dir} }

// Branch asks the remote where a branch stands, fetches that commit if it is not here yet, and returns it.
func (m *Mirror) Branch(ctx context.Context, branch string) (string, error) {
	sha, err := m.g.LsRemote(ctx, m.remote, branch)
	if err != nil {
		return "", err
	}
	if m.repo().Has(ctx, sha) {
		return sha, nil
	}
	unlock, err := m.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := m.fetch(ctx, "+refs/heads/"+branch+":refs/mirror/heads/"+branch); err != nil {
		return "", err
	}
	// The branch may have moved between the two questions; what came is what counts.
	return m.repo().resolve(ctx, "refs/mirror/heads/"+branch)
}

// Commit makes sure that one commit is here. Nothing is asked of the remote when it already is; branch, when known,
// is tried where the remote serves no bare object names.
func (m *Mirror) Commit(ctx context.Context, sha, branch string) error {
	if err := checkObject(sha); err != nil {
		return err
	}
	if m.repo().Has(ctx, sha) {
		return nil
	}
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if m.repo().Has(ctx, sha) {
		return nil
	}
	err = m.fetch(ctx, "+"+sha+":refs/mirror/commits/"+sha)
	if err != nil && branch != "" && CodeOf(err) != CodeTransient && stopped(ctx) == nil {
		if nameErr := CheckBranch(branch); nameErr != nil {
			return nameErr
		}
		err = m.fetch(ctx, "+refs/heads/"+branch+":refs/mirror/heads/"+branch)
	}
	if err != nil {
		return err
	}
	if !m.repo().Has(ctx, sha) {
		return refuse(CodeRefNotFound, "fetch", "the remote has no commit %s", sha)
	}
	return nil
}

func (m *Mirror) fetch(ctx context.Context, refspec string) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules", "--no-show-forced-updates"}
	args = append(args, m.remote.serve(m.g, "upload-pack")...)
	_, err := m.g.run(ctx, call{op: "fetch", gitDir: m.dir, args: append(args, "--", m.remote.url, refspec), remote: &m.remote})
	return err
}

// Run makes a repository for one run that borrows the mirror's objects: what the run writes stays out of the mirror.
// dir must not exist yet, or be an earlier Run directory of the same mirror.
func (m *Mirror) Run(ctx context.Context, dir string) (*Repo, error) {
	if err := m.g.initBare(ctx, dir); err != nil {
		return nil, err
	}
	info := filepath.Join(dir, "objects", "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return nil, fmt.Errorf("run repository: %w", err)
	}
	if err := os.WriteFile(filepath.Join(info, "alternates"), []byte(filepath.Join(m.dir, "objects")+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("run repository: %w", err)
	}
	return &Repo{g: m.g, dir: dir}, nil
}
