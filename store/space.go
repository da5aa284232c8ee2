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
}

func (e *DiskFullError) Error() string {
	return fmt.Sprintf("store: the disk of %s is full: %d bytes wait to be written, and are as soon as there is space (%v)", e.Dir, e.Bytes, e.Cause)
}

// Unwrap gives the file system's error.
func (e *DiskFullError) Unwrap() error { return e.Cause }

// Is makes it a full disk.
func (e *DiskFullError) Is(target error) bool { return target == ErrDiskFull }

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
				s.set(nil)
			}
			return err
		}
		if !waits {
			waits = true
			s.waiting.Add(1)
		}
		s.set(&DiskFullError{s.engine.dir, left, err})
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

func (s *space) set(full *DiskFullError) {
	was := s.full.Swap(full)
	if (was == nil) == (full == nil) {
		return
	}
	level := slog.LevelDebug
	if full != nil {
		if s.others.Add(1) == 1 {
			level = slog.LevelWarn
		}
		s.engine.log.Log(context.Background(), level, "the disk is full; state can be read, and waits for space", "bytes", full.Bytes, "error", full.Cause)
	} else {
		if s.others.Add(-1) == 0 {
			level = slog.LevelInfo
		}
		s.engine.log.Log(context.Background(), level, "the disk has space again")
	}
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
