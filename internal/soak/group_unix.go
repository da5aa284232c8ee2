//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// grouped gives a command a process group of its own, so that Ctrl-C reaches it through us, once, and its children with it.
func grouped(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
}
