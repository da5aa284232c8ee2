package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

func soon(o *DirectoryOptions) { o.SpaceRetry, o.ErrorPatience = time.Millisecond, time.Millisecond }

// awaitFull waits until the state has found the disk full, or that it is not any more.
func awaitFull(t *testing.T, s *TaskState, full bool) {
	t.Helper()
	for (s.DiskFull() != nil) != full {
		select {
		case <-s.SpaceChanged():
		case <-time.After(20 * time.Second):
			t.Fatal("never: full ", full)
		}
	}
}

// H19: a disk has no space. What was applied, before and after that was found out, can be read; when there is space again
// the engine goes on by itself, and everything is on disk.
func TestFullDiskIsWaitedFor(t *testing.T) {
	toggle, mem, want := fullDisk(), vfs.NewMem(), newModel()
	d := openDir(t, errorfs.Wrap(mem, toggle), soon, func(o *DirectoryOptions) { o.FlushInterval = time.Nanosecond })
	s, _ := openTask(t, d, testSpec())
	put := func(key, value string) {
		t.Helper()
		want.stores[0][key], want.next, want.stored = value, want.next+1, true
		apply(t, s, &Unit{Writes: writes(0, key, value), Changelog: []StoreOffset{{0, want.next}}})
		want.compare(t, s)
	}
	put("a", "1")
	for round := range 2 {
		toggle.On()
		flushed := make(chan error, 1)
		go func() { flushed <- s.Flush() }()
		awaitFull(t, s, true)
		var full *DiskFullError
		if err := s.DiskFull(); !errors.As(err, &full) || !errors.Is(err, ErrDiskFull) || full.Dir != s.Dir() {
			t.Error(err)
		}
		for i := range 10 { // each would be flushed now, and would fill a memtable that nothing empties
			put("b", fmt.Sprint(round, i))
		}
		toggle.Off()
		if err := <-flushed; err != nil {
			t.Fatal(err)
		}
		awaitFull(t, s, false)
		put("a", fmt.Sprint(round))
	}
	closeDir(t, d)
	d = openDir(t, mem)
	s, report := openTask(t, d, testSpec())
	if report.Reason != Usable {
		t.Error(report)
	}
	want.compare(t, s)
	closeDir(t, d)
}

// A state that is closed while it waits does not keep who closes it; what was not flushed is restored later.
func TestCloseDoesNotWaitForSpace(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	toggle := fullDisk()
	d := openDir(t, errorfs.Wrap(vfs.NewMem(), toggle), soon, func(o *DirectoryOptions) { o.StallPatience = time.Hour })
	s, _ := openTask(t, d, testSpec())
	apply(t, s, &Unit{Writes: writes(0, "a", "1"), Changelog: []StoreOffset{{0, 1}}})
	toggle.On()
	flushed := make(chan error, 1)
	go func() { flushed <- s.Flush() }()
	awaitFull(t, s, true)
	if err := errors.Join(s.Close(), <-flushed); !errors.Is(err, ErrDiskFull) {
		t.Error(err)
	}
	toggle.Off()
	s, _ = openTask(t, d, testSpec())
	newModel().compare(t, s)
	closeDir(t, d)
}

// What has no place in memory either is waited for only so long: a thread must be able to give up its tasks.
func TestUnitThatFindsNoPlaceFails(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	toggle := fullDisk()
	d := openDir(t, errorfs.Wrap(vfs.NewMem(), toggle), soon, func(o *DirectoryOptions) { o.StallPatience = 10 * time.Millisecond })
	s, _ := openTask(t, d, testSpec())
	toggle.On()
	big := string(bytes.Repeat([]byte{'x'}, 1<<20))
	var err error
	for n := int64(1); err == nil && n < 1000; n++ {
		err = s.Apply(&Unit{Writes: writes(0, "a", big), Changelog: []StoreOffset{{0, n}}})
	}
	var ee *EngineError
	if !errors.As(err, &ee) || !ee.Dead || !errors.Is(err, ErrDiskFull) {
		t.Fatal(err)
	}
	<-s.Failed()
	s.Abandon()
	toggle.Off()
	closeDir(t, d)
}

// An operation is given up for a full disk when it has waited for space for so long, and not when it was slow before.
func TestOverdue(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, c := range []struct {
		began, full, now int
		want             bool
	}{
		{0, 0, 9, false}, {0, 0, 10, true}, {0, 9, 10, false}, {0, 9, 18, false}, {0, 9, 19, true}, {100, 0, 101, false}, {100, 0, 110, true},
	} {
		if got := (&DiskFullError{since: at(c.full)}).overdue(at(c.now), at(c.began), 10*time.Second); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if (*DiskFullError)(nil).overdue(at(100), at(0), time.Second) {
		t.Error("a disk with space is overdue")
	}
}

// The time at which a disk became full stays while its writes are tried again.
func TestDiskIsFullSinceItsFirstWrite(t *testing.T) {
	e, _ := bareEngine()
	var first time.Time
	for i := range 3 {
		e.space.begins(&DiskFullError{Bytes: i, since: time.Unix(int64(i)+1, 0)})
		full := e.space.full.Load()
		if i == 0 {
			first = full.since
		}
		if full.Bytes != i || !full.since.Equal(first) {
			t.Errorf("%+v", full)
		}
	}
}

// Who reads the log is not told of space when a state is closed that has waited for it in vain.
func TestLogTellsOfSpaceThatIsThere(t *testing.T) {
	noSpace := &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	for want, last := range map[string]error{"level=INFO msg=\"the disk has space again\"": nil, "level=DEBUG msg=\"the state waits for space no more": noSpace} {
		e, said := bareEngine()
		tries := 0
		err := e.space.tries(func() (int, error) {
			if tries++; tries < 3 {
				return 1, noSpace
			}
			if last != nil {
				e.lease.end()
			}
			return 0, last
		})
		if !errors.Is(err, last) || tries != 3 || strings.Count(said.String(), "msg=") != 2 || !strings.Contains(said.String(), want) {
			t.Errorf("%v after %d tries:\n%s", err, tries, said)
		}
		if e.space.full.Load() != nil || e.space.others.Load() != 0 || e.space.waiting.Load() != 0 {
			t.Error("it still waits")
		}
	}
}

// Many writes wait at once, and end in any order: when the last has ended nothing waits, and who looks has heard of it.
func TestManyWritesWaitForSpace(t *testing.T) {
	e, _ := bareEngine()
	var full atomic.Bool
	full.Store(true)
	var writes sync.WaitGroup
	for range 16 {
		writes.Go(func() {
			for range 50 {
				err := e.space.tries(func() (int, error) {
					if full.Load() || rand.IntN(4) == 0 {
						return 1, syscall.ENOSPC
					}
					return 0, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	<-e.space.changed
	full.Store(false)
	writes.Wait()
	if e.space.full.Load() != nil || e.space.others.Load() != 0 || e.space.waiting.Load() != 0 || len(e.space.changed) != 1 {
		t.Errorf("full %v, others %d, waiting %d, %d messages", e.space.full.Load(), e.space.others.Load(), e.space.waiting.Load(), len(e.space.changed))
	}
}

// bareEngine is one without a database, whose writes may wait for space, and what it logs.
func bareEngine() (*engine, *bytes.Buffer) {
	said := new(bytes.Buffer)
	e := &engine{lease: newLease(), fail: make(chan struct{}), log: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	e.space = space{engine: e, retry: time.Microsecond, others: new(atomic.Int32), changed: make(chan struct{}, 1)}
	e.space.opened.Store(true)
	return e, said
}

// tight takes so many bytes and no more, until it is given space.
type tight struct {
	vfs.File
	left  int
	wrote bytes.Buffer
}

func (f *tight) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.left -= n
	f.wrote.Write(p[:n])
	if n < len(p) {
		f.left += 3
		return n, &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	}
	return n, nil
}

// A full disk takes a part of a write. That part is not written twice.
func TestPartOfAWriteIsNotRepeated(t *testing.T) {
	e, _ := bareEngine()
	f := &tight{left: 5}
	text := []byte("everything is written once")
	if n, err := (patientFile{f, &e.space}).Write(text); n != len(text) || err != nil || !bytes.Equal(f.wrote.Bytes(), text) {
		t.Errorf("%d %v %q", n, err, f.wrote.Bytes())
	}
	if e.space.full.Load() != nil || e.space.waiting.Load() != 0 {
		t.Error("it still waits")
	}
}

// A global store takes nothing in while its disk is full, can be read, and follows again when there is space.
func TestGlobalStoreWaitsForSpace(t *testing.T) {
	toggle, topic := fullDisk(), newTopic(1)
	topic.put(0, "at", "Austria")
	g := newGlobalRig(t, errorfs.Wrap(vfs.NewMem(), toggle), topic, soon, func(o *DirectoryOptions) { o.FlushInterval = time.Nanosecond })
	g.start()
	g.await("serving 1")
	toggle.On()
	topic.put(0, "be", "Belgium")
	g.await("full true")
	topic.put(0, "ch", "Switzerland")
	if v, _, ok, err := g.state.Get(0, []byte("at")); string(v) != "Austria" || !ok || err != nil {
		t.Error(v, ok, err)
	}
	if _, _, ok, _ := g.state.Get(0, []byte("ch")); ok {
		t.Error("it was taken in")
	}
	toggle.Off()
	g.await("full false")
	g.holds(rows{"at": "Austria", "be": "Belgium", "ch": "Switzerland"})
	g.stop()
}
