package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Processes are those that live in a sandbox whose workspace is below dir, with their command lines: they alone have it
// mounted. When no worker of that folder holds anything, every one of them is an orphan.
func Processes(dir string) ([]string, error) {
	infos, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []string
	for _, info := range infos {
		mounts, err := os.ReadFile(info)
		if err != nil || !bytes.Contains(mounts, []byte(dir+"/")) {
			continue // it ended while we looked
		}
		words, err := os.ReadFile(filepath.Join(filepath.Dir(info), "cmdline"))
		if err != nil || len(words) == 0 {
			continue // it ended, or has ended and nobody has looked at how
		}
		found = append(found, filepath.Base(filepath.Dir(info))+" "+strings.ReplaceAll(string(words[:min(len(words), 200)]), "\x00", " "))
	}
	return found, nil
}
