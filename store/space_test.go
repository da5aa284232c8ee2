package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
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
	e := &engine{lease: newLease(), fail: make(chan struct{}), log: DirectoryOptions{}.withDefaults().Logger}
	e.space = space{engine: e, retry: time.Microsecond, others: new(atomic.Int32), changed: make(chan struct{}, 1)}
	e.space.opened.Store(true)
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
