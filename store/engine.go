package store

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// engineFormat pins the engine's own format. Its default is the oldest one; a newer one than this cannot be read by an
// older binary, which moves the directory aside and restores.
const engineFormat = pebble.FormatWALSyncChunks

// engine is one Pebble database and what is known about its health.
//
// The write-ahead log is off: the changelog is the log. That halves the writes, and it takes away the one place where a
// full disk makes Pebble end the process. What a crash loses is a suffix of whole batches, and each batch carries its
// changelog offset, so the lost part is replayed.
type engine struct {
	db   *pebble.DB
	lock *pebble.Lock
	dir  string
	// fail is closed when the engine can never be used again; cause is set before.
	fail  chan struct{}
	cause atomic.Pointer[EngineError]
	// damaged is set by the first read that finds corruption.
	damaged atomic.Bool
	parked  atomic.Bool
	// lease guards db.
	lease *lease
	noise noise
	space space
	log   *slog.Logger
	// stallPatience is for how long an operation may wait behind a full disk.
	stallPatience time.Duration
}

// openEngine locks the directory and opens the database. A lock that is held is ErrTaskOpen.
func openEngine(d *Directory, dir string, memTableBytes uint64) (*engine, error) {
	e := &engine{dir: dir, fail: make(chan struct{}), lease: newLease(), log: d.opts.Logger.With("dir", dir)}
	e.noise.patience = d.opts.ErrorPatience
	e.noise.now = d.opts.Now
	e.space.engine, e.space.retry, e.space.others, e.space.changed = e, d.opts.SpaceRetry, &d.waiting, make(chan struct{}, 1)
	e.stallPatience = d.opts.StallPatience
	lock, err := pebble.LockDirectory(dir, d.opts.FS)
	if err != nil {
		return nil, lockError(dir, err)
	}
	e.lock = lock
	if err = d.roomIn(dir); err == nil {
		err = e.await("open", func() (err error) {
			e.db, err = pebble.Open(dir, e.options(d, memTableBytes))
			return err
		})
	}
	if dead := e.dead(); dead != nil {
		// It has ended inside of Open, and its goroutine is parked there: like any engine that dies, it keeps its lock.
		d.lose()
		return nil, dead
	}
	if err != nil {
		return nil, errors.Join(e.failure("open", err), lock.Close())
	}
	e.space.opened.Store(true)
	return e, nil
}

// roomBytes is more than the files of an empty database take.
const roomBytes = 64 << 10

// roomIn finds out that a disk is full before the engine does. An engine that cannot write its manifest is dead, and is never
// closed, so that trying again and again until there is space would leave one behind each time.
func (d *Directory) roomIn(dir string) error {
	name := d.opts.FS.PathJoin(dir, "room")
	f, err := d.opts.FS.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(make([]byte, roomBytes))
		err = errors.Join(err, f.Close(), d.opts.FS.Remove(name))
	}
	if diskFull(err) {
		return err
	}
	return nil // whatever else is wrong, the engine says it better
}

func (e *engine) options(d *Directory, memTableBytes uint64) *pebble.Options {
	o := &pebble.Options{
		FS: patientFS{d.opts.FS, &e.space}, Cache: d.cache, FileCache: d.files, Lock: e.lock, Logger: engineLogger{e},
		DisableWAL: true, FormatMajorVersion: engineFormat, MemTableSize: memTableBytes,
		EventListener: &pebble.EventListener{
			BackgroundError: e.backgroundError,
			DataCorruption:  func(pebble.DataCorruptionInfo) { e.damaged.Store(true) },
			FlushEnd: func(i pebble.FlushInfo) {
				if i.Err == nil {
					e.noise.quiet()
				}
			},
		},
	}
	// The default of 4 compacts whatever the second flush has left, and rewrites most of a task's keys with it: at two million
	// keys that was 38 % of all the processor time. A read looks into a few more tables instead, most of which their filters
	// spare it.
	o.L0CompactionThreshold, o.L0StopWritesThreshold = 12, 36
	// A flushable ingest is written to the log, and there is none.
	o.Experimental.DisableIngestAsFlushable = func() bool { return true }
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	o.EnsureDefaults()
	return o
}

// kill marks the engine as failed for good. Readers and writers get the cause from now on.
func (e *engine) kill(op string, cause error) {
	if e.cause.CompareAndSwap(nil, &EngineError{Op: op, Dir: e.dir, Dead: true, Cause: cause}) {
		close(e.fail)
		e.log.Error("the state's engine has failed; it is abandoned", "op", op, "error", cause)
	}
}

// dead gives the cause of a failed engine.
func (e *engine) dead() error {
	if c := e.cause.Load(); c != nil {
		return c
	}
	return nil
}

// park ends the calling goroutine's part in this process without ending the goroutine: it may hold the database's mutex,
// and it must not return into code that has just found out that it cannot go on.
func (e *engine) park() {
	e.parked.Store(true)
	select {}
}

// backgroundError is called by the engine for each failed flush or compaction, which it repeats without a pause: tens of
// thousands of calls a second on a full disk. It logs one of them a second. When they have not stopped for the patience
// the engine counts as failed, and the goroutine that repeats is parked so that it burns no core.
func (e *engine) backgroundError(err error) {
	count, over := e.noise.heard()
	if count > 0 {
		e.log.Warn("the state's engine fails in the background", "error", err, "errors", count)
	}
	if over {
		e.kill("background work", err)
		e.park()
	}
}

// failure wraps an engine error of an operation that was tried.
func (e *engine) failure(op string, err error) error {
	if err == nil {
		return nil
	}
	if pebble.IsCorruptionError(err) {
		e.damaged.Store(true)
	}
	var own *EngineError
	if errors.As(err, &own) {
		return err
	}
	return &EngineError{Op: op, Dir: e.dir, Cause: err}
}

// run carries out f on a goroutine of its own and waits for it, or for the engine's death: a write may stall for ever
// behind a flush that cannot succeed, and a goroutine that the engine has parked never comes back. The goroutine keeps its
// lease until f has returned, so nothing is closed under it.
func (e *engine) run(op string, f func() error) error {
	if !e.lease.acquire() {
		return ErrStateStoreClosed
	}
	if err := e.dead(); err != nil {
		e.lease.release()
		return err
	}
	return e.await(op, func() error {
		defer e.lease.release()
		return f()
	})
}

// await is run for a caller that has the right to the engine already.
func (e *engine) await(op string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- caught(op, f) }()
	began, patience := time.Now(), time.NewTicker(e.stallPatience/4+1)
	defer patience.Stop()
	for {
		select {
		case err := <-done:
			return e.failure(op, err)
		case <-e.fail:
			return e.dead()
		case now := <-patience.C:
			// A thread that waits behind a full disk for ever could give up neither its task nor itself.
			if full := e.space.full.Load(); full.overdue(now, began, e.stallPatience) {
				e.kill(op, full)
			}
		}
	}
}

// flush writes memtables to tables and waits.
func (e *engine) flush() error { return e.run("flush", e.flushed) }

// flushLast is the flush of a Close: the lease has ended, so only Close itself can be here.
func (e *engine) flushLast() error { return e.await("flush", e.flushed) }

func (e *engine) flushed() error {
	flushed, err := e.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
		return nil
	case <-e.fail:
		return e.dead()
	}
}

// close ends the database after the lease has drained. The database waits in it for its own flushes and compactions, so
// one that dies meanwhile would be waited for for ever: its goroutine is parked. Such a one keeps its lock.
func (e *engine) close() error {
	err := e.await("close", e.db.Close)
	if dead := e.dead(); dead != nil {
		return dead
	}
	return e.failure("close", errors.Join(err, e.lock.Close()))
}

// caught turns a panic of f into a *PanicError.
func caught(op string, f func() error) (err error) {
	defer recovered(op, &err)
	return f()
}

// recovered is deferred; it turns a panic into a *PanicError.
func recovered(op string, err *error) {
	if r := recover(); r != nil {
		*err = &PanicError{Op: op, Value: r, Stack: debug.Stack()}
	}
}

// engineLogger is the engine's way to say things. Its Fatalf means that the engine cannot go on; Pebble's own ends the
// process there.
type engineLogger struct{ e *engine }

func (l engineLogger) Infof(string, ...any) {}

// Errorf is quiet: what matters comes through the event listener, with its rate limited.
func (l engineLogger) Errorf(format string, args ...any) {
	l.e.log.Debug("engine", "error", fmt.Sprintf(format, args...))
}

// Fatalf never returns.
func (l engineLogger) Fatalf(format string, args ...any) {
	cause := fmt.Errorf(format, args...)
	for _, a := range args {
		if err, ok := a.(error); ok {
			cause = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
		}
	}
	l.e.kill("fatal", cause)
	l.e.park()
}

// noise counts background errors. It is called by the engine's own goroutines, which no actor owns, so it is atomic.
type noise struct {
	patience time.Duration
	now      func() time.Time
	// since is when the present run of errors began, in nanoseconds; 0 if there is none.
	since, said atomic.Int64
	count       atomic.Int64
}

// heard counts one error. It returns how many there were since the last that was logged, or 0 if this one should not be
// logged, and whether the run has lasted longer than the patience.
func (n *noise) heard() (count int64, over bool) {
	now := n.now().UnixNano()
	n.since.CompareAndSwap(0, now)
	n.count.Add(1)
	if said := n.said.Load(); now-said >= int64(time.Second) && n.said.CompareAndSwap(said, now) {
		count = n.count.Swap(0)
	}
	since := n.since.Load()
	return count, since != 0 && now-since >= int64(n.patience)
}

// quiet ends a run of errors.
func (n *noise) quiet() { n.since.Store(0) }
