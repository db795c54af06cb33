package devmode

import "syscall"

func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }
