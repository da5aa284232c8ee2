//go:build !unix

package main

import (
	"os"
	"syscall"
)

// This system has no signals that stop a process and let it go on.
var (
	freeze, thaw os.Signal
	stay         os.Signal = syscall.SIGTERM
)
