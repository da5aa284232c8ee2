package main

import "syscall"

// child has the kernel end a node whose parent was killed before it could, and keeps the terminal's Ctrl-C from it: the
// parent decides how nodes end.
func child() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
