//go:build !linux

package main

import "syscall"

// child is a service of Linux; elsewhere a parent that is killed leaves its nodes running.
func child() *syscall.SysProcAttr { return nil }
