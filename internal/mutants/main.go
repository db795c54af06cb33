// Command mutants breaks the core in one named way at a time and shows which test notices. It owns the list of breaks
// and refuses to leave a trace in the tree: each is an overlay of the build, so that the core has neither tags nor
// switches for it.
//
// It ends with 1 when a break is noticed by nobody. Names as arguments choose some of them.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := all(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func all(only []string) error {
	survivors, tried := []string{}, 0
	for _, m := range mutants() {
		if len(only) > 0 && !slices.Contains(only, m.name) {
			continue
		}
		tried++
		began := time.Now()
		killer, err := m.run()
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if killer == "" {
			survivors = append(survivors, m.name)
			killer = "NOBODY NOTICED"
		}
		fmt.Printf("%-28s %-58s noticed by %s (%s)\n", m.name, m.what, killer, time.Since(began).Round(time.Second))
	}
	fmt.Printf("%d mutants, %d noticed\n", tried, tried-len(survivors))
	if len(survivors) > 0 {
		return fmt.Errorf("nobody noticed %s", strings.Join(survivors, ", "))
	}
	return nil
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// run returns the test that noticed, "" where none did.
func (m mutant) run() (killer string, err error) {
	broken, err := m.broken(".")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "sb-mutant-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: filepath.Join(dir, "broken.go")}})
	if err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{"broken.go": []byte(broken), "overlay.json": overlay} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return "", err
		}
	}
	out, err := exec.Command("go", "test", "-overlay", filepath.Join(dir, "overlay.json"), "-count=1", "-timeout=180s", "-run", "^("+m.tests+")$", m.pkg).CombinedOutput()
	switch found := failed.FindAllSubmatch(out, -1); {
	case err == nil:
		return "", nil
	case len(found) > 0:
		// The innermost is the one that says it.
		return string(found[len(found)-1][1]), nil
	case strings.Contains(string(out), "panic: test timed out"):
		return m.tests + " (it did not end)", nil
	}
	return "", fmt.Errorf("the tests could not be run: %s", out)
}

// broken is the file as the mutant has it.
func (m mutant) broken(root string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(raw), m.old); n != 1 {
		return "", fmt.Errorf("%s holds the place %d times, want once: %q", m.file, n, m.old)
	}
	return strings.Replace(string(raw), m.old, m.new, 1), nil
}
