package main

import (
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/millrace-io/millrace/store"
)

// disk is a node's file system.
type disk struct {
	node *node
	mem  *vfs.MemFS
	fs   vfs.FS
	// broken is the fault that the next flush, open or close of a task meets; failing is where writes fail while one is under
	// way. Pebble's own goroutines write elsewhere and at other times, and must not meet it; they look at it all the same.
	broken  *fault
	failing atomic.Pointer[failing]
	// slow is the fault that the next job of a task's state meets.
	slow *fault
}

// failing is a directory in which writes fail, and with what.
type failing struct {
	dir string
	err error
}

const stateDir = "state"

func newDisk(n *node) *disk {
	d := &disk{node: n}
	d.use(vfs.NewCrashableMem())
	dir := d.fs.PathJoin(stateDir, appID)
	d.must(d.fs.MkdirAll(dir, 0o700))
	f, err := d.fs.Create(d.fs.PathJoin(dir, "process"), vfs.WriteCategoryUnspecified)
	d.must(err)
	_, err = io.WriteString(f, n.processID)
	d.must(err)
	d.must(f.Sync())
	d.must(f.Close())
	for _, path := range []string{"", stateDir, dir} {
		parent, err := d.fs.OpenDir(path)
		d.must(err)
		d.must(parent.Sync())
		d.must(parent.Close())
	}
	return d
}

func (d *disk) must(err error) {
	if err != nil {
		d.node.world.fail("%s: the memory file system fails: %v", d.node.name, err)
	}
}

func (d *disk) use(mem *vfs.MemFS) {
	d.mem = mem
	d.fs = errorfs.Wrap(mem, d)
}

// crash leaves what was synced, or everything.
func (d *disk) crash(power bool) {
	cfg := vfs.CrashCloneCfg{}
	if power {
		cfg = vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))}
	}
	d.use(d.mem.CrashClone(cfg))
}

// String implements errorfs.Injector.
func (d *disk) String() string { return "sim" }

// MaybeError implements errorfs.Injector.
func (d *disk) MaybeError(op errorfs.Op) error {
	f := d.failing.Load()
	if f == nil || op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !strings.HasPrefix(op.Path, f.dir) {
		return nil
	}
	return f.err
}

// damage makes every table below a directory unreadable, and says whether there was one. Whichever of them Pebble has left
// there meanwhile, none is whole.
func (d *disk) damage(dir string) (hit bool) {
	names, err := d.mem.List(dir)
	if err != nil {
		return false // no task was ever there
	}
	for _, name := range names {
		path := d.mem.PathJoin(dir, name)
		if info, err := d.mem.Stat(path); err == nil && info.IsDir() {
			hit = d.damage(path) || hit
			continue
		}
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		info, err := d.mem.Stat(path)
		d.must(err)
		f, err := d.mem.Create(path, vfs.WriteCategoryUnspecified)
		d.must(err)
		_, err = f.Write(make([]byte, info.Size()))
		d.must(err)
		d.must(f.Sync())
		d.must(f.Close())
		hit = true
	}
	return hit
}

// during carries out something that writes to a task's directory, and fails if a fault waits for that.
func (d *disk) during(dir string, do func()) {
	if f := d.broken; f != nil && !d.node.world.calm {
		d.broken = nil
		err := syscall.EIO
		if f.Kind == kindDiskFull {
			err = syscall.ENOSPC
		}
		d.failing.Store(&failing{dir, err})
		d.node.world.fired(f)
		defer d.failing.Store(nil)
	}
	do()
}

// open opens the state directory.
func (d *disk) open(p *process) *store.Directory {
	dir, err := store.OpenDirectory(stateDir, appID, store.DirectoryOptions{
		CacheBytes: 8 << 20, MemTableBudgetBytes: 1 << 20, FlushInterval: 1 << 60, ErrorPatience: -1, SpaceRetry: -1, FS: d.fs, Now: p.wallClock,
	})
	d.must(err)
	return dir
}
