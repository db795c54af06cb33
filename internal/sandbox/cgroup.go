package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupMount is one place where this process may make control groups.
type cgroupMount struct {
	dir         string // the own group's directory
	version     int
	controllers string // "memory", "pids", or what version 2 offers
}

// findCgroups finds the own control group in each writable hierarchy that
// bounds memory or processes, or can kill (version 2). Children are made below
// the own group, so that limits put on the worker hold for its boxes.
func findCgroups() []cgroupMount {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	paths := map[string]string{} // controller, or "" for version 2
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for c := range strings.SplitSeq(parts[1], ",") {
			paths[c] = parts[2]
		}
	}
	var out []cgroupMount
	add := func(dir string, version int, controllers string) {
		if unix.Access(dir, unix.W_OK) == nil {
			out = append(out, cgroupMount{dir: dir, version: version, controllers: controllers})
		}
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch f[2] {
		case "cgroup":
			for opt := range strings.SplitSeq(f[3], ",") {
				if path, ok := paths[opt]; ok && (opt == "memory" || opt == "pids") {
					add(filepath.Join(f[1], path), 1, opt)
				}
			}
		case "cgroup2":
			if path, ok := paths[""]; ok {
				dir := filepath.Join(f[1], path)
				offered, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
				add(dir, 2, strings.TrimSpace(string(offered)))
			}
		}
	}
	return out
}

// cgroupPrefix marks groups as ours.
const cgroupPrefix = "signalbox-"

// removeStale removes groups of workers that were killed. Only empty groups can
// be removed at all; young ones may be about to be filled.
func removeStale(mounts []cgroupMount) {
	for _, m := range mounts {
		entries, err := os.ReadDir(m.dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && strings.HasPrefix(e.Name(), cgroupPrefix) && time.Since(info.ModTime()) > startTime {
				_ = os.Remove(filepath.Join(m.dir, e.Name()))
			}
		}
	}
}

// cgroup is the set of groups of one running command.
type cgroup struct {
	leaves    []cgroupLeaf
	hasMemory bool
	hasPids   bool
}

type cgroupLeaf struct {
	dir     string
	version int
}

// newCgroup makes groups and sets limits; hierarchies that refuse are left
// out, and the result says what holds.
func newCgroup(mounts []cgroupMount, name string, l Limits) *cgroup {
	g := &cgroup{}
	for _, m := range mounts {
		dir := filepath.Join(m.dir, name)
		if m.version == 2 {
			// Works only where the own group has no processes of its own or
			// was delegated; without it the leaf can still kill.
			for c := range strings.FieldsSeq(m.controllers) {
				if c == "memory" || c == "pids" {
					_ = writeFile(filepath.Join(m.dir, "cgroup.subtree_control"), "+"+c)
				}
			}
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		g.leaves = append(g.leaves, cgroupLeaf{dir: dir, version: m.version})
		set := func(file string, value int64) bool {
			return writeFile(filepath.Join(dir, file), strconv.FormatInt(value, 10)) == nil
		}
		if set("pids.max", int64(l.Procs)+16) {
			g.hasPids = true
		}
		if m.version == 2 && set("memory.max", l.Memory) {
			g.hasMemory = true
			set("memory.oom.group", 1)
			set("memory.swap.max", 0)
		}
		if m.version == 1 && m.controllers == "memory" && set("memory.limit_in_bytes", l.Memory) {
			g.hasMemory = true
			set("memory.memsw.limit_in_bytes", l.Memory)
		}
	}
	return g
}

func (g *cgroup) add(pid int) error {
	for _, leaf := range g.leaves {
		if err := writeFile(filepath.Join(leaf.dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("put process %d into control group: %w", pid, err)
		}
	}
	return nil
}

// kill ends every process of the group: at once in version 2, else by hand.
func (g *cgroup) kill() {
	for _, leaf := range g.leaves {
		if leaf.version == 2 && writeFile(filepath.Join(leaf.dir, "cgroup.kill"), "1") == nil {
			return
		}
	}
	for _, leaf := range g.leaves {
		raw, err := os.ReadFile(filepath.Join(leaf.dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for f := range strings.FieldsSeq(string(raw)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
}

// oomKilled says whether the kernel killed a process of the group for memory.
func (g *cgroup) oomKilled() bool {
	for _, leaf := range g.leaves {
		for _, file := range []string{"memory.events", "memory.oom_control"} {
			raw, err := os.ReadFile(filepath.Join(leaf.dir, file))
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(raw)) {
				if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" && f[1] != "0" {
					return true
				}
			}
		}
	}
	return false
}

// remove deletes the groups; it kills and waits while they are still busy.
func (g *cgroup) remove() error {
	var errs []error
	for _, leaf := range g.leaves {
		var err error
		for range 100 {
			if err = os.Remove(leaf.dir); err == nil || errors.Is(err, os.ErrNotExist) {
				err = nil
				break
			}
			g.kill()
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove control group %s: %w", leaf.dir, err))
		}
	}
	return errors.Join(errs...)
}

func writeFile(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
