package millracetest

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
)

var backlogSpec = store.TaskSpec{Stores: []store.StoreSpec{
	{Name: "rows", Kind: "key-value", Changelog: "rows"},
	{Name: "memory", Kind: "key-value", Changelog: "memory", InMemory: true},
	{Name: "windows", Kind: "window", Changelog: "windows", Retention: time.Minute},
}}

// rig is a state on a disk of its own.
type rig struct {
	fs    *vfs.MemFS
	dir   *store.Directory
	state *store.TaskState
}

// newRig is closed when the test ends.
func newRig(tb TB) *rig {
	tb.Helper()
	r := &rig{fs: memory()}
	r.open(tb)
	tb.Cleanup(func() { r.close(tb) })
	return r
}

func (r *rig) open(tb TB) {
	tb.Helper()
	var err error
	if r.dir, err = store.OpenDirectory(root, "app", store.DirectoryOptions{FS: r.fs, Now: func() time.Time { return time.UnixMilli(0) }}); err != nil {
		tb.Fatalf("%v", err)
	}
	if r.state, _, err = r.dir.OpenTask(backlogSpec); err != nil {
		tb.Fatalf("%v", err)
	}
}

func (r *rig) close(tb TB) {
	tb.Helper()
	if r.dir == nil {
		return
	}
	if err := errors.Join(r.state.Close(), r.dir.Close()); err != nil {
		tb.Fatalf("%v", err)
	}
	r.dir = nil
}

// seen is everything that a state says.
type seen struct {
	rows     []store.Entry
	times    []int64
	offsets  []int64
	position record.Position
	clock    int64
}

func (r *rig) seen(tb TB) (s seen) {
	tb.Helper()
	for i := range backlogSpec.Stores {
		for e, err := range r.state.Scan(i, nil, nil, false) {
			if err != nil {
				tb.Fatalf("%v", err)
			}
			if _, at, _, ok := record.SplitWindowKey(e.Key); i == 2 && ok && at < r.state.LiveFrom(i) {
				continue // when it goes from the disk depends on how often it is written; nobody is shown it
			}
			s.rows = append(s.rows, store.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value), Timestamp: e.Timestamp})
		}
		next, _ := r.state.Offset(i)
		s.offsets, s.times = append(s.offsets, next), append(s.times, r.state.Time(i))
	}
	s.position, s.clock = r.state.Position(), r.state.WallClock()
	return s
}

func (s seen) equal(o seen) bool {
	return slices.EqualFunc(s.rows, o.rows, func(a, b store.Entry) bool {
		return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil) && a.Timestamp == b.Timestamp
	}) && slices.Equal(s.times, o.times) && slices.Equal(s.offsets, o.offsets) && maps.Equal(s.position, o.position) && s.clock == o.clock
}

// drawUnit draws what a commit may change: deletions, empty keys and values, timestamps that go back, windows that expire, stores
// that rest.
func drawUnit(t *rapid.T, clock int64, next int64) *store.Unit {
	u := &store.Unit{WallClock: clock, Position: record.Position{{Topic: "in", Partition: rapid.Int32Range(0, 1).Draw(t, "source")}: next}}
	for i := range backlogSpec.Stores {
		keys := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"", "a", "b", "c"}), 0, 3, rapid.ID).Draw(t, "keys")
		slices.Sort(keys)
		for _, key := range keys {
			w := store.Write{Store: i, Key: []byte(key), Timestamp: rapid.Int64Range(0, 9).Draw(t, "timestamp")}
			if i == 2 {
				w.Timestamp += rapid.SampledFrom([]int64{0, 0, 0, 59_990, 200_000, 1_000_000}).Draw(t, "later")
				w.Key = record.AppendWindowSuffix(w.Key, w.Timestamp, 0)
			}
			if size := rapid.IntRange(-1, 40).Draw(t, "size"); size >= 0 {
				w.Value = bytes.Repeat([]byte{byte(next)}, size)
			}
			u.Writes = append(u.Writes, w)
		}
		if len(keys) > 0 {
			u.Changelog = append(u.Changelog, store.StoreOffset{Store: i, Next: next})
		}
	}
	slices.SortFunc(u.Writes, func(a, b store.Write) int { return cmp.Or(cmp.Compare(a.Store, b.Store), bytes.Compare(a.Key, b.Key)) })
	return u
}

// A state behind a backlog is, whenever somebody looks, the one that the same units have made one by one, and so is what its
// close leaves on the disk.
func TestBacklogIsTheStateOfItsUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, behind := newRig(t), newRig(t)
		b := newBacklog(behind.state)
		clock := int64(0)
		for next := range rapid.Int64Range(1, 12).Draw(t, "units") {
			u := drawUnit(t, clock, next+1)
			if err := errors.Join(one.state.Apply(u), b.add(u)); err != nil {
				t.Fatalf("%v", err)
			}
			clear(u.Writes) // it is the task's again
			switch rapid.IntRange(0, 3).Draw(t, "then") {
			case 0:
				if b.Time(0); !behind.seen(t).equal(one.seen(t)) {
					t.Fatalf("%+v\nwant %+v", behind.seen(t), one.seen(t))
				}
			case 1:
				clock++
			}
		}
		if err := b.look(); err != nil {
			t.Fatalf("%v", err)
		}
		for _, r := range []*rig{one, behind} {
			r.close(t)
			r.open(t)
		}
		if !behind.seen(t).equal(one.seen(t)) {
			t.Fatalf("after a restart: %+v\nwant %+v", behind.seen(t), one.seen(t))
		}
	})
}

// Every way to read the state meets what waits: that is what makes it a state.
func TestBacklogIsMetByEveryRead(t *testing.T) {
	key, tp := []byte("k"), record.TopicPartition{Topic: "in"}
	for name, read := range map[string]func(*backlog) bool{
		"Get":      func(b *backlog) bool { v, _, _, err := b.Get(0, key); return err == nil && string(v) == "2" },
		"Time":     func(b *backlog) bool { return b.Time(0) == 2 },
		"Position": func(b *backlog) bool { return b.Position()[tp] == 2 },
		"Scan": func(b *backlog) bool {
			for e, err := range b.Scan(0, nil, nil, false) {
				return err == nil && string(e.Value) == "2"
			}
			return false
		},
	} {
		r := newRig(t)
		b := newBacklog(r.state)
		for i, value := range []string{"1", "2"} {
			at := int64(i) + 1
			u := &store.Unit{Writes: []store.Write{{Key: key, Value: []byte(value), Timestamp: at}}, Position: record.Position{tp: at}}
			if err := b.add(u); err != nil {
				t.Fatal(err)
			}
		}
		if at := r.state.Position()[tp]; at != 1 {
			t.Errorf("%s: the engine is at %d: the first unit of a time is written at once, the second waits", name, at)
		}
		if !read(b) {
			t.Errorf("%s does not see the last commit", name)
		}
	}
}

// A backlog is bounded, by keys and by bytes.
func TestBacklogIsWrittenWhenThereIsMuch(t *testing.T) {
	for name, value := range map[string][]byte{"keys": {}, "bytes": make([]byte, backlogBytes/10)} {
		r := newRig(t)
		b := newBacklog(r.state)
		tp := record.TopicPartition{Topic: "in"}
		most := int64(0)
		for next := range int64(2*backlogKeys + 2) {
			w := store.Write{Key: []byte{byte(next >> 8), byte(next)}, Value: value}
			if err := b.add(&store.Unit{Writes: []store.Write{w}, Position: record.Position{tp: next}}); err != nil {
				t.Fatal(err)
			}
			most = max(most, next-r.state.Position()[tp])
			if len(value) > 0 && next > 30 {
				break
			}
		}
		if want := map[string]int64{"keys": backlogKeys - 1, "bytes": 9}[name]; most != want {
			t.Errorf("%s: up to %d units have waited, want %d", name, most, want)
		}
	}
}

// What cannot be written is an error of whoever comes next, and never an answer from before.
func TestBacklogThatCannotBeWrittenFailsItsReaders(t *testing.T) {
	r := newRig(t)
	b := newBacklog(r.state)
	for range 2 {
		if err := b.add(&store.Unit{Writes: []store.Write{{Key: []byte("k"), Value: []byte("v")}}}); err != nil {
			t.Fatal(err)
		}
	}
	r.close(t)
	if _, _, _, err := b.Get(0, []byte("k")); !errors.Is(err, store.ErrStateStoreClosed) {
		t.Errorf("Get: %v", err)
	}
	for _, err := range b.Scan(0, nil, nil, false) {
		if !errors.Is(err, store.ErrStateStoreClosed) {
			t.Errorf("Scan: %v", err)
		}
	}
	if err := b.add(&store.Unit{}); !errors.Is(err, store.ErrStateStoreClosed) {
		t.Errorf("add: %v", err)
	}
}
