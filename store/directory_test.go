package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/record"
	"runtime"
	"sync/atomic"
)

func TestSecondOpenOfADirectoryNamesItAndTheFix(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.Default} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			d, err := OpenDirectory(path, "app", DirectoryOptions{FS: fs})
			if err != nil {
				t.Fatal(err)
			}
			id := d.ProcessID()
			_, err = OpenDirectory(path, "app", DirectoryOptions{FS: fs})
			var used *DirectoryInUseError
			if !errors.As(err, &used) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another state directory") {
				t.Error(err)
			}
			closeDir(t, d)
			if d, err = OpenDirectory(path, "app", DirectoryOptions{FS: fs}); err != nil {
				t.Fatal(err)
			}
			if d.ProcessID() != id {
				t.Error("the process id has changed")
			}
			closeDir(t, d)
		})
	}
}

func TestDirectoryIsPrivateAndMistakesAreTyped(t *testing.T) {
	path := t.TempDir()
	d, err := OpenDirectory(path, "app", DirectoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := openTask(t, d, testSpec())
	for _, p := range []string{d.Path(), s.Dir()} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != 0o700 {
			t.Error(p, info.Mode(), err)
		}
	}
	_, _, err = d.OpenTask(testSpec())
	if !errors.Is(err, ErrTaskOpen) {
		t.Error(err)
	}
	closeDir(t, d)
	var spec *SpecError
	for _, id := range []string{"", "..", ".x", "a/b", "a b", strings.Repeat("x", 201)} {
		if _, err := OpenDirectory(path, id, DirectoryOptions{}); !errors.As(err, &spec) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := os.WriteFile(path+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var de *DirectoryError
	if _, err := OpenDirectory(path+"/file", "app", DirectoryOptions{}); !errors.As(err, &de) {
		t.Error(err)
	}
}

func TestCleanRemovesTasksTenMinutesAfterTheyLeft(t *testing.T) {
	d := openDir(t, vfs.NewMem())
	defer closeDir(t, d)
	gone, back, live, open := testSpec(), testSpec(), testSpec(), testSpec()
	gone.ID.Partition, back.ID.Partition, live.ID.Partition, open.ID.Partition = 0, 1, 2, 4
	for _, spec := range []TaskSpec{gone, back, live, open} {
		s, _ := openTask(t, d, spec)
		if spec.ID != open.ID {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	liveSet := map[record.TaskID]bool{live.ID: true}
	start := time.UnixMilli(0)
	clean := func(after time.Duration) []record.TaskID {
		removed, err := d.Clean(start.Add(after), liveSet)
		if err != nil {
			t.Fatal(err)
		}
		return removed
	}
	if got := slices.Concat(clean(0), clean(9*time.Minute)); len(got) != 0 {
		t.Error("removed early:", got)
	}
	s, _ := openTask(t, d, back)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]record.TaskID{gone.ID}, clean(10*time.Minute)); diff != "" {
		t.Error(diff)
	}
	left, err := d.Tasks()
	if diff := cmp.Diff([]record.TaskID{back.ID, live.ID, open.ID}, left); diff != "" || err != nil {
		t.Error(diff, err)
	}
	names, _ := d.opts.FS.List(d.Path())
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, trashPrefix) }) {
		t.Error(names)
	}
}

func TestRegistryChanges(t *testing.T) {
	data := func(t failer, s *TaskState) {
		apply(t, s, &Unit{Writes: append(writes(0, "a", "counts"), writes(1, "a", "names")...), Changelog: []StoreOffset{{0, 5}}})
	}
	for _, c := range []struct {
		name   string
		change func(*TaskSpec)
		want   map[string]StoreChange
		// has is what the stores of the new spec hold; stored is whether the first has an offset.
		has    []string
		stored bool
	}{
		{"nothing", func(*TaskSpec) {}, map[string]StoreChange{}, []string{"counts", "names"}, true},
		{"order", func(s *TaskSpec) { slices.Reverse(s.Stores) }, map[string]StoreChange{}, []string{"names", "counts"}, false},
		{"added", func(s *TaskSpec) { s.Stores = append([]StoreSpec{{Name: "new"}}, s.Stores...) },
			map[string]StoreChange{"new": StoreAdded}, []string{"", "counts", "names"}, false},
		{"removed", func(s *TaskSpec) { s.Stores = s.Stores[:1] }, map[string]StoreChange{"names": StoreRemoved}, []string{"counts"}, true},
		{"renamed, changelog kept", func(s *TaskSpec) { s.Stores[0].Name = "totals" },
			map[string]StoreChange{"totals": StoreRenamed}, []string{"counts", "names"}, true},
		{"renamed, without a changelog", func(s *TaskSpec) { s.Stores[1].Name = "labels" },
			map[string]StoreChange{"labels": StoreAdded, "names": StoreRemoved}, []string{"counts", ""}, true},
		{"names exchanged", func(s *TaskSpec) { s.Stores[0].Name, s.Stores[1].Name = "names", "counts" },
			map[string]StoreChange{"names": StoreReset, "counts": StoreReset}, []string{"", ""}, false},
		{"kind", func(s *TaskSpec) { s.Stores[0].Kind = "window" }, map[string]StoreChange{"counts": StoreReset}, []string{"", "names"}, false},
		{"key codec", func(s *TaskSpec) { s.Stores[0].KeyCodec = "x" }, map[string]StoreChange{"counts": StoreReset}, []string{"", "names"}, false},
		{"value codec", func(s *TaskSpec) { s.Stores[1].ValueCodec = "x" }, map[string]StoreChange{"names": StoreReset}, []string{"counts", ""}, true},
		{"changelog", func(s *TaskSpec) { s.Stores[0].Changelog = "x" }, map[string]StoreChange{"counts": StoreReset}, []string{"", "names"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			d := openDir(t, fs)
			s, _ := openTask(t, d, testSpec())
			data(t, s)
			closeDir(t, d)
			spec := testSpec()
			c.change(&spec)
			for round := range 2 { // the second opening finds nothing to do
				d = openDir(t, fs)
				s, report := openTask(t, d, spec)
				want := c.want
				if round == 1 {
					want = map[string]StoreChange{}
				}
				if diff := cmp.Diff(want, report.Changes); diff != "" || report.Reason != Usable {
					t.Error(report, diff)
				}
				for i, v := range c.has {
					if got := content(t, s, i)["a"]; got != v {
						t.Errorf("store %d has %q, want %q", i, got, v)
					}
				}
				if _, ok := s.Offset(0); ok != c.stored {
					t.Errorf("offset stored: %v", ok)
				}
				if err := s.Check(); err != nil {
					t.Error(err)
				}
				closeDir(t, d)
			}
		})
	}
}

func TestStateOfAnotherClusterOrTopicIsMovedAside(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*TaskSpec)
		want   AsideReason
	}{
		{"cluster", func(s *TaskSpec) { s.ClusterID = "other" }, OtherCluster},
		{"topic", func(s *TaskSpec) { s.Stores[0].TopicID = "t2" }, OtherTopic},
		{"unknown cluster", func(s *TaskSpec) { s.ClusterID = "" }, 0},
		{"unknown topic", func(s *TaskSpec) { s.Stores[0].TopicID = "" }, 0},
	} {
		fs := vfs.NewMem()
		for round := range 3 {
			d := openDir(t, fs)
			spec := testSpec()
			if round == 1 {
				c.change(&spec)
			}
			s, report := openTask(t, d, spec)
			if round == 1 && (report.Why != c.want || report.MovedAside() != (c.want != 0)) {
				t.Error(c.name, report)
			}
			if got := len(content(t, s, 0)); (got == 0) != (round == 0 || c.want != 0) {
				t.Errorf("%s: %d entries in round %d", c.name, got, round)
			}
			if round == 0 {
				apply(t, s, &Unit{Writes: writes(0, "a", "1")})
			}
			closeDir(t, d)
		}
		names, _ := fs.List("state/app/1_3")
		if c.want != 0 && len(names) > 2 {
			t.Error("more than one copy aside:", names)
		}
	}
}

func TestNewerFormatIsAnErrorAndTouchesNothing(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs)
	s, _ := openTask(t, d, testSpec())
	if err := s.engine.db.Set(keyRegistry, []byte(`{"format":2,"stores":"who knows"}`), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	s.dirty.Store(true)
	closeDir(t, d)
	d = openDir(t, fs)
	defer closeDir(t, d)
	_, report, err := d.OpenTask(testSpec())
	var fe *FormatError
	if !errors.As(err, &fe) || fe.Found != 2 || report.MovedAside() {
		t.Fatal(report, err)
	}
	if _, err := fs.Stat(fs.PathJoin(d.Path(), "1_3", "1")); err != nil {
		t.Error(err)
	}
}

// damageTables changes bytes in, or removes, every table of a task.
func damageTables(t *testing.T, fs *vfs.MemFS, how string) {
	t.Helper()
	dir := "state/app/1_3/1"
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		path := fs.PathJoin(dir, name)
		b := slices.Clone(readAll(t, fs, path))
		switch how {
		case "removed":
			err = fs.Remove(path)
		case "truncated":
			err = writeFile(fs, path, b[:len(b)/2])
		case "flipped":
			for i := 40; i < 60; i++ {
				b[i] ^= 0xff
			}
			err = writeFile(fs, path, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func readAll(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDamagedTablesAreMovedAsideAndNeverRead(t *testing.T) {
	for _, how := range []string{"removed", "truncated", "flipped"} {
		t.Run(how, func(t *testing.T) {
			mem := vfs.NewMem()
			d := openDir(t, mem)
			s, _ := openTask(t, d, testSpec())
			var pairs []string
			for i := range 5000 {
				pairs = append(pairs, "key"+string(rune('a'+i/26/26%26))+string(rune('a'+i/26%26))+string(rune('a'+i%26)), strings.Repeat("v", 50))
			}
			apply(t, s, &Unit{Writes: writes(0, pairs...), Changelog: []StoreOffset{{0, 5000}}})
			closeDir(t, d)
			damageTables(t, mem, how)
			d = openDir(t, mem)
			s, report := openTask(t, d, testSpec())
			if how == "flipped" && !report.MovedAside() {
				readDamaged(t, s)
				closeDir(t, d)
				d = openDir(t, mem)
				s, report = openTask(t, d, testSpec())
			}
			if !report.MovedAside() || report.Aside == "" || !strings.HasSuffix(report.Dir, "2") {
				t.Fatal(report)
			}
			newModel().compare(t, s)
			closeDir(t, d)
			d = openDir(t, mem)
			if _, report = openTask(t, d, testSpec()); report.Reason != Usable {
				t.Error(report)
			}
			closeDir(t, d)
		})
	}
}

// readDamaged finds the damage: an error, at the end of what is right.
func readDamaged(t *testing.T, s *TaskState) {
	t.Helper()
	var last error
	for e, err := range s.Scan(0, nil, nil, false) {
		if last = err; err == nil && string(e.Value) != strings.Repeat("v", 50) {
			t.Fatalf("a wrong value: %q", e.Value)
		}
	}
	var ee *EngineError
	if !errors.As(last, &ee) || !errors.Is(last, ErrCorrupted) {
		t.Fatal(last)
	}
	if err := s.Check(); err == nil {
		t.Error("Check finds nothing")
	}
}

// fullDisk has no space while it is on.
func fullDisk() *errorfs.Toggle {
	return &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpReuseForWrite {
			return &fs.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
		}
		return nil
	})}
}

// The engine's own Close waits for a flush that is under way, and for ever if that flush is the one that shows that the
// engine is dead: its goroutine is parked.
func TestCloseEndsWhenTheEngineDiesInIt(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	var attempts, later atomic.Int64
	blocked, gate := make(chan struct{}), make(chan struct{})
	var on atomic.Bool
	full := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !on.Load() || op.Kind != errorfs.OpCreate {
			return nil
		}
		if attempts.Add(1) == 2 { // the first attempt has failed; the second stands still
			close(blocked)
			<-gate
		}
		return &fs.PathError{Op: "create", Path: op.Path, Err: syscall.ENOSPC}
	})
	d := openDir(t, errorfs.Wrap(vfs.NewMem(), full), func(o *DirectoryOptions) {
		o.ErrorPatience, o.FlushInterval, o.SpaceRetry = time.Hour, time.Nanosecond, -1
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	s, _ := openTask(t, d, testSpec())
	on.Store(true)
	apply(t, s, &Unit{Writes: writes(0, "a", "1"), Changelog: []StoreOffset{{0, 1}}}) // starts a flush
	<-blocked
	ended := make(chan error, 1)
	go func() { ended <- s.Close() }()
	<-s.Closed()
	for range 10_000 {
		runtime.Gosched() // into the engine's Close
	}
	later.Store(int64(2 * time.Hour))
	close(gate)
	if err := <-ended; !errors.Is(err, ErrDiskFull) {
		t.Error(err)
	}
	on.Store(false)
	s, report := openTask(t, d, testSpec())
	if report.Why != Abandoned {
		t.Error(report)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	closeDir(t, d)
}

// Where it is not waited for, a full disk stops the state with a typed error, ends nothing else, and the task opens again
// when there is space.
func TestFullDiskFailsTheStateAndNothingElse(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	toggle := fullDisk()
	d := openDir(t, errorfs.Wrap(vfs.NewMem(), toggle), func(o *DirectoryOptions) { o.ErrorPatience, o.SpaceRetry = time.Millisecond, -1 })
	s, _ := openTask(t, d, testSpec())
	apply(t, s, &Unit{Writes: writes(0, "a", "1"), Changelog: []StoreOffset{{0, 1}}})
	first := s.Dir()
	toggle.On()
	err := s.Flush()
	var ee *EngineError
	if !errors.As(err, &ee) || !ee.Dead || !errors.Is(err, ErrDiskFull) {
		t.Fatal(err)
	}
	<-s.Failed()
	for name, err := range map[string]error{"apply": s.Apply(&Unit{Writes: writes(0, "b", "1")}), "get": onlyErr(s.Get(0, []byte("a"))), "close": s.Close()} {
		if !errors.Is(err, ErrDiskFull) {
			t.Error(name, err)
		}
	}
	if _, _, err := d.OpenTask(testSpec()); err == nil {
		t.Error("opened on a full disk")
	}
	toggle.Off()
	s, report := openTask(t, d, testSpec())
	if report.Reason != Fresh || s.Dir() == first {
		t.Error(report)
	}
	newModel().compare(t, s)
	closeDir(t, d)
}

// An engine that dies while it is opened says so, and parks its goroutine as it does elsewhere. What is behind it opens in
// another directory as soon as that can be.
func TestOpenEndsWhenTheEngineDiesInIt(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	for name, cause := range map[string]error{"full": syscall.ENOSPC, "broken": syscall.EIO} {
		toggle := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, "MANIFEST") {
				return &fs.PathError{Op: "write", Path: op.Path, Err: cause}
			}
			return nil
		})}
		d := openDir(t, errorfs.Wrap(vfs.NewMem(), toggle))
		toggle.On()
		for range 3 {
			_, _, err := d.OpenTask(testSpec())
			var ee *EngineError
			if !errors.As(err, &ee) || !ee.Dead || !errors.Is(err, cause) || errors.Is(err, ErrDiskFull) != (name == "full") {
				t.Fatal(name, err)
			}
		}
		toggle.Off()
		s, _ := openTask(t, d, testSpec())
		apply(t, s, &Unit{Writes: writes(0, "a", "1"), Changelog: []StoreOffset{{0, 1}}})
		if v, _, ok, err := s.Get(0, []byte("a")); string(v) != "1" || !ok || err != nil {
			t.Error(name, v, ok, err)
		}
		closeDir(t, d)
	}
}

// A disk without room for an empty database is found out before there is an engine that could die.
func TestFullDiskLeavesNoDeadEngines(t *testing.T) {
	toggle := fullDisk()
	d := openDir(t, errorfs.Wrap(vfs.NewMem(), toggle))
	toggle.On()
	for range 5 {
		if _, _, err := d.OpenTask(testSpec()); !errors.Is(err, ErrDiskFull) || isDead(err) {
			t.Fatal(err)
		}
	}
	toggle.Off()
	if s, report := openTask(t, d, testSpec()); report.Reason != Fresh || !strings.HasSuffix(s.Dir(), "/1") {
		t.Error(report)
	}
	closeDir(t, d)
}

func onlyErr(_ []byte, _ int64, _ bool, err error) error { return err }
