//go:build !linux

package pgserver

import "syscall"

// dieWithUs does nothing where the kernel has no parent-death signal: a killed parent leaves the server running, and
// the next start says so.
func dieWithUs(*syscall.SysProcAttr) {}
