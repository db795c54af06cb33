package pgserver

import "syscall"

// dieWithUs asks the kernel for a fast shutdown of the child when the thread that started it ends, however it ends.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }
