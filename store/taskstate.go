package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/record"
)

// TaskState is the state of one task: one database that holds all its stores, the changelog offset of each, and the
// position of the task. One writer and any number of readers use it at the same time. Stores are named by their index in
// the TaskSpec.
//
// After Close or Abandon every method returns ErrStateStoreClosed; after the engine has failed, an *EngineError that is
// Dead.
type TaskState struct {
	dir           *Directory
	spec          TaskSpec
	numbers       []uint16
	memTableBytes uint64
	engine        *engine
	// view is what is on record beside the data. It is replaced, never changed, after each batch.
	view atomic.Pointer[view]
	// pending is the view of the commit that is under way, nil if none is; see asOf.
	pending atomic.Pointer[view]
	// onCommit, if a test sets it before the first commit, is called before the engine shows a commit and between that and
	// the publication of its view.
	onCommit func(shown bool)

	// The mutex protects epoch and makes its check and the write that follows one step: a zombie incarnation may still
	// be in Apply on another goroutine when its successor takes the lease. It also orders writers, of which there should be one.
	writing sync.Mutex
	epoch   uint64
	// commits is the last number that a commit was given, failed ones included. It belongs to whoever holds writing.
	commits uint64

	// sweeps are the sweeps of window stores by store index. They belong to whoever holds writing.
	sweeps []sweep

	dirty     atomic.Bool
	flushedAt atomic.Int64
}

// view is the changelog marks and the times by store index, the position, and number and clock (in milliseconds) of the last
// commit.
type view struct {
	commit uint64
	marks  map[int]mark
	times  map[int]int64
	// memories are the rows of the stores that are in memory only.
	memories map[int]*memory
	position record.Position
	clock    int64
}

func newTaskState(d *Directory, spec TaskSpec) *TaskState {
	spec.Stores = slices.Clone(spec.Stores)
	t := &TaskState{dir: d, spec: spec, sweeps: make([]sweep, len(spec.Stores))}
	t.flushedAt.Store(d.opts.Now().UnixNano())
	return t
}

// ID names the task.
func (t *TaskState) ID() record.TaskID { return t.spec.ID }

// Dir is the database's directory.
func (t *TaskState) Dir() string { return t.engine.dir }

// StoreIndex is the index of a store in the spec, -1 if there is none of that name.
func (t *TaskState) StoreIndex(name string) int {
	return slices.IndexFunc(t.spec.Stores, func(s StoreSpec) bool { return s.Name == name })
}

// Changelog is the changelog partition of a store; ok is false if it has none.
func (t *TaskState) Changelog(store int) (tp record.TopicPartition, ok bool) {
	if store < 0 || store >= len(t.spec.Stores) || t.spec.Stores[store].Changelog == "" {
		return record.TopicPartition{}, false
	}
	return record.TopicPartition{Topic: t.spec.Stores[store].Changelog, Partition: t.spec.Partition}, true
}

// Offset is the next changelog offset of a store: everything before it is in the store. ok is false if none was stored.
func (t *TaskState) Offset(store int) (next int64, ok bool) {
	m, ok := t.view.Load().marks[store]
	return m.next, ok
}

// Position is up to where the task has taken up its sources, as of the last Apply or restore. It must not be changed.
func (t *TaskState) Position() record.Position { return t.view.Load().position }

// WallClock is that of the last Apply, in milliseconds since the Unix epoch; 0 if there was none.
func (t *TaskState) WallClock() int64 { return t.view.Load().clock }

// Time is the highest timestamp that a store was ever given, in milliseconds since the Unix epoch; -1 if none. Windows
// expire by it. What was deleted or has expired counts, and so does what a restore has read.
func (t *TaskState) Time(store int) int64 { return t.view.Load().time(store) }

func (v *view) time(store int) int64 {
	if at, ok := v.times[store]; ok {
		return at
	}
	return -1
}

func (v *view) seen(store int, timestamp int64) {
	if timestamp > v.time(store) {
		v.times[store] = timestamp
	}
}

// Failed is closed when the engine has failed for good; Err then says why.
func (t *TaskState) Failed() <-chan struct{} { return t.engine.fail }

// Closed is closed when Close or Abandon has begun.
func (t *TaskState) Closed() <-chan struct{} { return t.engine.lease.ended }

// Err is the cause of a failed engine, nil while it works.
func (t *TaskState) Err() error { return t.engine.dead() }

// meta reads one of the task's own keys. When the engine dies, the read may still be under way: it has the engine that it
// began with, which an opening has by then put aside, and what it finds is not looked at.
func (t *TaskState) meta(key []byte) (value []byte, ok bool, err error) {
	e := t.engine
	var found []byte
	if err := e.run("read", func() error {
		b, closer, err := e.db.Get(key)
		if errors.Is(err, pebble.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		found = append([]byte{}, b...)
		return closer.Close()
	}); err != nil {
		return nil, false, err
	}
	return found, found != nil, nil
}

func decodeClock(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("store: a clock has %d bytes, not 8", len(b))
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// Flush writes everything that was applied to disk and waits for it. Its error is an *EngineError, or ErrStateStoreClosed.
func (t *TaskState) Flush() error {
	if err := t.breakable(fault.StoreFlush, noStore); err != nil {
		return t.engine.failure("flush", err)
	}
	t.dirty.Store(false)
	t.flushedAt.Store(t.dir.opts.Now().UnixNano())
	if err := t.engine.flush(); err != nil {
		t.dirty.Store(true)
		return err
	}
	return nil
}

// MaybeFlush starts a flush if something was written and the last one is longer ago than the interval. It does not wait.
// Apply calls it; a node also calls it on a timer, for tasks that fall silent. (A full memtable is flushed in any case.)
// Its error is that of Flush, as far as it shows at the start.
func (t *TaskState) MaybeFlush(now time.Time) error {
	since := now.Sub(time.Unix(0, t.flushedAt.Load()))
	if since < t.dir.opts.FlushInterval || t.DiskFull() != nil || !t.dirty.CompareAndSwap(true, false) {
		return nil
	}
	t.flushedAt.Store(now.UnixNano())
	return t.engine.run("flush", func() error {
		if err := t.breakable(fault.StoreFlush, noStore); err != nil {
			return err
		}
		_, err := t.engine.db.AsyncFlush()
		return err
	})
}

// Close turns new readers away, flushes, waits for the readers that are inside, and closes the database. A second call
// does nothing. An error says what is not on disk, which costs a longer restore and nothing else. ErrReadersStayed means
// that the engine was abandoned, because a reader did not leave within the time-out.
func (t *TaskState) Close() error {
	if !t.engine.lease.end() {
		return nil
	}
	broken := t.breakable(fault.StoreClose, noStore)
	return errors.Join(t.engine.dead(), t.finish(true), t.engine.failure("close", broken))
}

// Abandon gives the state up without a flush: what was not flushed is lost and will be restored. Use it when the
// incarnation was fenced, or when the engine has failed. A failed engine is never closed, because its mutex may be held by
// a goroutine that is parked; its lock stays until the process ends, and the next OpenTask uses another directory.
func (t *TaskState) Abandon() {
	if !t.engine.lease.end() {
		return
	}
	if err := t.finish(false); err != nil {
		t.dir.opts.Logger.Warn("abandoned state was not closed", "dir", t.engine.dir, "error", err)
	}
}

// finish closes the engine, after its lease was ended, if nobody is inside and it is alive.
func (t *TaskState) finish(flush bool) error {
	e := t.engine
	defer t.dir.unclaim(t)
	t.noteDamage()
	if e.dead() != nil {
		t.dir.lose()
		return nil
	}
	var flushErr error
	if flush && t.dirty.Load() {
		flushErr = e.failure("flush", t.breakable(fault.StoreFlush, noStore))
	}
	if flush && t.dirty.Load() && flushErr == nil {
		flushErr = e.flushLast()
	}
	if e.dead() == nil && e.lease.drain(t.dir.opts.CloseTimeout) {
		err := e.close()
		if e.dead() != nil {
			t.dir.lose()
		}
		return errors.Join(flushErr, err)
	}
	t.dir.lose()
	if e.dead() == nil {
		flushErr = errors.Join(flushErr, ErrReadersStayed)
	}
	return flushErr
}

// noteDamage leaves a mark beside the database, so that the next OpenTask moves it aside, in a later process too.
func (t *TaskState) noteDamage() {
	e := t.engine
	if !e.damaged.Load() {
		return
	}
	if err := writeFile(t.dir.opts.FS, e.dir+damageMark, []byte("a read has found damage")); err != nil {
		t.dir.opts.Logger.Warn("damage could not be noted", "dir", e.dir, "error", err)
	}
}

// lose remembers that an engine still uses the caches.
func (d *Directory) lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = true
}
