package realkafka

import "syscall"

// dieWithParent has the kernel end a broker whose test was killed before it could clean up.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
