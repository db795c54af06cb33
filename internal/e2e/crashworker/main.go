// Command crashworker is the worker with the shipped worker's own wiring, and one thing more: at the named points of a
// lease's work it looks into the folder E2E_POINTS for what the test wants done there. It owns nothing of the product.
//
// At the point P, for a file there named
//
//	P.kill   the file is removed and the process kills itself, as the kernel does: nothing is flushed, said or cleaned up
//	P.stop   the file is renamed P.stopped and the process stops in its tracks, until somebody continues it
//	P.hold   the file is renamed P.held and the lease waits at the point until that file is removed
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"signalbox/internal/sandbox"
	"signalbox/internal/workercmd"
)

func main() {
	sandbox.InitMain()
	os.Exit(workercmd.Main(os.Args[1:], workercmd.Options{Stdout: os.Stdout, Stderr: os.Stderr, Lookup: os.LookupEnv, Hook: at}))
}

func at(point string) {
	path := filepath.Join(os.Getenv("E2E_POINTS"), point)
	switch {
	case os.Remove(path+".kill") == nil:
		fmt.Fprintln(os.Stderr, "crashworker: killed at", point)
		signal(syscall.SIGKILL)
		select {}
	case os.Rename(path+".stop", path+".stopped") == nil:
		fmt.Fprintln(os.Stderr, "crashworker: stopped at", point)
		signal(syscall.SIGSTOP)
	case os.Rename(path+".hold", path+".held") == nil:
		fmt.Fprintln(os.Stderr, "crashworker: held at", point)
		for range time.Tick(10 * time.Millisecond) {
			if _, err := os.Stat(path + ".held"); err != nil {
				return
			}
		}
	}
}

// signal is sent to this very thread: it takes effect before the next line here, however busy the machine is. One to the process
// may wait until another thread of it is scheduled, and the lease would go on past its point.
func signal(s syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Tgkill(os.Getpid(), syscall.Gettid(), s); err != nil {
		fmt.Fprintln(os.Stderr, "crashworker:", err)
		os.Exit(3)
	}
}
