package git

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
)

// stream writes the changed contents in fast-import's form. Each is hashed again on the way: what is stored is what
// was compared with base, or nothing is stored at all.
func (w *walk) stream(out io.Writer) error {
	for _, c := range w.changes {
		if e, ok := w.base[c.path]; ok && e.Object == c.object {
			continue // only the mode changed
		}
		if _, err := fmt.Fprintf(out, "blob\ndata %d\n", c.size); err != nil {
			return nil // the reader has gone; its error is the one to report
		}
		if err := w.content(out, c); err != nil {
			if errors.Is(err, errOver) || errors.Is(err, io.ErrClosedPipe) {
				return nil
			}
			w.failure.Store(&err)
			return err
		}
		if _, err := io.WriteString(out, "\n"); err != nil {
			return nil
		}
	}
	_, _ = io.WriteString(out, "done\n")
	return nil
}

func (w *walk) content(out io.Writer, c change) error {
	if c.mode == "120000" {
		_, err := io.WriteString(out, c.link)
		return err
	}
	parent := w.root
	if dir := path.Dir(c.path); dir != "." {
		sub, err := w.root.OpenRoot(dir)
		if err != nil {
			return fmt.Errorf("work tree %q: %w", c.path, err)
		}
		defer sub.Close()
		parent = sub
	}
	f, info, err := openRegular(parent, path.Base(c.path))
	if err != nil {
		return fmt.Errorf("work tree %q: %w", c.path, err)
	}
	moved := refuse(CodeWorkspaceMoving, "snapshot", "the file %q changed while it was read", c.path)
	if f == nil || info.Size() != c.size {
		closeFile(f)
		return moved
	}
	defer f.Close()
	h := w.newHash(c.size)
	n, err := io.Copy(io.MultiWriter(out, h), io.LimitReader(f, c.size))
	if err != nil {
		return fmt.Errorf("work tree %q: %w", c.path, err)
	}
	if n != c.size || hex.EncodeToString(h.Sum(nil)) != c.object {
		return moved
	}
	return nil
}

func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close()
	}
}

func (w *walk) streamErr() error {
	if p := w.failure.Load(); p != nil {
		return *p
	}
	return nil
}
