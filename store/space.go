package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// DiskFullError says that an engine waits for space to write so many bytes. Nothing has failed: what was applied is in
// memory and can be read, and as soon as there is space the engine goes on.
type DiskFullError struct {
	Dir   string
	Bytes int
	Cause error
	// since is when the engine has begun to wait.
	since time.Time
}

func (e *DiskFullError) Error() string {
	return fmt.Sprintf("store: the disk of %s is full: %d bytes wait to be written, and are as soon as there is space (%v)", e.Dir, e.Bytes, e.Cause)
}

// Unwrap gives the file system's error.
func (e *DiskFullError) Unwrap() error { return e.Cause }

// Is makes it a full disk.
func (e *DiskFullError) Is(target error) bool { return target == ErrDiskFull }

// overdue says that what began at a time has waited for space for longer than is right. Before the disk was full it was slow for
// another reason, which is none to give the engine up.
func (e *DiskFullError) overdue(now, began time.Time, patience time.Duration) bool {
	if e == nil {
		return false
	}
	if e.since.After(began) {
		began = e.since
	}
	return now.Sub(began) >= patience
}

// space is about an engine that finds the disk full.
//
// The easy version lets the write fail. The engine then repeats its flush without a pause, and it does so with its mutex held between the
// tries, until it is given up; the state closes, cannot be opened again while there is no space, and no question is
// answered. Here the write itself waits. Pebble writes tables and its manifest without its mutex, so memtables take what is
// applied, and readers read, for as long as it lasts. An opening does not wait (there is nothing to read yet, and roomIn has
// looked), and neither does a state that is being closed.
type space struct {
	engine *engine
	retry  time.Duration
	// others counts the states of the directory that wait: one line in the log is enough for all of them.
	others *atomic.Int32
	// opened is set when waiting is allowed.
	opened atomic.Bool
	// waiting counts writes that wait: the flush and compactions, which no actor owns, so they are atomic. full is what the
	// last of them has met.
	waiting atomic.Int32
	full    atomic.Pointer[DiskFullError]
	// changed has a message when full was set or taken away.
	changed chan struct{}
}

// tries repeats a write until it succeeds, fails otherwise, or may not wait. left is how much of it is to be written.
func (s *space) tries(write func() (left int, err error)) error {
	waits := false
	for {
		left, err := write()
		if !diskFull(err) || s.retry <= 0 || !s.opened.Load() || s.engine.lease.ending() || s.engine.dead() != nil {
			if waits && s.waiting.Add(-1) == 0 {
				s.ends(err == nil)
			}
			return err
		}
		if !waits {
			waits = true
			s.waiting.Add(1)
		}
		s.begins(&DiskFullError{Dir: s.engine.dir, Bytes: left, Cause: err, since: time.Now()})
		s.wait()
	}
}

func (s *space) wait() {
	timer := time.NewTimer(s.retry)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.engine.lease.ended:
	case <-s.engine.fail:
	}
}

// begins publishes what a write waits for.
func (s *space) begins(full *DiskFullError) {
	if was := s.full.Load(); was != nil {
		full.since = was.since
	}
	if s.full.Swap(full) != nil {
		return
	}
	level := slog.LevelDebug
	if s.others.Add(1) == 1 {
		level = slog.LevelWarn
	}
	s.engine.log.Log(context.Background(), level, "the disk is full; state can be read, and waits for space", "bytes", full.Bytes, "error", full.Cause)
	s.tell()
}

// ends publishes that no write waits any more. Without space it was given up: the state is being closed, or has failed.
func (s *space) ends(space bool) {
	if s.full.Swap(nil) == nil {
		return
	}
	level, text := slog.LevelDebug, "the disk has space again"
	switch last := s.others.Add(-1) == 0; {
	case !space:
		text = "the state waits for space no more; what it waited with is not on disk"
	case last:
		level = slog.LevelInfo
	}
	s.engine.log.Log(context.Background(), level, text)
	s.tell()
}

func (s *space) tell() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// DiskFull is what the engine waits for, a *DiskFullError, or nil.
func (t *TaskState) DiskFull() error {
	if full := t.engine.space.full.Load(); full != nil {
		return full
	}
	return nil
}

// SpaceChanged has a message when DiskFull has become nil or another, for one reader.
func (t *TaskState) SpaceChanged() <-chan struct{} { return t.engine.space.changed }

// patientFS is a file system on which writes wait for space.
type patientFS struct {
	vfs.FS
	space *space
}

// Unwrap implements vfs.FS.
func (f patientFS) Unwrap() vfs.FS { return f.FS }

// Create implements vfs.FS.
func (f patientFS) Create(name string, c vfs.DiskWriteCategory) (file vfs.File, err error) {
	err = f.space.tries(func() (int, error) {
		file, err = f.FS.Create(name, c)
		return 0, err
	})
	return f.patient(file, err)
}

// ReuseForWrite implements vfs.FS. The old file is there for as long as it fails.
func (f patientFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (file vfs.File, err error) {
	err = f.space.tries(func() (int, error) {
		file, err = f.FS.ReuseForWrite(old, name, c)
		return 0, err
	})
	return f.patient(file, err)
}

func (f patientFS) patient(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return patientFile{file, f.space}, nil
}

type patientFile struct {
	vfs.File
	space *space
}

// Write implements io.Writer; what a full disk has taken is not written twice.
func (f patientFile) Write(p []byte) (n int, err error) {
	err = f.space.tries(func() (int, error) {
		m, err := f.File.Write(p[n:])
		n += m
		return len(p) - n, err
	})
	return n, err
}
