package task

import (
	"unsafe"

	"github.com/millrace-io/millrace/topology"
)

// cell is a topology.Cell with what its store needs beside it. Values of up to inlineBytes, which is any number, need
// no allocation of their own.
type cell struct {
	topology.Cell
	of     *overlay
	inline [inlineBytes]byte
}

const inlineBytes = 24

// A cell's Mark: flags in the low bits, and above them its index in memory.slots. A cell that a Range made for a row
// that is not in memory has only markRow, and the store's number above the flags.
const (
	// markHeld: the cell is in its overlay's map.
	markHeld uint64 = 1 << iota
	// markDirty: it was Set in the active generation; it is in overlay.dirty.
	markDirty
	// markFrozen: it was Set in the generation whose commit is under way; it is in overlay.frozen.
	markFrozen
	// markChanged: it was Set since the last Changed; it is in overlay.changed.
	markChanged
	// markQueued: it is in memory.queue.
	markQueued
	// markRecent: it was asked for since the eviction last passed it.
	markRecent
	// markRow: it is a row of a Range, outside the map.
	markRow
	// markBorn: it is dirty, and was absent before the active generation.
	markBorn
	// markFresh: it is in overlay.changed, and was absent before its first Set since the last Changed.
	markFresh
	// markKnown: its key was asked for more than once, or had something before it got this cell. One that is not known has
	// nothing in memory.cold.
	markKnown

	markShift  = 16
	markPinned = markDirty | markFrozen
)

// cellBytes is what a cell costs beside its key and a value that does not fit in it: the cell itself and its place in
// the map and in the lists.
const cellBytes = int64(unsafe.Sizeof(cell{})) + 64

// cost is what a clean cell holds, in bytes. It only changes while the cell is dirty.
func (c *cell) cost() int64 { return cellBytes + int64(len(c.Key)+cap(c.Value)) }

// memory is the cells of all stores of one task: where they are allocated, how many bytes they hold, and which clean one
// goes next when they hold too much.
//
// Only clean cells can go, and only between two records: a processor may hold a cell until it returns, and a second cell
// of the same key would lose one of two updates. The queue holds clean cells in the order in which they became clean.
// One that was asked for since gets a second round; one that was Set in the meantime falls out and is queued again by
// the commit that cleans it. So each step of an eviction is paid for by one access. (A clock hand over all cells would
// walk over every dirty one each time.)
type memory struct {
	state State
	// slots holds every cell that was ever allocated, by index. slots[0] is nil, so that a zero Mark is nobody's.
	slots []*cell
	slab  []cell
	free  []*cell
	// queue[first:] waits for eviction.
	queue []*cell
	first int
	// clean is the cost of all held cells that are not pinned; evict brings it below limit.
	clean, limit int64
	// filters is the cost of what the overlays remember of evicted cells, cold has values of them.
	filters int64
	cold    cold
	// active is what the dirty cells add to the next commit, in bytes.
	active int64
	// fault hears each error of the engine.
	fault func(error)
	sort  sorter
}

const slabCells = 128

// take gives a cell for a key that is not in memory.
func (m *memory) take(o *overlay, key string) *cell {
	if n := len(m.free); n > 0 {
		c := m.free[n-1]
		m.free = m.free[:n-1]
		c.Mark = c.Mark>>markShift<<markShift | markHeld | markRecent
		c.of, c.Key = o, key
		return c
	}
	if len(m.slab) == 0 {
		m.slab = make([]cell, slabCells)
	}
	c := &m.slab[0]
	m.slab = m.slab[1:]
	c.Mark = uint64(len(m.slots))<<markShift | markHeld | markRecent
	c.of, c.Key = o, key
	m.slots = append(m.slots, c)
	return c
}

// cleaned says that a held cell is no longer pinned, or was just read from the engine.
func (m *memory) cleaned(c *cell) {
	m.clean += c.cost()
	m.enqueue(c)
}

func (m *memory) enqueue(c *cell) {
	if c.Mark&(markQueued|markChanged) != 0 {
		return
	}
	c.Mark |= markQueued
	m.queue = append(m.queue, c)
}

// over says that there is something to evict.
func (m *memory) over() bool { return m.clean+m.filters+m.cold.bytes() > m.limit }

// evict lets clean cells go until they are within the limit. It must not be called while a processor runs.
func (m *memory) evict() {
	for m.over() && m.first < len(m.queue) {
		c := m.queue[m.first]
		m.queue[m.first] = nil
		m.first++
		c.Mark &^= markQueued
		switch {
		case c.Mark&(markPinned|markChanged) != 0: // queued again when it is clean, or when Changed has given it
		case c.Mark&markRecent != 0:
			c.Mark &^= markRecent
			m.enqueue(c)
		default:
			m.release(c)
		}
	}
	if m.first > len(m.queue)/2 {
		n := copy(m.queue, m.queue[m.first:])
		clear(m.queue[n:])
		m.queue, m.first = m.queue[:n], 0
	}
}

func (m *memory) release(c *cell) {
	m.clean -= c.cost()
	delete(c.of.cells, c.Key)
	hash := hashed(bytesOf(c.Key))
	if c.Present {
		c.of.complete = c.of.complete && m.remember(c.of, hash)
	}
	known := c.Mark&markKnown != 0
	switch {
	case c.Present && (known || !m.cold.pushes()):
		m.cold.put(hash, c.of.number, c.Key, c.Value, c.Timestamp)
	case known:
		m.cold.drop(hash, c.of.number, c.Key)
	}
	c.Mark &^= markHeld
	c.Cell = topology.Cell{Mark: c.Mark}
	c.of = nil
	m.free = append(m.free, c)
}

// remember has a store know that it has a key without a cell. It is false if that would take too much memory.
func (m *memory) remember(o *overlay, hash uint64) bool {
	e := &o.evicted
	if m.filters+e.next() > m.limit/evictedShare {
		m.filters -= e.bytes
		*e = evicted{}
		return false
	}
	m.filters += e.add(hash)
	return true
}

// drop forgets every cell.
func (m *memory) drop() {
	m.slots, m.slab, m.free = []*cell{nil}, nil, nil
	m.queue, m.first = nil, 0
	m.clean, m.active, m.filters = 0, 0, 0
	m.cold = newCold(m.limit)
	m.sort = sorter{}
}
