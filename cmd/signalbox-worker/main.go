// Command signalbox-worker is the execution plane: it claims leases over HTTP and works on them.
package main

import (
	"os"

	"signalbox/internal/sandbox"
	"signalbox/internal/workercmd"
)

func main() {
	// In a process that was started inside a sandbox this never returns.
	sandbox.InitMain()
	os.Exit(workercmd.Main(os.Args[1:], workercmd.Options{Stdout: os.Stdout, Stderr: os.Stderr, Lookup: os.LookupEnv}))
}
