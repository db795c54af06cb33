// Command testagent is an agent for tests: it does exactly what its recipe
// says, good or bad, in the protocol of the "command" adapter. It owns no
// judgement and refuses unknown actions, so that a typing error in a test does
// not look like an agent that found nothing to do.
//
// Its one argument is the recipe, a JSON list of actions:
//
//	{"do":"replace","file":"a.txt","old":"x","new":"y"}   also write, append, delete
//	{"do":"instruction","file":"NOTES"}   apply the last human instruction
//	{"do":"plan"}                         a valid plan ("new" empty: a default one)
//	{"do":"tool","name":"go test"}        a tool call with its result
//	{"do":"say"|"step","new":"text"}, {"do":"usage","n":100}, {"do":"no_change"}
//	{"do":"raw","new":"…"}                bytes on the report descriptor
//	{"do":"line","n":5000000}             one long line on standard output
//	{"do":"invalid_utf8"}, {"do":"hang"}, {"do":"ignore_term"}, {"do":"child"}
//	{"do":"outside","file":"/etc/x"}      try to write there; how it went is said
//	{"do":"exit","n":1}
//	{"do":"sh","new":"script"}            run a shell script in the checkout
//	{"do":"await","file":"name"}          until that file is in the folder TESTAGENT_SIGNALS
//
// "when" restricts an action: "plan", "execute" (the default), "first" (execute
// without feedback), or "human", "verifier", "judge" (execute with the last
// feedback from there).
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

type action struct {
	Do   string `json:"do"`
	When string `json:"when"`
	File string `json:"file"`
	Old  string `json:"old"`
	New  string `json:"new"`
	Name string `json:"name"`
	N    int    `json:"n"`
}

type feedback struct {
	Source  string `json:"source"`
	Message string `json:"message"`
}

type agent struct {
	report *os.File
	phase  string
	input  string
	last   feedback // the newest feedback; Source is empty without any
	calls  int
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "testagent:", err)
		os.Exit(2)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("one argument, the recipe, is expected")
	}
	var recipe []action
	if err := json.Unmarshal([]byte(os.Args[1]), &recipe); err != nil {
		return fmt.Errorf("recipe: %w", err)
	}
	a := &agent{
		report: os.NewFile(3, "report"),
		phase:  os.Getenv("SIGNALBOX_PHASE"),
		input:  os.Getenv("SIGNALBOX_INPUT"),
	}
	if err := a.readFeedback(); err != nil {
		return err
	}
	for i, act := range recipe {
		if !a.applies(act.When) {
			continue
		}
		if err := a.do(act); err != nil {
			return fmt.Errorf("action %d, %s: %w", i+1, act.Do, err)
		}
	}
	return nil
}

func (a *agent) readFeedback() error {
	raw, err := os.ReadFile(filepath.Join(a.input, "feedback.json"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var all []feedback
	if err := json.Unmarshal(raw, &all); err != nil {
		return fmt.Errorf("feedback: %w", err)
	}
	if len(all) > 0 {
		a.last = all[len(all)-1]
	}
	return nil
}

func (a *agent) applies(when string) bool {
	switch when {
	case "", "execute":
		return a.phase == "execute"
	case "plan":
		return a.phase == "plan"
	case "first":
		return a.phase == "execute" && a.last.Source == ""
	default:
		return a.phase == "execute" && a.last.Source == when
	}
}

func (a *agent) say(v map[string]any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = a.report.Write(append(raw, '\n'))
	return err
}

func (a *agent) do(act action) error {
	switch act.Do {
	case "replace", "write", "append", "delete", "instruction":
		return a.edit(act)
	case "plan":
		return a.plan(act)
	case "tool":
		return a.tool(act)
	case "say":
		fmt.Println(act.New)
		return a.say(map[string]any{"type": "text", "text": act.New})
	case "step":
		return a.say(map[string]any{"type": "step", "title": act.New})
	case "usage":
		return a.say(map[string]any{"type": "usage", "input": act.N, "output": act.N / 10})
	case "no_change":
		return a.say(map[string]any{"type": "no_change", "reason": act.New})
	case "result":
		return a.say(map[string]any{"type": "result", "summary": act.New, "reason": act.Old})
	case "raw":
		_, err := a.report.WriteString(act.New)
		return err
	case "line":
		_, err := fmt.Println(strings.Repeat("x", act.N))
		return err
	case "invalid_utf8":
		_, err := os.Stdout.WriteString("\xff\xfe\xfd not text\n")
		return err
	case "hang":
		time.Sleep(24 * time.Hour)
		return nil
	case "await":
		for {
			_, err := os.Stat(filepath.Join(os.Getenv("TESTAGENT_SIGNALS"), act.File))
			if !os.IsNotExist(err) {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
	case "sh":
		cmd := exec.Command("/bin/sh", "-c", act.New)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd.Run()
	case "ignore_term":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		return nil
	case "child":
		cmd := exec.Command("/bin/sh", "-c", "trap '' TERM HUP; while :; do sleep 1; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd.Start()
	case "outside":
		err := os.WriteFile(act.File, []byte("written from inside\n"), 0o600)
		return a.say(map[string]any{"type": "step", "title": fmt.Sprintf("write %s: %v", act.File, err)})
	case "exit":
		os.Exit(act.N)
		return nil
	default:
		return fmt.Errorf("unknown action")
	}
}

func (a *agent) edit(act action) error {
	if act.Do == "instruction" {
		return a.instruction(act)
	}
	a.calls++
	id := fmt.Sprintf("edit-%d", a.calls)
	if err := a.say(map[string]any{"type": "tool_started", "call_id": id, "name": act.Do, "kind": "edit", "input": act.File}); err != nil {
		return err
	}
	err := apply(act)
	end := map[string]any{"type": "tool_finished", "call_id": id, "status": "ok"}
	if err != nil {
		end["status"], end["output"] = "failed", err.Error()
	}
	if sayErr := a.say(end); sayErr != nil {
		return sayErr
	}
	return err
}

func apply(act action) error {
	switch act.Do {
	case "delete":
		return os.Remove(act.File)
	case "write":
		if err := os.MkdirAll(filepath.Dir(act.File), 0o755); err != nil {
			return err
		}
		return os.WriteFile(act.File, []byte(act.New), 0o644)
	}
	raw, err := os.ReadFile(act.File)
	if err != nil && !(act.Do == "append" && os.IsNotExist(err)) {
		return err
	}
	text := string(raw) + act.New
	if act.Do == "replace" {
		if !strings.Contains(string(raw), act.Old) {
			return fmt.Errorf("%q is not in %s", act.Old, act.File)
		}
		text = strings.ReplaceAll(string(raw), act.Old, act.New)
	}
	return os.WriteFile(act.File, []byte(text), 0o644)
}

// instruction does what a person wrote: `replace "A" with "B" in FILE` is
// carried out, anything else is appended to the action's file.
func (a *agent) instruction(act action) error {
	if a.last.Source != "human" {
		return fmt.Errorf("there is no human instruction")
	}
	var from, to, file string
	if n, _ := fmt.Sscanf(a.last.Message, "replace %q with %q in %s", &from, &to, &file); n == 3 {
		return a.edit(action{Do: "replace", File: file, Old: from, New: to})
	}
	return a.edit(action{Do: "append", File: act.File, New: a.last.Message + "\n"})
}

func (a *agent) plan(act action) error {
	file := act.File
	if file == "" {
		file = "README.md"
	}
	plan := json.RawMessage(act.New)
	if act.New == "" {
		raw, err := json.Marshal(map[string]any{
			"summary": "Change " + file, "files": []string{file}, "verifiers": []string{"test"},
			"risks": []string{"none known"}, "stop_condition": "all checks pass",
			"forbidden_changes": []string{}, "steps": []string{"edit " + file},
		})
		if err != nil {
			return err
		}
		plan = raw
	}
	return a.say(map[string]any{"type": "plan", "plan": plan})
}

func (a *agent) tool(act action) error {
	a.calls++
	id := fmt.Sprintf("tool-%d", a.calls)
	if err := a.say(map[string]any{"type": "tool_started", "call_id": id, "name": act.Name, "kind": "execute", "input": act.Name}); err != nil {
		return err
	}
	return a.say(map[string]any{"type": "tool_finished", "call_id": id, "status": "ok", "exit_code": 0, "output": act.New, "duration_ms": 3})
}
