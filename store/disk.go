package store

import (
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/record"
)

// diskPoints are the points of the operations of a file system; at the others nothing can be broken.
var diskPoints = map[errorfs.OpKind]fault.Point{
	errorfs.OpCreate: fault.DiskOpen, errorfs.OpOpen: fault.DiskOpen, errorfs.OpOpenDir: fault.DiskOpen, errorfs.OpReuseForWrite: fault.DiskOpen,
	errorfs.OpFileRead: fault.DiskRead, errorfs.OpFileReadAt: fault.DiskRead,
	errorfs.OpFileWrite: fault.DiskWrite, errorfs.OpFileWriteAt: fault.DiskWrite, errorfs.OpFilePreallocate: fault.DiskWrite,
	errorfs.OpFileSync: fault.DiskSync, errorfs.OpFileSyncData: fault.DiskSync, errorfs.OpFileSyncTo: fault.DiskSync,
}

// breakableDisk is where a test breaks the file system under the state in a directory. The directory's own files, which no
// task has, are left alone.
type breakableDisk struct {
	dir  string
	hook fault.Hook
}

// breakable is a file system that a test may break; without a hook, the file system itself.
func (d *breakableDisk) breakable(fs vfs.FS) vfs.FS {
	if d.hook == nil {
		return fs
	}
	return errorfs.Wrap(fs, d)
}

// String implements errorfs.Injector.
func (d *breakableDisk) String() string { return "fault points" }

// MaybeError implements errorfs.Injector. A panic of the test's is an error: on the engine's goroutines nothing would catch
// it.
func (d *breakableDisk) MaybeError(op errorfs.Op) error {
	point, ok := diskPoints[op.Kind]
	if !ok {
		return nil
	}
	inside, ok := strings.CutPrefix(op.Path, d.dir)
	if !ok {
		return nil
	}
	s := fault.Site{Point: point, File: strings.TrimLeft(filepath.ToSlash(inside), "/")}
	top, _, _ := strings.Cut(s.File, "/")
	if s.Store, ok = strings.CutPrefix(top, globalPrefix); !ok {
		s.Store = ""
		if s.Task, ok = record.ParseTaskID(top); !ok {
			return nil
		}
	}
	return caught(string(point), func() error { return d.hook.At(s) })
}
