package store

import (
	"sync/atomic"
	"time"
)

// Counts are what was done to a store partition, by its task and by questions. They outlive the state: the next one may go
// on with the same. Any goroutine adds to them, and any may read.
type Counts struct {
	// Restored, if it is not nil, is told how long a restore has taken to write each batch that it has read into the engine.
	// It is called on the restore's goroutine.
	Restored                 func(time.Duration)
	gets, scans, puts, bytes atomic.Int64
}

// Gets are keys that were looked for in the engine, or in the rows of a store in memory; what a task finds among the values that
// it keeps at hand is not.
func (c *Counts) Gets() int64 { return c.gets.Load() }

// Scans are ranges that were opened.
func (c *Counts) Scans() int64 { return c.scans.Load() }

// Puts are keys that commits have written, deleted ones too: each once for a commit, however often it was set.
func (c *Counts) Puts() int64 { return c.puts.Load() }

// Bytes are those of the keys and values of Puts.
func (c *Counts) Bytes() int64 { return c.bytes.Load() }

func (c *Counts) get(n int) {
	if c != nil {
		c.gets.Add(int64(n))
	}
}

func (c *Counts) scan() {
	if c != nil {
		c.scans.Add(1)
	}
}

func (c *Counts) restored(began time.Time) {
	if c != nil && c.Restored != nil {
		c.Restored(time.Since(began))
	}
}

// countWrites counts those of a unit, which are sorted by store.
func (t *TaskState) countWrites(writes []Write) {
	for len(writes) > 0 {
		store, n, bytes := writes[0].Store, 0, 0
		for n < len(writes) && writes[n].Store == store {
			bytes += len(writes[n].Key) + len(writes[n].Value)
			n++
		}
		if c := t.spec.Stores[store].Counts; c != nil {
			c.puts.Add(int64(n))
			c.bytes.Add(int64(bytes))
		}
		writes = writes[n:]
	}
}

// DiskUsage is about how many bytes a store takes on disk, by what the engine knows of its files; what is not flushed yet is
// not in it, nor is a store in memory. Errors: *SpecError, ErrStateStoreClosed, *EngineError.
func (t *TaskState) DiskUsage(store int) (bytes int64, err error) {
	if err := t.enter(store); err != nil {
		return 0, err
	}
	defer t.engine.lease.release()
	defer recovered("size", &err)
	lower, upper := prefixes(t.numbers[store])
	n, err := t.engine.db.EstimateDiskUsage(lower, upper)
	if err != nil {
		return 0, t.engine.failure("size", err)
	}
	return int64(n), nil
}
