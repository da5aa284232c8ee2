package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/record"
)

// OpenTask opens the state of a task, or makes it. Whatever is wrong with the state itself is repaired by moving it aside
// and opening an empty one, which the report says: state can always be rebuilt. Errors are left for what rebuilding cannot
// cure: *SpecError, *FormatError (a newer version wrote it), *EngineError with ErrTaskOpen (open already), *DirectoryError and
// *EngineError (an empty one cannot be made either: no space, no permission).
func (d *Directory) OpenTask(spec TaskSpec) (*TaskState, OpenReport, error) {
	if err := spec.validate(); err != nil {
		return nil, OpenReport{}, err
	}
	t := newTaskState(d, spec)
	if err := d.claim(t); err != nil {
		return nil, OpenReport{}, err
	}
	if err := t.breakable(fault.StoreOpen, noStore); err != nil {
		d.unclaim(t)
		return nil, OpenReport{}, &EngineError{Op: "open", Dir: d.path(spec.ID.String()), Cause: err}
	}
	report, err := t.open()
	if err != nil {
		d.unclaim(t)
		return nil, report, err
	}
	return t, report, nil
}

// claim makes the task's directory this state's.
func (d *Directory) claim(t *TaskState) error {
	name := t.spec.name()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrStateStoreClosed
	}
	if _, taken := d.open[name]; taken {
		return &EngineError{Op: "open", Dir: d.path(name), Cause: ErrTaskOpen}
	}
	d.open[name] = t
	if t.spec.Global == "" {
		delete(d.left, t.spec.ID)
	}
	t.memTableBytes = d.opts.memTableBytes(len(d.open) - 1)
	return nil
}

func (d *Directory) unclaim(t *TaskState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if name := t.spec.name(); d.open[name] == t {
		delete(d.open, name)
	}
}

// open finds the newest directory of the task and opens it, or the next one if that is not usable.
func (t *TaskState) open() (OpenReport, error) {
	fs, dir := t.dir.opts.FS, t.dir.path(t.spec.name())
	if err := makeDir(fs, dir); err != nil {
		return OpenReport{}, err
	}
	n, older, err := t.generations(dir)
	if err != nil {
		return OpenReport{}, &DirectoryError{dir, err}
	}
	report := OpenReport{Reason: Usable, Dir: fs.PathJoin(dir, strconv.Itoa(n))}
	if n == 0 {
		report = OpenReport{Reason: Fresh, Dir: fs.PathJoin(dir, "1")}
		return report, t.openFresh(&report)
	}
	why := t.openAt(&report)
	aside := asAside(why)
	if aside == nil {
		if why == nil {
			t.dir.removeGenerations(dir, older)
		}
		return report, why
	}
	report.Reason, report.Why, report.Cause = MovedAside, aside.why, aside.cause
	report.Aside = t.moveAside(dir, report.Dir, aside.why)
	report.Dir = fs.PathJoin(dir, strconv.Itoa(n+1))
	return report, t.openFresh(&report)
}

// openFresh opens a directory that is not there. Nothing is left to fall back to.
func (t *TaskState) openFresh(report *OpenReport) error {
	err := t.openAt(report)
	if aside := asAside(err); aside != nil {
		return aside.cause
	}
	return err
}

// generations are the numbered directories of a task: the newest, and those before it.
func (t *TaskState) generations(dir string) (newest int, older []int, err error) {
	names, err := t.dir.opts.FS.List(dir)
	if err != nil {
		return 0, nil, err
	}
	var found []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil && n > 0 && strconv.Itoa(n) == name {
			found = append(found, n)
		}
		if strings.HasPrefix(name, ingestPrefix) {
			// What a crash left of a bulk restore. It is tried again at the next opening.
			_ = t.dir.opts.FS.RemoveAll(t.dir.opts.FS.PathJoin(dir, name))
		}
	}
	if len(found) == 0 {
		return 0, nil, nil
	}
	slices.Sort(found)
	return found[len(found)-1], found[:len(found)-1], nil
}

// removeGenerations removes what a crash in the middle of a rebuild, or an abandoned engine of an earlier process, has
// left. An engine of this process that was abandoned keeps its lock, and so its directory.
func (d *Directory) removeGenerations(dir string, older []int) {
	for _, n := range older {
		old := d.opts.FS.PathJoin(dir, strconv.Itoa(n))
		lock, err := pebble.LockDirectory(old, d.opts.FS)
		if err == nil {
			err = errors.Join(lock.Close(), d.opts.FS.RemoveAll(old))
		}
		if err != nil {
			d.opts.Logger.Debug("an older state directory stays", "dir", old, "error", err)
		}
	}
}

// moveAside keeps one copy for the curious. A directory whose engine was abandoned stays where it is, because the engine
// still writes to it by its path.
func (t *TaskState) moveAside(dir, bad string, why AsideReason) string {
	fs := t.dir.opts.FS
	if why == Abandoned {
		return bad
	}
	aside := fs.PathJoin(dir, asideName)
	err := fs.RemoveAll(aside)
	if err == nil || isMissing(err) {
		err = fs.Rename(bad, aside)
	}
	if err != nil {
		t.dir.opts.Logger.Warn("unusable state could not be moved aside", "dir", bad, "error", err)
		return bad
	}
	_ = fs.Remove(bad + damageMark)
	return aside
}

// openAt opens one directory and makes it hold what the spec says. An *asideError says that it is not usable.
func (t *TaskState) openAt(report *OpenReport) error {
	fs := t.dir.opts.FS
	if b, err := readFile(fs, report.Dir+damageMark); err == nil {
		return &asideError{Damaged, errors.New(string(b))}
	}
	if err := makeDir(fs, report.Dir); err != nil {
		return err
	}
	e, err := openEngine(t.dir, report.Dir, t.memTableBytes)
	switch {
	case errors.Is(err, ErrTaskOpen):
		// The directory's own lock is ours, so whoever holds this one is an engine that this process has abandoned.
		return &asideError{Abandoned, err}
	case errors.Is(err, ErrDiskFull):
		return err
	case isDead(err):
		return &asideError{Abandoned, err}
	case err != nil:
		return &asideError{NotOpenable, err}
	}
	t.engine = e
	fresh := false
	if report.Changes, fresh, err = t.adopt(); err == nil {
		if fresh {
			report.Changes = nil
		}
		if fresh && report.Reason == Usable {
			report.Reason = Fresh // made by an opening that was cut off
		}
		return nil
	}
	t.engine = nil
	e.lease.end()
	if closeErr := e.close(); closeErr != nil {
		t.dir.opts.Logger.Warn("unusable state could not be closed", "dir", e.dir, "error", closeErr)
	}
	return err
}

// isDead says that an engine has failed for good, and keeps its lock.
func isDead(err error) bool {
	var e *EngineError
	return errors.As(err, &e) && e.Dead
}

// adopt reads what the open database holds, and changes it to what the spec says in one batch. fresh says that it held
// nothing.
func (t *TaskState) adopt() (changes map[string]StoreChange, fresh bool, err error) {
	r, fresh, err := t.loadRegistry()
	if err != nil {
		return nil, false, err
	}
	if why := r.mismatch(&t.spec); why != 0 {
		return nil, false, &asideError{why, fmt.Errorf("store: cluster %q in %s", r.Cluster, t.engine.dir)}
	}
	plan, err := r.reconcile(&t.spec)
	if err != nil {
		return nil, false, &asideError{Damaged, err}
	}
	t.numbers = plan.numbers
	if fresh || len(plan.drop) > 0 || !bytes.Equal(r.encode(), plan.next.encode()) {
		e := t.engine // which it keeps, also when it outlives the opening
		if err := e.run("open", func() error { return t.carryOut(e, plan) }); err != nil {
			return nil, false, err
		}
		t.dirty.Store(true)
	}
	if err := t.load(); err != nil {
		return nil, false, &asideError{Damaged, err}
	}
	return plan.changes, fresh, nil
}

func (t *TaskState) loadRegistry() (r *registry, fresh bool, err error) {
	b, ok, err := t.meta(keyRegistry)
	if err != nil {
		return nil, false, &asideError{Damaged, err}
	}
	if !ok {
		// Nothing is ever written before the registry, and batches reach the disk in order.
		return &registry{Format: formatVersion}, true, nil
	}
	r, err = decodeRegistry(t.engine.dir, b)
	var newer *FormatError
	if err != nil && !errors.As(err, &newer) {
		return nil, false, &asideError{Damaged, err}
	}
	return r, false, err
}

func (t *TaskState) carryOut(e *engine, plan *reconciled) error {
	b := e.db.NewBatch()
	defer b.Close()
	for _, number := range plan.drop {
		if err := wipe(b, number); err != nil {
			return err
		}
	}
	if t.spec.Global != "" && len(plan.drop) > 0 {
		// A global store's position is its offsets: without the entries it would be a hole.
		if err := errors.Join(b.Delete(keyPosition, nil), b.Delete(keyClock, nil)); err != nil {
			return err
		}
	}
	if err := b.Set(keyRegistry, plan.next.encode(), nil); err != nil {
		return err
	}
	return b.Commit(pebble.NoSync)
}

// wipe deletes everything of one store, its changelog offset first of all: data without its offset is restored again,
// an offset without its data is a hole.
func wipe(b *pebble.Batch, number uint16) error {
	from, to := prefixes(number)
	return errors.Join(b.Delete(keyOffset(number), nil), b.Delete(keyTime(number), nil), b.DeleteRange(from, to, nil))
}

// load reads the offsets and times, the position and the clock.
func (t *TaskState) load() error {
	v := &view{marks: make(map[int]mark, len(t.numbers)), times: map[int]int64{}, memories: map[int]*memory{}, position: record.Position{}}
	for i, number := range t.numbers {
		if t.spec.Stores[i].InMemory {
			v.memories[i] = &memory{}
			continue
		}
		b, ok, err := t.meta(keyOffset(number))
		if ok && err == nil {
			v.marks[i], err = decodeMark(b)
		}
		if err != nil {
			return err
		}
		if b, ok, err = t.meta(keyTime(number)); ok && err == nil {
			v.times[i], err = decodeClock(b)
		}
		if err != nil {
			return err
		}
	}
	b, ok, err := t.meta(keyPosition)
	if ok && err == nil && (t.spec.Global == "" || !t.spec.Stores[0].InMemory) {
		v.position, err = record.DecodePosition(b)
	}
	if err != nil {
		return err
	}
	if b, ok, err = t.meta(keyClock); ok && err == nil {
		v.clock, err = decodeClock(b)
	}
	if err != nil {
		return err
	}
	if b, ok, err = t.meta(keyCommit); ok && err == nil {
		v.commit, err = decodeCommit(b)
	}
	t.commits = v.commit
	t.view.Store(v)
	return err
}

// Stores are the names of the task's stores, in the order of the spec.
func (t *TaskState) Stores() []string {
	names := make([]string, len(t.spec.Stores))
	for i, s := range t.spec.Stores {
		names[i] = s.Name
	}
	return slices.Clip(names)
}

// next is a copy of the view that may be changed.
func (v *view) next() *view {
	return &view{commit: v.commit, marks: maps.Clone(v.marks), times: maps.Clone(v.times), memories: maps.Clone(v.memories), position: maps.Clone(v.position), clock: v.clock}
}
