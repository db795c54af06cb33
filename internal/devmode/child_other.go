//go:build !linux

package devmode

import "syscall"

// dieWithUs does nothing where the kernel has no parent-death signal; an orphaned worker loses the server and ends.
func dieWithUs(*syscall.SysProcAttr) {}
