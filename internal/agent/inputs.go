package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"signalbox/internal/sandbox"
)

// writeInputs lays out the input folder. The folder is made anew for every
// invocation, through os.Root: an earlier invocation may have planted links.
func writeInputs(box sandbox.Box, job Job) error {
	root, err := os.OpenRoot(box.Workspace())
	if err != nil {
		return fmt.Errorf("open workspace: %w", err)
	}
	defer root.Close()
	if err := root.RemoveAll("input"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clear inputs: %w", err)
	}
	if err := root.Mkdir("input", 0o755); err != nil {
		return fmt.Errorf("make inputs: %w", err)
	}
	if err := root.Chmod("input", 0o755); err != nil {
		return fmt.Errorf("make inputs: %w", err)
	}
	files := map[string][]byte{"goal.md": []byte(job.Goal), "contract.json": job.Contract}
	if len(job.Contract) == 0 {
		files["contract.json"] = []byte("{}\n")
	}
	if len(job.Feedback) > 0 {
		if files["feedback.json"], err = json.MarshalIndent(job.Feedback, "", "  "); err != nil {
			return fmt.Errorf("encode feedback: %w", err)
		}
	}
	if job.Plan != nil {
		if files["plan.json"], err = json.MarshalIndent(job.Plan, "", "  "); err != nil {
			return fmt.Errorf("encode plan: %w", err)
		}
	}
	for name, content := range files {
		if err := writeInput(root, "input/"+name, content); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// writeInput makes a file that stays the worker's (read-only to the payload's
// user when the worker is root) and whose mode no umask decides.
func writeInput(root *os.Root, name string, content []byte) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Chmod(0o644), f.Close())
}
