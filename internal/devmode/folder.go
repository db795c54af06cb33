package devmode

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// folder is where dev mode keeps everything, so that a restart continues and removing one folder removes it all.
//
//	lock, instance.json   the running instance, if any
//	memory.json           ports that were taken last time
//	keys/                 mode 0700: signing key, session key, client secret, the worker's credential
//	postgres/             the private cluster, owned by the user that Postgres runs as
//	forge/                mode 0700: bare repositories of the local forge
//	artifacts/            mode 0700: blobs
//	worker/               the worker's mirrors and workspaces; reachable by the users that sandboxes run as
type folder struct {
	root string
	lock *os.File
}

// instance is what a running dev mode tells a second one.
type instance struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
}

// memory is what a restart should find again.
type memory struct {
	Addr     string `json:"addr"`
	Provider string `json:"provider"`
	Sampled  bool   `json:"sampled"`
}

// RunningError says that the folder is in use by a dev mode that runs already.
type RunningError struct{ URL string }

func (e *RunningError) Error() string {
	return "signalbox dev is running already: " + e.URL
}

// DefaultFolder is outside any clone and, for root, reachable by the users that Postgres and sandboxes run as.
func DefaultFolder(uid int, home string) (string, error) {
	if uid == 0 {
		return "/var/lib/signalbox-dev", nil
	}
	if home == "" {
		return "", errors.New("nothing was started: SIGNALBOX_DATA is not set and there is no home folder to put the data in; set SIGNALBOX_DATA")
	}
	return filepath.Join(home, ".local", "share", "signalbox"), nil
}

// openFolder makes what is missing and takes the lock; it is a *RunningError where another instance has it.
func openFolder(root string) (*folder, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	f := &folder{root: root}
	for _, dir := range []struct {
		name string
		mode fs.FileMode
	}{{"", 0o755}, {"keys", 0o700}, {"forge", 0o700}, {"artifacts", 0o700}, {"worker", 0o755}} {
		if err := os.MkdirAll(f.path(dir.name), dir.mode); err != nil {
			return nil, fmt.Errorf("nothing was started: the data folder cannot be made: %w; set SIGNALBOX_DATA to a folder that you may write", err)
		}
	}
	if f.lock, err = os.OpenFile(f.path("lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("nothing was started: %w; is %s another user's? Set SIGNALBOX_DATA to a folder of your own", err, root)
	}
	// The lock goes with the process, however it ends, so there is nothing stale to clean up.
	if err := syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.lock.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", root, err)
		}
		var other instance
		if err := f.read("instance.json", &other); err != nil || other.URL == "" {
			return nil, fmt.Errorf("another signalbox dev is starting or stopping in %s; try again in a moment", root)
		}
		return nil, &RunningError{URL: other.URL}
	}
	return f, nil
}

func (f *folder) path(names ...string) string {
	return filepath.Join(append([]string{f.root}, names...)...)
}

// close forgets the instance and gives the lock up.
func (f *folder) close() error {
	err := os.Remove(f.path("instance.json"))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, f.lock.Close())
}

// read fills v from a JSON file; a file that is not there leaves v as it is.
func (f *folder) read(name string, v any) error {
	text, err := os.ReadFile(f.path(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what dev mode remembers: %w", err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s is damaged; remove it: %w", f.path(name), err)
	}
	return nil
}

func (f *folder) write(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return replace(f.path(name), append(text, '\n'))
}

// secret answers the text in keys/name, made by make and kept when there is none.
func (f *folder) secret(name string, make func() (string, error)) (string, error) {
	path := f.path("keys", name)
	text, err := os.ReadFile(path)
	if err == nil {
		if s := strings.TrimSpace(string(text)); s != "" {
			return s, nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	s, err := make()
	if err != nil {
		return "", err
	}
	return s, replace(path, []byte(s+"\n"))
}

func randomText() (string, error) { return rand.Text() + rand.Text(), nil }

// replace writes a private file as a whole or not at all.
func replace(path string, text []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
