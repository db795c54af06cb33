// Command gotest runs `go test -json` with the given arguments and prints what a person wants of it: the output of
// what failed, the names of what was skipped or not exercised, the slowest tests, and one closing line of counts.
//
// It owns no test and changes none. It refuses to call a run green in which no test ran.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

func main() {
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

// run starts go test and answers the exit code to leave with.
func run(args []string, out io.Writer) (int, error) {
	began := time.Now()
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("open the output of go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start go test: %w", err)
	}
	sum := newSummary(out)
	if err := sum.read(pipe); err != nil {
		_ = cmd.Wait()
		return 0, err
	}
	err = cmd.Wait()
	sum.print(time.Since(began))
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}
	if err != nil {
		return 0, fmt.Errorf("wait for go test: %w", err)
	}
	if sum.failed > 0 {
		return 1, nil
	}
	if sum.passed == 0 {
		fmt.Fprintln(out, "No test ran, so nothing was shown.")
		return 1, nil
	}
	return 0, nil
}

// read takes the stream of go test; lines that are no JSON (a tool's own message) are passed through.
func (s *summary) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var ev event
			if json.Unmarshal(line, &ev) == nil && ev.Action != "" {
				s.take(ev)
			} else if _, werr := s.out.Write(line); werr != nil {
				return fmt.Errorf("write: %w", werr)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the output of go test: %w", err)
		}
	}
}
