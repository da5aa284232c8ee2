package task

import (
	"iter"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/topology"
)

// overlay is one store as its task sees it: committed state in the engine with uncommitted cells on top.
//
// A cell holds the newest value of its key, and its mark the generation of its last Set. There is one active generation
// and at most one frozen one, whose commit is under way; a cell of an older generation is clean. So "active, then frozen,
// then engine" is one map look-up. Freezing copies what is committed into the unit's arena, so a cell may change again
// while its older value is on its way.
//
// Rejected: a map per generation. It needs two look-ups per read and copies every hot key at each commit.
type overlay struct {
	number int
	state  State
	cells  map[string]*topology.Cell
	// active is the generation that Set writes, frozen the one whose commit is under way; 0 if there is none.
	active, frozen uint64
	// dirty are the cells of the active generation, changed those that were Set since the last call of Changed. A cell
	// is in each at most once.
	dirty, changed []*topology.Cell
	// uncommitted is what the dirty cells hold, held what all cells hold, in bytes.
	uncommitted, held int64
	limit             int64
	// ring is every cell, for eviction; hand is where the next eviction goes on.
	ring []*topology.Cell
	hand int
	slab []topology.Cell
}

// A cell's Mark: bit 0 says that it is in changed, bit 1 that it was used since the hand passed, bit 2 that it is in cells;
// the rest is the generation of the last Set.
const (
	markChanged uint64 = 1 << iota
	markUsed
	markKept
	markBits = 3
)

// cellOverhead is what a cell costs beside its key and value, about.
const cellOverhead = 96

func newOverlay(number int, state State, limit int64) *overlay {
	return &overlay{number: number, state: state, cells: map[string]*topology.Cell{}, active: 1, limit: limit}
}

// Cell implements topology.StateStore.
func (o *overlay) Cell(key []byte) (*topology.Cell, error) {
	if c := o.cells[string(key)]; c != nil {
		c.Mark |= markUsed
		return c, nil
	}
	value, timestamp, ok, err := o.state.Get(o.number, key)
	if err != nil {
		return nil, err
	}
	c := o.newCell(string(key))
	if ok {
		c.Value, c.Timestamp, c.Present = value, timestamp, true
	}
	o.keep(c)
	return c, nil
}

func (o *overlay) newCell(key string) *topology.Cell {
	if len(o.slab) == 0 {
		o.slab = make([]topology.Cell, 256)
	}
	c := &o.slab[0]
	o.slab = o.slab[1:]
	c.Key = key
	return c
}

func (o *overlay) keep(c *topology.Cell) {
	c.Mark |= markKept | markUsed
	o.cells[c.Key] = c
	o.ring = append(o.ring, c)
	o.held += size(c)
}

func size(c *topology.Cell) int64 { return int64(len(c.Key)+cap(c.Value)) + cellOverhead }

// Set implements topology.StateStore.
func (o *overlay) Set(c *topology.Cell, value []byte, timestamp int64) error {
	if c.Mark&markKept == 0 { // a cell of a Range that was not in memory
		if known := o.cells[c.Key]; known != nil {
			c = known
		} else {
			o.keep(c)
		}
	}
	before := size(c)
	if value == nil {
		c.Value, c.Present = nil, false
	} else {
		c.Value, c.Present = append(c.Value[:0], value...), true
		if c.Value == nil {
			c.Value = []byte{}
		}
	}
	c.Timestamp = timestamp
	o.held += size(c) - before
	if c.Mark>>markBits != o.active {
		c.Mark = o.active<<markBits | c.Mark&(1<<markBits-1)
		o.dirty = append(o.dirty, c)
		o.uncommitted += size(c)
	}
	if c.Mark&markChanged == 0 {
		c.Mark |= markChanged
		o.changed = append(o.changed, c)
	}
	return nil
}

// Changed implements topology.StateStore.
func (o *overlay) Changed(f func(*topology.Cell) error) error {
	changed := o.changed
	o.changed = nil
	for _, c := range changed {
		c.Mark &^= markChanged
		if err := f(c); err != nil {
			return err
		}
	}
	if o.changed == nil {
		o.changed = changed[:0]
	}
	return nil
}

// isDirty says that the engine does not have the cell's value.
func (o *overlay) isDirty(c *topology.Cell) bool {
	gen := c.Mark >> markBits
	return gen == o.active || (gen == o.frozen && gen != 0)
}

// Range implements topology.StateStore: the engine's rows merged with the dirty cells, which win. A row whose cell is in
// memory is answered from the cell, so the loop body may Set what it likes.
func (o *overlay) Range(from, to []byte, reverse bool) iter.Seq2[*topology.Cell, error] {
	return func(yield func(*topology.Cell, error) bool) {
		over := o.dirtyBetween(from, to, reverse)
		before := func(a, b string) bool { return a < b != reverse }
		give := func(c *topology.Cell) bool { return !c.Present || yield(c, nil) }
		for row, err := range o.state.Scan(o.number, from, to, reverse) {
			if err != nil {
				yield(nil, err)
				return
			}
			key := string(row.Key)
			for len(over) > 0 && before(over[0].Key, key) {
				if !give(over[0]) {
					return
				}
				over = over[1:]
			}
			if len(over) > 0 && over[0].Key == key {
				over = over[1:]
			}
			c := o.cells[key]
			if c == nil {
				c = o.newCell(key)
				c.Value, c.Timestamp, c.Present = append([]byte{}, row.Value...), row.Timestamp, true
			}
			if !give(c) {
				return
			}
		}
		for _, c := range over {
			if !give(c) {
				return
			}
		}
	}
}

func (o *overlay) dirtyBetween(from, to []byte, reverse bool) (over []*topology.Cell) {
	for _, c := range o.ring {
		if o.isDirty(c) && (from == nil || c.Key >= string(from)) && (to == nil || c.Key <= string(to)) {
			over = append(over, c)
		}
	}
	slices.SortFunc(over, func(a, b *topology.Cell) int { return strings.Compare(a.Key, b.Key) })
	if reverse {
		slices.Reverse(over)
	}
	return over
}

// freeze ends the active generation and appends a sorted copy of it to u.
func (o *overlay) freeze(u *Unit) {
	sortCells(o.dirty)
	u.grow(o.dirty)
	for _, c := range o.dirty {
		w := Write{Store: o.number, Key: u.copy([]byte(c.Key)), Timestamp: c.Timestamp}
		if c.Present {
			w.Value = u.copy(c.Value)
		}
		u.Writes = append(u.Writes, w)
	}
	o.frozen = o.active
	o.active++
	o.dirty, o.uncommitted = o.dirty[:0], 0
	for _, c := range o.changed {
		c.Mark &^= markChanged
	}
	o.changed = o.changed[:0]
}

// clean says that the engine has the frozen generation, and gives memory back above the limit.
func (o *overlay) clean() {
	o.frozen = 0
	if o.held <= o.limit {
		return
	}
	for steps := 2 * len(o.ring); steps > 0 && o.held > o.limit*9/10 && len(o.ring) > 0; steps-- {
		if o.hand >= len(o.ring) {
			o.hand = 0
		}
		c := o.ring[o.hand]
		switch {
		case o.isDirty(c):
			o.hand++
		case c.Mark&markUsed != 0:
			c.Mark &^= markUsed
			o.hand++
		default:
			o.held -= size(c)
			delete(o.cells, c.Key)
			last := len(o.ring) - 1
			o.ring[o.hand], o.ring[last] = o.ring[last], nil
			o.ring = o.ring[:last]
		}
	}
}

// drop forgets everything that is in memory: both generations, and what is clean too, since the engine may be behind
// or ahead of it after the changelog's tail was replayed.
func (o *overlay) drop() {
	clear(o.cells)
	clear(o.ring)
	o.ring, o.dirty, o.changed, o.hand = o.ring[:0], o.dirty[:0], o.changed[:0], 0
	o.frozen, o.uncommitted, o.held = 0, 0, 0
	o.active++
}

// sortCells orders by key. It compares eight bytes behind the prefix that all keys share as one number and the rest only
// on a tie: sorting strings by comparison costs more than everything else in a commit.
func sortCells(cells []*topology.Cell) {
	if len(cells) < 2 {
		return
	}
	shared := cells[0].Key
	for _, c := range cells[1:] {
		shared = shared[:commonPrefix(shared, c.Key)]
	}
	type item struct {
		head uint64
		cell *topology.Cell
	}
	items := make([]item, len(cells))
	for i, c := range cells {
		items[i] = item{head(c.Key[len(shared):]), c}
	}
	slices.SortFunc(items, func(a, b item) int {
		switch {
		case a.head < b.head:
			return -1
		case a.head > b.head:
			return 1
		}
		return strings.Compare(a.cell.Key, b.cell.Key)
	})
	for i := range items {
		cells[i] = items[i].cell
	}
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// head is the first eight bytes as a number that sorts as they do; a shorter key is padded with zeros, and the tie with a
// key that has zeros there is broken by the full comparison.
func head(s string) (h uint64) {
	for i := range 8 {
		h <<= 8
		if i < len(s) {
			h |= uint64(s[i])
		}
	}
	return h
}

var _ topology.StateStore = (*overlay)(nil)
