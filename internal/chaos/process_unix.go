//go:build unix

package main

import (
	"os"
	"syscall"
)

// freeze and thaw stop a process and let it go on; stay ends it without leaving the group.
var freeze, thaw, stay os.Signal = syscall.SIGSTOP, syscall.SIGCONT, syscall.SIGTERM
