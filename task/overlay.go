package task

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/topology"
)

// overlay is one store as its task sees it: committed state in the engine, with what is not committed yet on top.
//
// There is one active generation, which Set writes, and at most one frozen one, whose commit is under way. The newest
// value of a key is in its cell, whatever its generation, and a cell that is pinned by a generation never leaves the
// map. So "active, then frozen, then engine" is one map look-up, and a hot key costs one look-up for ever: after the
// commit its cell stays, clean. What the frozen generation wrote was copied into its Unit, so its cells may change again
// at once. Nobody ever needs an older value than the newest: a commit that fails takes both generations with it.
//
// A key that the engine does not have gets an absent cell, which spares the second search for it.
//
// Rejected: a map per generation. It needs a second look-up for each read and copies each hot key at each commit.
type overlay struct {
	number int
	name   string
	mem    *memory
	cells  map[string]*cell
	// complete says that every present key of the store has a cell or is in evicted: it was empty when the task started.
	// A key with neither is absent, and the engine is not asked.
	complete bool
	evicted  evicted
	// dirty are the cells of the active generation, frozen those of the frozen one, each once, in no order. A cell may
	// be in both.
	dirty, frozen []*cell
	// changed are the cells that Changed gives next.
	changed []*cell
	// asked says that Changed was called since the last Prepare began.
	asked bool
	// time is the highest timestamp that was ever Set.
	time int64
	// pinned has every dirty or frozen cell in key order. It is nil until the first Range, so that stores that are never
	// ranged over do not pay for it.
	pinned *order
}

var _ topology.StateStore = (*overlay)(nil)

func newOverlay(number int, name string, mem *memory) *overlay {
	return &overlay{number: number, name: name, mem: mem, cells: map[string]*cell{}, time: -1}
}

// Cell implements topology.StateStore.
func (o *overlay) Cell(key []byte) (*topology.Cell, error) {
	if c := o.cells[string(key)]; c != nil {
		c.Mark |= markRecent | markKnown
		return &c.Cell, nil
	}
	c, err := o.load(key)
	if err != nil {
		return nil, err
	}
	return &c.Cell, nil
}

// begin looks at committed state when the task starts.
func (o *overlay) begin() {
	o.time, o.complete = o.mem.state.Time(o.number), false
	if o.time >= 0 {
		return // it has rows, or had some
	}
	for _, err := range o.mem.state.Scan(o.number, nil, nil, false) {
		if err != nil {
			_ = o.fail(err)
		}
		return
	}
	o.complete = true
}

// load makes a cell for a key that has none.
func (o *overlay) load(key []byte) (*cell, error) {
	value, timestamp, ok, err := o.read(key)
	if err != nil {
		return nil, o.fail(err)
	}
	c := o.mem.take(o, string(key))
	if ok {
		c.Mark |= markKnown
	}
	switch {
	case ok && len(value) <= inlineBytes:
		c.Value = append(c.inline[:0], value...)
	case ok:
		c.Value = value
	}
	c.Present, c.Timestamp = ok, timestamp
	o.cells[c.Key] = c
	o.mem.cleaned(c)
	return c, nil
}

// read is what is committed for a key that has no cell, and gets one now. A value of up to inlineBytes is to be copied.
func (o *overlay) read(key []byte) (value []byte, timestamp int64, ok bool, err error) {
	hash := hashed(key)
	if o.complete && !o.evicted.may(hash) {
		return nil, 0, false, nil
	}
	if value, timestamp, ok = o.mem.cold.get(hash, o.number, key); !ok {
		return o.mem.state.Get(o.number, key)
	}
	if len(value) > inlineBytes {
		value = bytes.Clone(value)
	}
	return value, timestamp, true, nil
}

// fail tells the task of an error of the engine: it ends with it even if the processor swallows it.
func (o *overlay) fail(err error) error {
	o.mem.fault(err)
	return err
}

// ErrForeignCell is found with errors.Is when a processor Sets a cell that it got from another store or has kept longer
// than it may.
var ErrForeignCell = errors.New("the cell is not this store's, or was kept after the processor had returned")

// Set implements topology.StateStore.
func (o *overlay) Set(c *topology.Cell, value []byte, timestamp int64) error {
	if i := c.Mark >> markShift; i < uint64(len(o.mem.slots)) && c.Mark&markRow == 0 {
		if own := o.mem.slots[i]; own != nil && &own.Cell == c && own.of == o {
			o.set(own, value, timestamp)
			return nil
		}
	}
	if c.Mark != o.rowMark() {
		return fmt.Errorf("store %q: Set of key %q: %w", o.name, c.Key, ErrForeignCell)
	}
	return o.setRow(c, value, timestamp)
}

func (o *overlay) rowMark() uint64 { return uint64(o.number)<<markShift | markRow }

// setRow is the Set of a row of a Range: it becomes a cell now, unless another way led to the same key meanwhile. The
// row shows the new value, and follows no later change.
func (o *overlay) setRow(row *topology.Cell, value []byte, timestamp int64) error {
	c := o.cells[row.Key]
	if c == nil {
		c = o.mem.take(o, row.Key)
		c.Mark |= markKnown
		c.Present, c.Timestamp = row.Present, row.Timestamp
		o.cells[c.Key] = c
		o.mem.clean += c.cost()
	}
	o.set(c, value, timestamp)
	row.Value, row.Timestamp, row.Present = c.Value, c.Timestamp, c.Present
	return nil
}

func (o *overlay) set(c *cell, value []byte, timestamp int64) {
	o.time = max(o.time, timestamp)
	comes := !c.Present && value != nil
	if c.Mark&markDirty == 0 {
		o.soil(c)
		if comes {
			c.Mark |= markBorn
		}
	}
	o.mem.active += int64(len(value) - len(c.Value))
	switch {
	case value == nil:
		c.Value = nil
	case c.Value == nil:
		c.Value = append(c.inline[:0], value...)
	default:
		c.Value = append(c.Value[:0], value...)
	}
	c.Present, c.Timestamp = value != nil, timestamp
	if c.Mark&markChanged == 0 {
		c.Mark |= markChanged
		if comes {
			c.Mark |= markFresh
		}
		o.changed = append(o.changed, c)
	}
}

// Time implements topology.StateStore.
func (o *overlay) Time() int64 { return o.time }

// soil takes a cell into the active generation.
func (o *overlay) soil(c *cell) {
	if c.Mark&markFrozen == 0 {
		o.mem.clean -= c.cost()
		if o.pinned != nil {
			o.pinned.insert(c)
		}
	}
	c.Mark |= markDirty
	o.dirty = append(o.dirty, c)
	o.mem.active += cellBytes + int64(len(c.Key)+len(c.Value))
}

// Changed implements topology.StateStore. What f itself Sets comes with the next call. If f fails or panics, the cells
// behind that one wait for the next call too.
func (o *overlay) Changed(f func(*topology.Cell) error) error {
	o.asked = true
	changed := o.changed
	o.changed = nil
	done := 0
	defer func() {
		if o.changed == nil {
			o.changed = changed[:copy(changed, changed[done:])]
			return
		}
		o.changed = append(o.changed, changed[done:]...)
	}()
	for _, c := range changed {
		gone := c.Mark&markFresh != 0 && !c.Present
		c.Mark &^= markChanged | markFresh
		if c.Mark&markPinned == 0 {
			o.mem.enqueue(c)
		}
		done++
		if gone {
			continue
		}
		if err := f(&c.Cell); err != nil {
			return err
		}
	}
	return nil
}

// forget empties the list that Changed gives. Prepare calls it for a store that nobody asks, which would otherwise keep
// every cell that was ever Set.
func (o *overlay) forget() {
	for _, c := range o.changed {
		c.Mark &^= markChanged | markFresh
		if c.Mark&markPinned == 0 {
			o.mem.enqueue(c)
		}
	}
	o.changed = o.changed[:0]
}

// freeze ends the active generation: its cells are copied to u, by key, and a Set starts the next one.
//
// A key that came and went within the generation leaves nothing: neither the changelog nor the state has ever had it. A
// session that grows is such a key at every record but the last. It is frozen all the same, because it is in the order.
func (o *overlay) freeze(u *Unit) {
	for _, c := range o.mem.sort.byKey(o.dirty) {
		if c.Present || c.Mark&markBorn == 0 {
			u.add(o.number, c)
		}
		c.Mark = c.Mark&^(markDirty|markBorn) | markFrozen
	}
	o.dirty, o.frozen = o.frozen[:0], o.dirty
}

// applied says that the engine has the frozen generation.
func (o *overlay) applied() {
	if len(o.frozen) == 0 {
		return
	}
	for _, c := range o.frozen {
		c.Mark &^= markFrozen
		if c.Mark&markDirty == 0 {
			o.mem.cleaned(c)
		}
	}
	clear(o.frozen)
	o.frozen = o.frozen[:0]
	if o.pinned != nil {
		o.pinned.keepPinned()
	}
}

// drop forgets both generations and what is clean too: after a failed commit the changelog's tail is replayed, so the
// engine is not what the clean cells were read from.
func (o *overlay) drop() {
	o.cells, o.complete, o.evicted = map[string]*cell{}, false, evicted{}
	o.dirty, o.frozen, o.changed, o.pinned, o.asked, o.time = nil, nil, nil, nil, false, -1
}
