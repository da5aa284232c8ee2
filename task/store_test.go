package task_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/topology"
)

// The changelog has each key once, sorted, as Kafka Streams writes it; the last record carries the position.
func TestChangelog(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	cfg := config(s, state, out)
	cfg.Stores[1].Changelog = record.TopicPartition{}
	k := start(t, cfg)
	k.Add(batch(tp("in", 0), 0, 5))
	if _, err := k.Process(now, 1); err != nil {
		t.Fatal(err)
	}
	within(t, k, s, func() {
		put(t, s, "s0", "b", "1", 3)
		put(t, s, "s0", "b", "2", 4)
		put(t, s, "s0", "a", "", -1)
		c, _ := s.host.Store("s0").Cell([]byte("gone"))
		if err := s.host.Store("s0").Set(c, nil, 6); err != nil {
			t.Error(err)
		}
		put(t, s, "s1", "x", "no changelog", 1)
	})
	u := commit(t, k, state)
	position := record.EncodePosition(record.Position{tp("in", 0): 1})
	want := map[record.TopicPartition][]record.Raw{tp("s0-changelog", 0): {
		{Key: []byte("a"), Value: []byte{}, Timestamp: 0},
		{Key: []byte("b"), Value: []byte("2"), Timestamp: 4, Offset: 1},
		{Key: []byte("gone"), Timestamp: 6, Offset: 2, Headers: record.Headers{{Key: record.PositionHeader, Value: position}}},
	}}
	if diff := cmp.Diff(want, out.Log); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(u.Changelogs, []int{0}) || u.WallClock != now.UnixMilli() {
		t.Error(u.Changelogs, u.WallClock)
	}
	within(t, k, s, func() { put(t, s, "s1", "x", "again", 2) })
	if u := commit(t, k, state); len(u.Changelogs) != 0 || len(out.Log) != 1 {
		t.Errorf("a store without changelog: %v", u.Changelogs)
	}
}

// A hot key is read from the engine once, an absent one too; without room, each time.
func TestCache(t *testing.T) {
	for _, row := range []struct {
		bytes int64
		gets  int
	}{{1 << 20, 2}, {0, 6}} {
		s := &script{}
		state, out := newPorts()
		state.Put(0, "hot", []byte("v"), 1)
		cfg := config(s, state, out)
		cfg.CacheBytes = row.bytes
		k := start(t, cfg)
		for range 3 {
			within(t, k, s, func() {
				for range 4 {
					for _, key := range []string{"hot", "absent"} {
						if c, err := s.host.Store("s0").Cell([]byte(key)); err != nil || c.Present != (key == "hot") {
							t.Error(c, err)
						}
					}
				}
			})
			commit(t, k, state)
		}
		if state.Gets != row.gets {
			t.Errorf("with %d bytes: %d reads of the engine, want %d", row.bytes, state.Gets, row.gets)
		}
	}
}

// A scan over everything does not fill the memory, and a cell that is asked for again outlives those that are not.
func TestCacheKeepsWhatIsUsed(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	keys := benchKeys(2_000)
	for _, key := range keys {
		state.Put(0, string(key), []byte("v"), 1)
	}
	cfg := config(s, state, out)
	cfg.CacheBytes = 100 << 10 // some 400 cells
	k := start(t, cfg)
	touch := func(key []byte) {
		within(t, k, s, func() {
			if _, err := s.host.Store("s0").Cell(key); err != nil {
				t.Error(err)
			}
		})
	}
	for i, key := range keys {
		touch(key)
		if i%50 == 0 {
			touch(keys[0])
		}
	}
	within(t, k, s, func() {
		n := 0
		for _, err := range s.host.Store("s0").Range(nil, nil, false) {
			if err != nil {
				t.Error(err)
			}
			n++
		}
		if n != len(keys) {
			t.Errorf("%d rows", n)
		}
	})
	state.Gets = 0
	touch(keys[0])
	if state.Gets != 0 {
		t.Error("the key that is always used was evicted")
	}
	for _, key := range keys[1:1_000] {
		touch(key)
	}
	if state.Gets != 999 {
		t.Errorf("%d of 999 old keys were read again", state.Gets)
	}
}

// What is Set while Changed runs comes with the next call, also when that is in the next flush.
func TestChangedInAFlush(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	cfg := config(s, state, out)
	cfg.CacheBytes = 0
	k := start(t, cfg)
	within(t, k, s, func() { put(t, s, "s0", "first", "v", 1) })
	var got []string
	s.flush = func() error {
		return s.host.Store("s0").Changed(func(c *topology.Cell) error {
			got = append(got, c.Key)
			if c.Key == "first" {
				put(t, s, "s0", "second", "v", 1)
			}
			return nil
		})
	}
	for range 3 {
		commit(t, k, state)
		if err := k.Punctuate(now); err != nil { // evicts
			t.Fatal(err)
		}
		if err := task.Audit(k); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"first", "second"}, got); diff != "" {
		t.Error(diff)
	}
	if _, ok := state.Stores[0]["second"]; !ok {
		t.Error("what a flush Sets belongs to the commit")
	}
}

func TestUncommittedFollowsTheActiveGeneration(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	k := start(t, config(s, state, out))
	within(t, k, s, func() { put(t, s, "s0", "k", "12345", 1) })
	one := k.Uncommitted()
	within(t, k, s, func() { put(t, s, "s0", "k", "1234567", 1) })
	if got := k.Uncommitted(); one <= 5 || got != one+2 {
		t.Errorf("%d, then %d", one, got)
	}
	u, err := k.Prepare(now)
	if err != nil || k.Uncommitted() != 0 {
		t.Fatal(err, k.Uncommitted())
	}
	within(t, k, s, func() { put(t, s, "s0", "k", "12345", 1) })
	if k.Uncommitted() != one {
		t.Errorf("the next generation: %d, want %d", k.Uncommitted(), one)
	}
	k.Committed(u)
	state.Apply(u)
	k.Applied(u)
	if k.Uncommitted() != one {
		t.Errorf("after Applied: %d, want %d", k.Uncommitted(), one)
	}
}

// After a Rewind a task reads from the state that it is given.
func TestAttach(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	state.Put(0, "k", []byte("old"), 1)
	k := start(t, config(s, state, out))
	read := func() (value string) {
		within(t, k, s, func() {
			c, err := s.host.Store("s0").Cell([]byte("k"))
			if err != nil {
				t.Fatal(err)
			}
			value = string(c.Value)
		})
		return value
	}
	if got := read(); got != "old" {
		t.Fatal(got)
	}
	at := k.Rewind()
	fresh := tasktest.NewState(2)
	fresh.Put(0, "k", []byte("new"), 1)
	k.Attach(fresh)
	if err := k.Start(now, at); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "new" {
		t.Error(got)
	}
}

// A function that fails in the middle of Changed, or panics, loses no cell: those behind it come with the next call, and so
// does what it Set before it failed.
func TestChangedThatFailsKeepsTheRest(t *testing.T) {
	for _, fail := range []func() error{func() error { return errUser }, func() error { panic(errUser) }} {
		for _, sets := range []bool{false, true} {
			s := &script{}
			state, out := newPorts()
			k := start(t, config(s, state, out))
			within(t, k, s, func() {
				for _, key := range []string{"a", "b", "c", "d"} {
					put(t, s, "s0", key, "v", 1)
				}
			})
			var got []string
			within(t, k, s, func() {
				defer func() { _ = recover() }()
				_ = s.host.Store("s0").Changed(func(c *topology.Cell) error {
					if got = append(got, c.Key); c.Key != "b" {
						return nil
					}
					if sets {
						put(t, s, "s0", "e", "v", 1)
					}
					return fail()
				})
			})
			if err := task.Audit(k); err != nil {
				t.Fatal(err)
			}
			within(t, k, s, func() {
				_ = s.host.Store("s0").Changed(func(c *topology.Cell) error {
					got = append(got, c.Key)
					return nil
				})
			})
			want := []string{"a", "b", "c", "d"}
			if sets {
				want = []string{"a", "b", "e", "c", "d"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
	}
}
