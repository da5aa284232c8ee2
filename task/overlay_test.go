package task_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/topology"
)

// overlayModel is two stores as nested maps: what a processor must see now, and what the engine has.
type overlayModel struct {
	t       *rapid.T
	task    *task.Task
	script  *script
	state   *tasktest.State
	out     *tasktest.Producer
	now     []map[string]tasktest.Row
	changed []map[string]bool
	unit    *task.Unit
	frozen  []map[string]tasktest.Row // by key, what the unit must hold; a nil Value deletes
	dirty   []map[string]bool
	// fresh are the changed keys that were absent before, born the dirty ones.
	fresh, born []map[string]bool
	applied     bool
	clock       int64
}

// Keys with a shared prefix, with zeros behind others, longer than eight bytes, and the empty one.
var overlayKeys = []string{"", "a", "a\x00", "a\x00\x00", "b", "user-00000001", "user-00000001x", "user-00000002", "user-0000000100", "zz"}

func newOverlayModel(t *rapid.T) *overlayModel {
	m := &overlayModel{t: t, script: &script{}, clock: 7}
	m.state, m.out = newPorts()
	for s := range m.state.Stores {
		for _, k := range overlayKeys[:rapid.IntRange(0, len(overlayKeys)).Draw(t, "old")] {
			m.state.Put(s, k, []byte("old-"+k), 7)
		}
	}
	cfg := config(m.script, m.state, m.out)
	cfg.CacheBytes = rapid.SampledFrom([]int64{0, 700, 1500, 4000, 1 << 20}).Draw(t, "cache")
	k, err := task.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.task = k
	k.Restoring()
	m.start(broker.Offsets{tp("in", 0): {}})
	return m
}

func (m *overlayModel) start(at broker.Offsets) {
	if err := m.task.Start(now, at); err != nil {
		m.t.Fatal(err)
	}
	m.now, m.changed, m.dirty, m.fresh, m.born = nil, nil, nil, nil, nil
	for _, s := range m.state.Stores {
		m.now = append(m.now, maps.Clone(s))
		m.changed = append(m.changed, map[string]bool{})
		m.dirty = append(m.dirty, map[string]bool{})
		m.fresh = append(m.fresh, map[string]bool{})
		m.born = append(m.born, map[string]bool{})
	}
	m.unit, m.frozen = nil, nil
}

func (m *overlayModel) store(s int) topology.StateStore {
	return m.script.host.Store(fmt.Sprintf("s%d", s))
}

func (m *overlayModel) drawStore() int { return rapid.IntRange(0, 1).Draw(m.t, "store") }
func (m *overlayModel) drawKey() string {
	return rapid.SampledFrom(overlayKeys).Draw(m.t, "key")
}

func (m *overlayModel) drawValue() []byte {
	n := rapid.SampledFrom([]int{-1, 0, 1, 8, 24, 25, 100, 5_000}).Draw(m.t, "length")
	if n < 0 {
		return nil
	}
	return bytes.Repeat([]byte{byte('A' + m.clock%26)}, n)
}

// inside runs f as a processor. Panics are how rapid ends a run, so they are carried around the task, which would catch
// them.
func (m *overlayModel) inside(f func()) {
	var thrown any
	m.script.punctuate = func(int64, int64) error {
		defer func() { thrown = recover() }()
		f()
		return nil
	}
	if err := m.task.Punctuate(now); err != nil {
		m.t.Fatal(err)
	}
	if thrown != nil {
		panic(thrown)
	}
}

func (m *overlayModel) cell(s int, key string) *topology.Cell {
	scratch := []byte(key)
	c, err := m.store(s).Cell(scratch)
	if err != nil {
		m.t.Fatal(err)
	}
	for i := range scratch { // a store that kept it would now be wrong
		scratch[i] = '!'
	}
	m.check(s, key, c)
	return c
}

// check compares a cell with the model.
func (m *overlayModel) check(s int, key string, c *topology.Cell) {
	row, ok := m.now[s][key]
	if c.Key != key || c.Present != ok || (c.Value == nil) == ok || !bytes.Equal(c.Value, row.Value) || ok && c.Timestamp != row.Timestamp {
		m.t.Fatalf("store %d key %q: cell %q present %v value %q @%d, model %v %q @%d", s, key, c.Key, c.Present, c.Value, c.Timestamp, ok, row.Value, row.Timestamp)
	}
}

func (m *overlayModel) set(s int, c *topology.Cell) {
	m.clock++
	value := m.drawValue()
	_, was := m.now[s][c.Key]
	if comes := !was && value != nil; !m.changed[s][c.Key] {
		m.fresh[s][c.Key] = comes
	}
	if comes := !was && value != nil; !m.dirty[s][c.Key] {
		m.born[s][c.Key] = comes
	}
	scratch := slices.Clone(value)
	if err := m.store(s).Set(c, scratch, m.clock); err != nil {
		m.t.Fatal(err)
	}
	for i := range scratch {
		scratch[i] = '!'
	}
	if value == nil {
		delete(m.now[s], c.Key)
	} else {
		m.now[s][c.Key] = tasktest.Row{Value: value, Timestamp: m.clock}
	}
	m.changed[s][c.Key], m.dirty[s][c.Key] = true, true
	m.check(s, c.Key, c)
	if got := m.store(s).Time(); got != m.clock {
		m.t.Fatalf("time %d, want %d", got, m.clock)
	}
}

// left are the keys that did not come and go.
func (m *overlayModel) left(s int, keys, came []map[string]bool) map[string]bool {
	left := map[string]bool{}
	for k := range keys[s] {
		if _, there := m.now[s][k]; there || !came[s][k] {
			left[k] = true
		}
	}
	return left
}

// Set asks for several cells, holds them, and Sets some, in any order.
func (m *overlayModel) Set(*rapid.T) {
	m.inside(func() {
		s := m.drawStore()
		var cells []*topology.Cell
		for range rapid.IntRange(1, 5).Draw(m.t, "cells") {
			cells = append(cells, m.cell(s, m.drawKey()))
		}
		for _, c := range cells {
			if rapid.Bool().Draw(m.t, "set") {
				m.set(s, c)
			}
		}
		for _, c := range cells {
			m.check(s, c.Key, c)
		}
	})
}

// Range walks, and Sets the cell that it is given, or another, while it does.
func (m *overlayModel) Range(*rapid.T) {
	s := m.drawStore()
	var from, to []byte
	if rapid.Bool().Draw(m.t, "from") {
		from = []byte(m.drawKey())
	}
	if rapid.Bool().Draw(m.t, "to") {
		to = []byte(m.drawKey())
	}
	reverse := rapid.Bool().Draw(m.t, "reverse")
	stop := rapid.IntRange(0, 20).Draw(m.t, "stop")
	m.inside(func() { m.walk(s, from, to, reverse, stop) })
}

func (m *overlayModel) walk(s int, from, to []byte, reverse bool, stop int) {
	must := map[string]bool{} // present from beginning to end
	for k := range m.now[s] {
		if (from == nil || k >= string(from)) && (to == nil || k <= string(to)) {
			must[k] = true
		}
	}
	last, first := "", true
	for c, err := range m.store(s).Range(from, to, reverse) {
		if err != nil {
			m.t.Fatal(err)
		}
		if !first && (c.Key <= last) != reverse || !first && c.Key == last {
			m.t.Fatalf("range gave %q after %q, reverse %v", c.Key, last, reverse)
		}
		if from != nil && c.Key < string(from) || to != nil && c.Key > string(to) {
			m.t.Fatalf("range gave %q outside [%q,%q]", c.Key, from, to)
		}
		m.check(s, c.Key, c)
		last, first = c.Key, false
		delete(must, c.Key)
		if stop--; stop == 0 {
			return
		}
		m.setInWalk(s, c)
		for k := range must {
			if _, ok := m.now[s][k]; !ok {
				delete(must, k)
			}
		}
	}
	if len(must) > 0 {
		m.t.Fatalf("range [%q,%q] reverse %v left out %q", from, to, reverse, slices.Sorted(maps.Keys(must)))
	}
}

func (m *overlayModel) setInWalk(s int, c *topology.Cell) {
	switch rapid.IntRange(0, 3).Draw(m.t, "in walk") {
	case 1:
		m.set(s, c)
	case 2:
		m.set(s, m.cell(s, m.drawKey()))
	case 3: // two ways to one key
		m.set(s, m.cell(s, c.Key))
		m.set(s, c)
		m.cell(s, c.Key)
	}
}

// Changed gives every cell that was Set, once, as it is now.
func (m *overlayModel) Changed(*rapid.T) {
	m.inside(func() {
		s := m.drawStore()
		got := map[string]bool{}
		err := m.store(s).Changed(func(c *topology.Cell) error {
			if got[c.Key] {
				m.t.Fatalf("%q twice", c.Key)
			}
			got[c.Key] = true
			m.check(s, c.Key, c)
			return nil
		})
		if err != nil {
			m.t.Fatal(err)
		}
		if diff := cmp.Diff(m.left(s, m.changed, m.fresh), got); diff != "" {
			m.t.Fatalf("changed: %s", diff)
		}
		m.changed[s] = map[string]bool{}
	})
}

// Prepare freezes. The unit must hold what was Set since the last one, sorted, whatever happens to the cells later.
func (m *overlayModel) Prepare(*rapid.T) {
	if m.unit != nil {
		if _, err := m.task.Prepare(now); !errors.Is(err, task.ErrCommitUnderWay) {
			m.t.Fatalf("second Prepare: %v", err)
		}
		return
	}
	u, err := m.task.Prepare(now)
	if err != nil {
		m.t.Fatal(err)
	}
	m.unit, m.applied, m.frozen = u, false, nil
	for s := range m.dirty {
		f := map[string]tasktest.Row{}
		for k := range m.left(s, m.dirty, m.born) {
			f[k] = m.now[s][k]
		}
		m.frozen = append(m.frozen, f)
		m.dirty[s], m.changed[s] = map[string]bool{}, map[string]bool{} // nobody asked in the flush
	}
	if m.task.Uncommitted() != 0 || m.task.NeedsCommit() {
		m.t.Fatal("something is uncommitted right after Prepare")
	}
}

// Apply is the engine's write, which may come long before the task hears of it.
func (m *overlayModel) Apply(*rapid.T) {
	if m.unit == nil || m.applied {
		return
	}
	m.task.Committed(m.unit)
	m.applied = true
	got := []map[string]tasktest.Row{{}, {}}
	for i, w := range m.unit.Writes {
		if i > 0 && (w.Store < m.unit.Writes[i-1].Store || w.Store == m.unit.Writes[i-1].Store && string(w.Key) <= string(m.unit.Writes[i-1].Key)) {
			m.t.Fatalf("writes are not sorted: %q behind %q", w.Key, m.unit.Writes[i-1].Key)
		}
		row := tasktest.Row{Value: w.Value}
		if w.Value != nil {
			row.Timestamp = w.Timestamp
		}
		got[w.Store][string(w.Key)] = row
	}
	if diff := cmp.Diff(m.frozen, got); diff != "" {
		m.t.Fatalf("unit: %s", diff)
	}
	m.state.Apply(m.unit)
}

// Applied tells the task.
func (m *overlayModel) Applied(*rapid.T) {
	if m.unit == nil || !m.applied {
		return
	}
	m.task.Applied(m.unit)
	m.unit = nil
	for s, name := range []string{"s0-changelog", "s1-changelog"} {
		if len(m.out.Log[tp(name, 0)]) == 0 {
			continue
		}
		for k, row := range m.out.Compacted(tp(name, 0)) {
			if !bytes.Equal(m.state.Stores[s][k].Value, row.Value) {
				m.t.Fatalf("changelog of %d has %q for %q, the state %q", s, row.Value, k, m.state.Stores[s][k].Value)
			}
		}
	}
}

// Rewind aborts: both generations are gone.
func (m *overlayModel) Rewind(*rapid.T) {
	late := m.unit
	if !m.applied {
		m.out.Log = map[record.TopicPartition][]record.Raw{} // an aborted transaction's changelog records are not seen
	}
	at := m.task.Rewind()
	m.start(at)
	if late != nil {
		m.task.Applied(late) // an answer that was on its way
	}
}

// Check reads everything.
func (m *overlayModel) Check(*rapid.T) {
	m.inside(func() {
		for s := range m.now {
			for _, k := range overlayKeys {
				m.cell(s, k)
			}
		}
	})
}

// Audit checks the task's own accounts.
func (m *overlayModel) Audit(*rapid.T) {
	if err := task.Audit(m.task); err != nil {
		m.t.Fatal(err)
	}
}

// TestOverlayIsAMap drives two stores of a task at random: reads, writes, ranges that write, freeze, apply, abort,
// evictions of every cell. The model is a map.
func TestOverlayIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newOverlayModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"Set": m.Set, "Set2": m.Set, "Range": m.Range, "Changed": m.Changed, "Prepare": m.Prepare, "Apply": m.Apply,
			"Applied": m.Applied, "Rewind": m.Rewind, "Check": m.Check, "": m.Audit,
		})
	})
}

// asking is a task whose one store gives the cell of each record's key, and puts a value into it if it is absent.
type asking struct {
	*testing.T
	state  *tasktest.State
	task   *task.Task
	script *script
	// present is what was found of the last key.
	present bool
	key     string
	next    int64
}

func newAsking(t *testing.T, cacheBytes int64) *asking {
	a := &asking{T: t}
	state, out := newPorts()
	s := &script{}
	s.process = func(_ string, r *record.Raw) error {
		c, err := s.host.Store("s0").Cell([]byte(a.key))
		if err != nil {
			return err
		}
		if a.present = c.Present; !a.present {
			return s.host.Store("s0").Set(c, []byte("v"), 1)
		}
		return nil
	}
	cfg := config(s, state, out)
	cfg.CacheBytes = cacheBytes
	a.state, a.task, a.script = state, start(t, cfg), s
	return a
}

// ask has a record of key processed.
func (a *asking) ask(key string) (present bool, err error) {
	a.key = key
	a.task.Add(batch(tp("in", 0), a.next, a.next+1, 5))
	a.next++
	_, err = a.task.Process(now, 1)
	return a.present, err
}

func (a *asking) commit() {
	u, err := a.task.Prepare(now)
	if err != nil {
		a.Fatal(err)
	}
	a.task.Committed(u)
	a.state.Apply(u)
	a.task.Applied(u)
}

// A store that was empty when the task started is not searched for keys that have no cell; with no memory for what was
// evicted, until a present one was.
func TestEmptyStoreIsNotSearched(t *testing.T) {
	a := newAsking(t, 0)
	a.state.Err = io.ErrUnexpectedEOF // for who asks
	if present, err := a.ask("a"); present || err != nil {
		t.Fatal(present, err)
	}
	a.commit()
	a.state.Err = nil
	if present, err := a.ask("a"); !present || err != nil {
		t.Fatal("a row that was evicted is lost", err)
	}
	if a.state.Gets != 1 {
		t.Fatalf("the engine was asked %d times, want once, for the row that was evicted", a.state.Gets)
	}
}

// With memory for it, a store knows which keys it may have, however many were evicted, until that memory is used up. None is
// ever lost, and what is remembered counts as used memory.
func TestNewKeysAreNotSearched(t *testing.T) {
	const keys, limit = 2000, 40 << 10
	a := newAsking(t, limit)
	round := func(prefix string, want bool) (gets int) {
		gets = a.state.Gets
		for i := range keys {
			if present, err := a.ask(fmt.Sprint(prefix, i)); present != want || err != nil {
				t.Fatal(prefix, i, present, err)
			}
			if i%100 == 99 {
				a.commit()
			}
		}
		gets = a.state.Gets - gets
		if clean, filters, cold := task.Clean(a.task), task.Remembered(a.task), task.Cold(a.task); clean+filters+cold > limit {
			t.Errorf("%d bytes of cells, %d of filters and %d of cold values, which is above %d", clean, filters, cold, limit)
		}
		if err := task.Audit(a.task); err != nil { // which asks the state
			t.Error(err)
		}
		return gets
	}
	if n := round("a", false); n > keys/20 || task.Remembered(a.task) == 0 {
		t.Errorf("%d searches for %d new keys, with %d bytes", n, keys, task.Remembered(a.task))
	}
	if n := round("a", true); n == 0 {
		t.Error("nothing was evicted")
	}
	round("b", false)
	round("c", false)
	if n := round("d", false); n != keys || task.Remembered(a.task) != 0 {
		t.Errorf("%d searches for %d new keys, though there is no memory for it; %d bytes", n, keys, task.Remembered(a.task))
	}
	for _, prefix := range []string{"a", "b", "c", "d"} {
		round(prefix, true)
	}
}
