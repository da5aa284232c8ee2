package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/millrace-io/millrace/record"
)

// Directory is the state directory of one application on one node:
//
//	<path>/<app>/lock          held while it is open
//	<path>/<app>/process       the process id, a UUID that outlives restarts
//	<path>/<app>/<task>/<n>/   a task's database; a rebuild opens n + 1
//	<path>/<app>/<task>/aside  at most one copy that could not be used
//	<path>/<app>/global-<store>/  the same of a global store
//
// Its methods may be called from any goroutine.
//
// The mutex protects open and left. Tasks are opened and closed by the workers of several threads, and a task may move
// from one to the other, so no single goroutine owns the two maps.
type Directory struct {
	dir       string
	processID uuid.UUID
	opts      DirectoryOptions
	lock      io.Closer
	cache     *pebble.Cache
	files     *pebble.FileCache
	// waiting counts states that wait for space.
	waiting atomic.Int32

	mu   sync.Mutex
	open map[string]*TaskState // by the name of their directory
	left map[record.TaskID]time.Time
	// lost is set when an engine was abandoned: the caches stay, because it may still use them.
	lost   bool
	closed bool
}

const (
	lockName     = "lock"
	processName  = "process"
	asideName    = "aside"
	trashPrefix  = "trash-"
	globalPrefix = "global-"
	damageMark   = ".damaged"
)

// OpenDirectory opens or creates the state directory of an application, with mode 0700, and locks it. Its errors are
// *SpecError (the application id cannot be a directory), *DirectoryInUseError and *DirectoryError, for ErrLink too.
func OpenDirectory(path, appID string, opts DirectoryOptions) (*Directory, error) {
	if err := validateAppID(appID); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	dir, onDisk := opts.FS.PathJoin(path, appID), opts.FS == vfs.Default
	opts.FS = (&breakableDisk{dir, opts.Fault}).breakable(opts.FS)
	d := &Directory{dir: dir, opts: opts, open: map[string]*TaskState{}, left: map[record.TaskID]time.Time{}}
	if err := makeDir(opts.FS, d.dir); err != nil {
		return nil, err
	}
	if onDisk {
		if err := refuseLinks(dir); err != nil {
			return nil, err
		}
	}
	lock, err := opts.FS.Lock(d.path(lockName))
	if err != nil {
		if err = lockError(d.dir, err); errors.Is(err, ErrTaskOpen) {
			return nil, &DirectoryInUseError{d.dir}
		}
		return nil, err
	}
	d.lock = lock
	if d.processID, err = d.readProcessID(); err != nil {
		return nil, errors.Join(&DirectoryError{d.dir, err}, lock.Close())
	}
	d.cache = pebble.NewCache(opts.CacheBytes)
	d.files = pebble.NewFileCache(2, opts.OpenFiles)
	d.removeTrash()
	return d, nil
}

// lockError tells a lock that is held from a file that cannot be made.
func lockError(dir string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return &DirectoryError{dir, err}
	}
	held := errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) || strings.Contains(err.Error(), "lock held")
	if held {
		return &EngineError{Op: "lock", Dir: dir, Cause: ErrTaskOpen}
	}
	return &DirectoryError{dir, err}
}

// readProcessID reads the process id or makes one. A file that was cut off by a crash is replaced.
func (d *Directory) readProcessID() (uuid.UUID, error) {
	name := d.path(processName)
	if b, err := readFile(d.opts.FS, name); err == nil {
		if id, err := uuid.ParseBytes(b); err == nil {
			return id, nil
		}
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return uuid.Nil, err
	}
	return id, writeFile(d.opts.FS, name, []byte(id.String()))
}

// makeDir makes a directory and its parents durable, as far as the file system can: a database in a directory that a
// power failure takes away was flushed in vain.
func makeDir(fs vfs.FS, dir string) error {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return &DirectoryError{dir, err}
	}
	for range 3 {
		parent := fs.PathDir(dir)
		if parent == dir {
			break
		}
		if f, err := fs.OpenDir(parent); err == nil {
			_ = errors.Join(f.Sync(), f.Close())
		}
		dir = parent
	}
	return nil
}

func readFile(fs vfs.FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

// writeFile replaces a file as a whole.
func writeFile(fs vfs.FS, name string, b []byte) error {
	f, err := fs.Create(name+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return fs.Rename(name+".new", name)
}

func (d *Directory) path(elem ...string) string {
	return d.opts.FS.PathJoin(append([]string{d.dir}, elem...)...)
}

// Path is the application's directory.
func (d *Directory) Path() string { return d.dir }

// ProcessID names this state directory for as long as it exists. The assignor gives a task back to where its state is.
func (d *Directory) ProcessID() uuid.UUID { return d.processID }

// Tasks are the tasks that have state here, open or not, in order. A directory that cannot be read is a *DirectoryError.
func (d *Directory) Tasks() ([]record.TaskID, error) {
	names, err := d.opts.FS.List(d.dir)
	if err != nil {
		return nil, &DirectoryError{d.dir, err}
	}
	var ids []record.TaskID
	for _, name := range names {
		if id, ok := record.ParseTaskID(name); ok {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, record.TaskID.Compare)
	return ids, nil
}

// Clean removes the state of tasks that are neither live nor open and that have not been for ten minutes of calls: the
// first call that does not find a task among the live ones starts its time. It returns what it removed; an error of one
// task does not keep the others.
func (d *Directory) Clean(now time.Time, live map[record.TaskID]bool) ([]record.TaskID, error) {
	ids, err := d.Tasks()
	if err != nil {
		return nil, err
	}
	var removed []record.TaskID
	var errs []error
	for _, id := range ids {
		if !d.due(id, now, live[id]) {
			continue
		}
		if err := d.discardTask(id); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, id)
	}
	d.removeTrash()
	return removed, errors.Join(errs...)
}

// due reports whether a task has been gone for long enough.
func (d *Directory) due(id record.TaskID, now time.Time, live bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, open := d.open[id.String()]; open || live {
		delete(d.left, id)
		return false
	}
	since, known := d.left[id]
	if !known {
		d.left[id] = now
	}
	return known && now.Sub(since) >= cleanAfter
}

func (d *Directory) discardTask(id record.TaskID) error {
	if gone, err := d.discard(id.String()); err != nil || !gone {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.left, id)
	return nil
}

// discard renames a state's directory, unless it is open. That is quick, and so can be done while OpenTask waits for the
// lock.
func (d *Directory) discard(name string) (gone bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, open := d.open[name]; open {
		return false, nil
	}
	if err := d.opts.FS.Rename(d.path(name), d.path(trashPrefix+uuid.NewString())); err != nil {
		return false, &DirectoryError{d.path(name), err}
	}
	return true, nil
}

// CleanGlobals removes the state of global stores that are not among the names given, and not open. It returns the names of
// what it removed; an error of one does not keep the others.
func (d *Directory) CleanGlobals(stores ...string) (removed []string, err error) {
	names, err := d.opts.FS.List(d.dir)
	if err != nil {
		return nil, &DirectoryError{d.dir, err}
	}
	var errs []error
	for _, name := range names {
		store, global := strings.CutPrefix(name, globalPrefix)
		if !global || slices.Contains(stores, store) {
			continue
		}
		gone, err := d.discard(name)
		if gone {
			removed = append(removed, store)
		}
		errs = append(errs, err)
	}
	d.removeTrash()
	return removed, errors.Join(errs...)
}

// removeTrash removes what was discarded, now or before a crash. What cannot be removed is tried again next time.
func (d *Directory) removeTrash() {
	names, _ := d.opts.FS.List(d.dir)
	for _, name := range names {
		if strings.HasPrefix(name, trashPrefix) {
			if err := d.opts.FS.RemoveAll(d.path(name)); err != nil {
				d.opts.Logger.Warn("old state could not be removed", "dir", d.path(name), "error", err)
			}
		}
	}
}

// Close unlocks the directory. Tasks that are still open are closed first, each with its flush; the errors of all are joined.
func (d *Directory) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	open := make([]*TaskState, 0, len(d.open))
	for _, t := range d.open {
		open = append(open, t)
	}
	d.mu.Unlock()
	var errs []error
	for _, t := range open {
		errs = append(errs, t.Close())
	}
	if !d.abandoned() {
		d.files.Unref()
		d.cache.Unref()
	}
	return errors.Join(append(errs, d.lock.Close())...)
}

func (d *Directory) abandoned() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost
}

func isMissing(err error) bool { return errors.Is(err, os.ErrNotExist) }
