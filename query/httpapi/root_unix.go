//go:build unix

package httpapi

import (
	"io/fs"
	"os"
	"syscall"
)

// ofRoot says that a file is root's and the process is not.
func ofRoot(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0 && os.Geteuid() != 0
}
