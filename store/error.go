package store

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
)

var (
	// ErrNullKey: a key is null (nil). State cannot hold it, neither from a task nor from a changelog.
	ErrNullKey = errors.New("store: a null key cannot be stored")
	// ErrLeaseRevoked: the writer's incarnation is over; a later epoch writes this state. Nothing was written.
	ErrLeaseRevoked = errors.New("store: the write lease was given to a later incarnation")
	// ErrCorrupted: bytes on disk are not what was written. The state is moved aside at its next OpenTask.
	ErrCorrupted = errors.New("store: the state on disk is damaged")
	// ErrDiskFull: the disk has no space left. The state opens again once there is.
	ErrDiskFull = errors.New("store: the disk is full")
	// ErrTaskOpen: the task's state is open already in this process.
	ErrTaskOpen = errors.New("store: the task's state is already open")
	// ErrReadersStayed: Close has waited long enough for readers and abandoned the engine instead of closing it.
	ErrReadersStayed = errors.New("store: readers did not let go in time, so the engine was abandoned unclosed")
)

// DirectoryInUseError says that another process (or another node of this one) has the state directory open.
type DirectoryInUseError struct{ Dir string }

func (e *DirectoryInUseError) Error() string {
	return fmt.Sprintf("store: state directory %s is in use by another process: stop it, or give this one another state directory", e.Dir)
}

// DirectoryError says that a directory cannot be used at all.
type DirectoryError struct {
	Dir   string
	Cause error
}

func (e *DirectoryError) Error() string {
	if errors.Is(e.Cause, ErrLink) {
		return fmt.Sprintf("store: state directory %s cannot be used (%v): put the directory itself there, or name the one that it leads to", e.Dir, e.Cause)
	}
	return fmt.Sprintf("store: state directory %s cannot be used (%v): check that it exists, is writable and has space", e.Dir, e.Cause)
}

// Unwrap gives the file system's error.
func (e *DirectoryError) Unwrap() error { return e.Cause }

// Is makes a full disk recognisable.
func (e *DirectoryError) Is(target error) bool { return target == ErrDiskFull && diskFull(e.Cause) }

// FormatError says that a state directory was written by a newer version. It is left alone.
type FormatError struct {
	Dir              string
	Found, Supported int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("store: %s has format %d and this version knows only up to %d: run the newer version, or remove the directory to restore from the changelogs", e.Dir, e.Found, e.Supported)
}

// SpecError is a caller's mistake in a TaskSpec, a Unit or an application id; nothing was done.
type SpecError struct{ Problem string }

func (e *SpecError) Error() string { return "store: " + e.Problem }

// EngineError is a failure of the engine under a task's state. errors.Is finds ErrCorrupted and ErrDiskFull where they
// apply. After a Dead one the state takes nothing any more: Abandon it and open the task again.
type EngineError struct {
	Op, Dir string
	Dead    bool
	Cause   error
}

func (e *EngineError) Error() string {
	return fmt.Sprintf("store: %s of %s failed: %v", e.Op, e.Dir, e.Cause)
}

// Unwrap gives the engine's error.
func (e *EngineError) Unwrap() error { return e.Cause }

// Is implements errors.Is for the two sentinels.
func (e *EngineError) Is(target error) bool {
	switch target {
	case ErrCorrupted:
		return pebble.IsCorruptionError(e.Cause)
	case ErrDiskFull:
		return diskFull(e.Cause)
	}
	return false
}

func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// ChangelogError says that a store's changelog cannot be restored from, and where. Causes: ErrNullKey (somebody else
// writes to the topic), ErrChangelogEnded, ErrChangelogOutrun, or the reader's own error.
type ChangelogError struct {
	Store     string
	Changelog record.TopicPartition
	Offset    int64
	Cause     error
}

func (e *ChangelogError) Error() string {
	return fmt.Sprintf("store: restore of %q from %s at offset %d: %v", e.Store, e.Changelog, e.Offset, e.Cause)
}

// Unwrap gives the cause.
func (e *ChangelogError) Unwrap() error { return e.Cause }

var (
	// ErrChangelogEnded: the reader returned before the target and without a step forward.
	ErrChangelogEnded = errors.New("the reader stopped before the target")
	// ErrChangelogOutrun: the log's start moved past the restore twice in one run: retention is faster than the restore.
	ErrChangelogOutrun = errors.New("the changelog's retention is faster than the restore: lengthen it")
	// ErrChangelogRange: the reader has no range for the partition.
	ErrChangelogRange = errors.New("the changelog's offsets are not known")
)

// PanicError is a panic that was caught at the edge of this room.
type PanicError struct {
	Op    string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	first, _, _ := strings.Cut(fmt.Sprint(e.Value), "\n")
	return fmt.Sprintf("store: panic in %s: %s", e.Op, first)
}

// Unwrap gives the value if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ErrStateStoreClosed: the state was closed or abandoned; ask where the store is now.
// It is the query room's, so that it is the same one at every end of a query.
var ErrStateStoreClosed = query.ErrStateStoreClosed
