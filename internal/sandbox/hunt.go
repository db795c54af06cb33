package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hunt kills what a killed init of tier process left: the members of its
// session, and as root everything that runs as the slot's user.
func (b *box) hunt(initPID int) int {
	found := 0
	for pid := range sessionMembers(initPID) {
		if unix.Kill(pid, unix.SIGKILL) == nil {
			found++
		}
	}
	if b.host.root {
		found += killUser(b.uid)
	}
	return found
}

// sessionMembers yields live processes of a session.
func sessionMembers(sid int) map[int]struct{} {
	out := map[int]struct{}{}
	for _, pid := range allPIDs() {
		if got, err := unix.Getsid(pid); err == nil && got == sid {
			out[pid] = struct{}{}
		}
	}
	return out
}

// childrenOf lists the direct children of a process.
func childrenOf(parent int) []int {
	var out []int
	for _, pid := range allPIDs() {
		if _, ppid, ok := readStat(pid); ok && ppid == parent {
			out = append(out, pid)
		}
	}
	return out
}

// killUser ends every process of a user that belongs to one box alone.
func killUser(uid uint32) int { return killUsers(uid, uid) }

// killUsers ends every process of a range of users. It repeats, because
// processes may be born while it looks.
func killUsers(first, last uint32) int {
	killed := map[int]bool{}
	deadline := time.Now().Add(2 * time.Second)
	for time.Now().Before(deadline) {
		alive := 0
		for _, pid := range allPIDs() {
			owner, ok := processUser(pid)
			if !ok || owner < first || owner > last {
				continue
			}
			if state, _, ok := readStat(pid); !ok || state == 'Z' {
				continue
			}
			alive++
			killed[pid] = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if alive == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return len(killed)
}

func allPIDs() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid > 1 {
			out = append(out, pid)
		}
	}
	return out
}

// processUser reads the real uid of a process.
func processUser(pid int) (uint32, bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "Uid:"); ok {
			f := strings.Fields(rest)
			if len(f) == 0 {
				return 0, false
			}
			id, err := strconv.ParseUint(f[0], 10, 32)
			return uint32(id), err == nil
		}
	}
	return 0, false
}
