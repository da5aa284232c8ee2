package store

import (
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/fault"
)

// DirectoryOptions tune a state directory. The zero value is fit for a process of 250 MiB.
type DirectoryOptions struct {
	// CacheBytes is the memory of all tasks together: memtables and cached blocks. Memtables are taken from it, so it
	// must be larger than MemTableBudgetBytes. Default 64 MiB.
	CacheBytes int64
	// MemTableBudgetBytes is what the memtables of all tasks may grow to, roughly. A task's memtables share it evenly,
	// between 512 KiB and 4 MiB each. Default: half of CacheBytes.
	MemTableBudgetBytes int64
	// OpenFiles is how many tables of all tasks stay open. Default 512.
	OpenFiles int
	// FlushInterval is how long written state may stay in memory only. A crash costs a replay of that much of the
	// changelog. Default 30 s.
	FlushInterval time.Duration
	// DeleteRetention is delete.retention.ms of the changelogs: state that is older may have missed deletions and is
	// rebuilt. An hour is taken off it for clocks that differ. Default 24 h.
	DeleteRetention time.Duration
	// CloseTimeout is how long Close waits for readers. Default 10 s.
	CloseTimeout time.Duration
	// ErrorPatience is for how long the engine may fail in the background before the state counts as failed. Default 2 s.
	ErrorPatience time.Duration
	// SpaceRetry is how often a write is tried again for which a full disk has no space. Until it succeeds everything that
	// was applied can be read. Default 1 s; negative: a full disk is an error like any other.
	SpaceRetry time.Duration
	// StallPatience is for how long a unit that has no place in memory either may wait for space before the state counts as
	// failed. Default 10 s; no less than a millisecond.
	StallPatience time.Duration
	// FS is the file system. Default: the operating system's.
	FS vfs.FS
	// Logger hears what the engine does. Default: nobody.
	Logger *slog.Logger
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Fault is where a test breaks stores: nil otherwise.
	Fault fault.Hook
}

const (
	memTableBytesMax = 4 << 20
	memTableBytesMin = 512 << 10
	retentionMargin  = time.Hour
	// cleanAfter is how long the state of a task that left is kept for its return.
	cleanAfter = 10 * time.Minute
)

func orDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

func (o DirectoryOptions) withDefaults() DirectoryOptions {
	orDefault(&o.CacheBytes, 64<<20)
	orDefault(&o.MemTableBudgetBytes, o.CacheBytes/2)
	orDefault(&o.OpenFiles, 512)
	orDefault(&o.FlushInterval, 30*time.Second)
	orDefault(&o.DeleteRetention, 24*time.Hour)
	orDefault(&o.CloseTimeout, 10*time.Second)
	orDefault(&o.ErrorPatience, 2*time.Second)
	orDefault(&o.SpaceRetry, time.Second)
	orDefault(&o.StallPatience, 10*time.Second)
	o.StallPatience = max(o.StallPatience, time.Millisecond)
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// memTableBytes is the memtable size of one more task when n tasks are open. A task has two: one that is written and
// one that is flushed.
func (o *DirectoryOptions) memTableBytes(n int) uint64 {
	share := o.MemTableBudgetBytes / int64(2*(n+1))
	return uint64(min(max(share, memTableBytesMin), memTableBytesMax))
}
