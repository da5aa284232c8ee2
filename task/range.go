package task

import (
	"iter"
	"slices"
	"unsafe"

	"github.com/millrace-io/millrace/topology"
)

// Range implements topology.StateStore: the engine's rows merged with the pinned cells, which win.
//
// The engine may or may not show what a commit under way has written, and keeps what it showed first; both are right,
// because every key that can differ is pinned. A row that is in memory is answered from its cell. One that is not gets
// a cell outside the map, so that a walk over a large store does not fill the memory of the task: such a cell joins the
// map when it is Set.
func (o *overlay) Range(from, to []byte, reverse bool) iter.Seq2[*topology.Cell, error] {
	return func(yield func(*topology.Cell, error) bool) {
		w := walk{overlay: o, pinned: o.order().cursor(from, to, reverse), yield: yield}
		for row, err := range o.mem.state.Scan(o.number, from, to, reverse) {
			if err != nil {
				yield(nil, o.fail(err))
				return
			}
			if !w.row(row, reverse) {
				return
			}
		}
		for c := w.pinned.peek(); c != nil; c = w.pinned.peek() {
			if !w.give(c) {
				return
			}
		}
	}
}

// order gives the pinned cells in key order, and makes the list at the first call.
func (o *overlay) order() *order {
	if o.pinned == nil {
		var cells []*cell
		cells = append(cells, o.dirty...)
		for _, c := range o.frozen {
			if c.Mark&markDirty == 0 {
				cells = append(cells, c)
			}
		}
		o.pinned = newOrder(cells)
	}
	return o.pinned
}

// walk is one Range on its way.
type walk struct {
	*overlay
	pinned *cursor
	yield  func(*topology.Cell, error) bool
	rows   []topology.Cell
	bytes  []byte
}

// give passes a pinned cell; one that is absent is left out.
func (w *walk) give(c *cell) bool {
	w.pinned.pass(c)
	return !c.Present || w.yield(&c.Cell, nil)
}

// row gives the pinned cells before a row of the engine, and then the row.
func (w *walk) row(row Entry, reverse bool) bool {
	for c := w.pinned.peek(); c != nil; c = w.pinned.peek() {
		if c.Key == string(row.Key) {
			return w.give(c)
		}
		if (c.Key > string(row.Key)) != reverse {
			break
		}
		if !w.give(c) {
			return false
		}
	}
	if c := w.cells[string(row.Key)]; c != nil {
		w.pinned.beyond(c.Key)
		return !c.Present || w.yield(&c.Cell, nil)
	}
	c := w.fresh(row)
	w.pinned.beyond(c.Key)
	return w.yield(c, nil)
}

// fresh copies a row of the engine. Rows share chunks of memory, which live as long as one of their cells is kept.
func (w *walk) fresh(row Entry) *topology.Cell {
	if len(w.rows) == 0 {
		w.rows = make([]topology.Cell, 32)
	}
	c := &w.rows[0]
	w.rows = w.rows[1:]
	key := w.copy(row.Key)
	c.Key = unsafe.String(unsafe.SliceData(key), len(key)) // nobody writes to the chunk again
	c.Value, c.Timestamp, c.Present = w.copy(row.Value), row.Timestamp, true
	c.Mark = w.rowMark()
	return c
}

func (w *walk) copy(b []byte) []byte {
	if w.bytes == nil || len(b) > cap(w.bytes)-len(w.bytes) {
		w.bytes = make([]byte, 0, max(4<<10, len(b)))
	}
	at := len(w.bytes)
	w.bytes = append(w.bytes, b...)
	return slices.Clip(w.bytes[at:])
}
