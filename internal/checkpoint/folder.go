// Package checkpoint owns the place outside the database where signed ends of the audit log are kept: a folder with one
// file of JSON lines for each tenant, which is only ever appended to. It refuses to know the database and to hold keys.
package checkpoint

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"signalbox/internal/evidence"
)

// Folder is where checkpoints are kept. Several servers may share one, or have one each.
type Folder string

// tail is more than a line ever has, in bytes.
const tail = 4 << 10

func (f Folder) file(tenant uuid.UUID) string {
	return filepath.Join(string(f), tenant.String()+".jsonl")
}

// Open makes the folder where there is none and answers an error where nothing can be written to it.
func Open(path string) (Folder, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return "", fmt.Errorf("folder of checkpoints: %w", err)
	}
	probe, err := os.CreateTemp(path, ".probe-")
	if err != nil {
		return "", fmt.Errorf("folder of checkpoints: %w", err)
	}
	return Folder(path), errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// ForeignError says that a tenant's newest checkpoint is not signed by any of the keys: the key was changed, or somebody else wrote it.
type ForeignError struct{ Checkpoint evidence.Checkpoint }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("the newest checkpoint of tenant %s, over number %d, names the key %q and is signed by none of the keys that are known here", e.Checkpoint.Tenant, e.Checkpoint.Seq, e.Checkpoint.Key)
}

// Last returns the tenant's newest checkpoint, false where there is none, and a *ForeignError where none of the keys signed it.
func (f Folder) Last(tenant uuid.UUID, keys []ed25519.PublicKey) (evidence.Checkpoint, bool, error) {
	file, err := os.Open(f.file(tenant))
	if errors.Is(err, fs.ErrNotExist) {
		return evidence.Checkpoint{}, false, nil
	}
	if err != nil {
		return evidence.Checkpoint{}, false, fmt.Errorf("read checkpoints: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return evidence.Checkpoint{}, false, fmt.Errorf("read checkpoints: %w", err)
	}
	end := make([]byte, min(info.Size(), tail))
	if _, err := file.ReadAt(end, info.Size()-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return evidence.Checkpoint{}, false, fmt.Errorf("read checkpoints: %w", err)
	}
	lines := bytes.Split(end, []byte("\n"))
	for _, line := range slices.Backward(lines) {
		c, err := evidence.ParseCheckpoint(line)
		if err != nil {
			continue // what a crash left
		}
		if c.Tenant != tenant || !c.Genuine(keys) {
			return evidence.Checkpoint{}, false, &ForeignError{c}
		}
		return c, true, nil
	}
	return evidence.Checkpoint{}, false, nil
}

// Tenants are those that have a file.
func (f Folder) Tenants() ([]uuid.UUID, error) {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return nil, fmt.Errorf("read checkpoints: %w", err)
	}
	var all []uuid.UUID
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".jsonl"); ok {
			if id, err := uuid.Parse(name); err == nil {
				all = append(all, id)
			}
		}
	}
	return all, nil
}

// Append keeps one more checkpoint and returns when it is on the disk. What a crash left of an earlier line is cut off.
func (f Folder) Append(c evidence.Checkpoint) (err error) {
	line, err := c.Line()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.file(c.Tenant), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("keep checkpoint: %w", err)
	}
	defer func() {
		if closed := file.Close(); err == nil && closed != nil {
			err = fmt.Errorf("keep checkpoint: %w", closed)
		}
	}()
	if err := mend(file); err != nil {
		return fmt.Errorf("keep checkpoint: %w", err)
	}
	if _, err := file.Write(line); err != nil {
		return fmt.Errorf("keep checkpoint: %w", err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("keep checkpoint: %w", err)
	}
	return f.keepNames()
}

// keepNames makes sure that a file that is new is still there after a crash.
func (f Folder) keepNames() error {
	dir, err := os.Open(string(f))
	if err != nil {
		return fmt.Errorf("keep checkpoint: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("keep checkpoint: %w", err)
	}
	return nil
}

// mend cuts off a line without an end; where the file may only grow, it ends the line.
func mend(file *os.File) error {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	end := make([]byte, min(info.Size(), tail))
	if _, err := file.ReadAt(end, info.Size()-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if end[len(end)-1] == '\n' {
		return nil
	}
	whole := info.Size() - int64(len(end)) + int64(bytes.LastIndexByte(end, '\n')) + 1
	if file.Truncate(whole) == nil {
		return nil
	}
	_, err = file.Write([]byte("\n"))
	return err
}

// Problem is a line that is no checkpoint, or one that none of the keys signed.
type Problem struct {
	File string
	Line int
	Why  string
}

// Read returns all checkpoints that one of the keys signed, and what else the files hold.
func (f Folder) Read(keys []ed25519.PublicKey) ([]evidence.Checkpoint, []Problem, error) {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return nil, nil, fmt.Errorf("read checkpoints: %w", err)
	}
	var all []evidence.Checkpoint
	var problems []Problem
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".jsonl" {
			continue
		}
		name := filepath.Join(string(f), e.Name())
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, fmt.Errorf("read checkpoints: %w", err)
		}
		n := 0
		for line := range bytes.SplitSeq(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n")) {
			n++
			c, err := evidence.ParseCheckpoint(line)
			switch {
			case err != nil:
				problems = append(problems, Problem{name, n, "it is no checkpoint"})
			case !c.Genuine(keys):
				problems = append(problems, Problem{name, n, fmt.Sprintf("the signature over number %d does not hold, or its key %q is not among those given", c.Seq, c.Key)})
			case filepath.Base(name) != c.Tenant.String()+".jsonl":
				problems = append(problems, Problem{name, n, "it is another tenant's"})
			default:
				all = append(all, c)
			}
		}
	}
	return all, problems, nil
}
