//go:build !linux

package realkafka

import "syscall"

// dieWithParent is a service of Linux; elsewhere a killed test leaves its brokers running.
func dieWithParent() *syscall.SysProcAttr { return nil }
