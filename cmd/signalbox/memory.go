package main

import (
	"os"
	"runtime/debug"
)

// collectAt is how far the server's memory may grow past what is alive before it is collected, in per cent. Most of what a
// request makes is garbage when it is answered, and little is alive (some ten megabytes), so collecting at the runtime's 100 per
// cent costs a fifth of the server's time for nothing (measured with BenchmarkEmptyWork).
const collectAt = 400

// collectSeldom sets that, unless the environment says otherwise in the runtime's own variables.
func collectSeldom() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(collectAt)
	}
}
