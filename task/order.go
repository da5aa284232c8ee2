package task

import (
	"slices"
	"sort"
	"strings"
)

// order is a sorted list of cells in blocks, so that an insertion moves a block and not everything.
type order struct {
	// blocks are sorted and none is empty.
	blocks [][]*cell
	// version changes when a place in the list may have moved.
	version uint64
}

const blockCells = 256

func compareCells(a, b *cell) int { return strings.Compare(a.Key, b.Key) }

// newOrder sorts cells, which it keeps.
func newOrder(cells []*cell) *order {
	slices.SortFunc(cells, compareCells)
	s := &order{}
	s.fill(cells)
	return s
}

// fill makes half-full blocks, which take insertions without a split.
func (s *order) fill(sorted []*cell) {
	s.version++
	s.blocks = s.blocks[:0]
	for part := range slices.Chunk(sorted, blockCells/2) {
		s.blocks = append(s.blocks, append(make([]*cell, 0, blockCells), part...))
	}
}

// seek is the place of the first cell whose key is at or above key.
func (s *order) seek(key string) (block, at int) {
	block = sort.Search(len(s.blocks), func(i int) bool {
		b := s.blocks[i]
		return b[len(b)-1].Key >= key
	})
	if block == len(s.blocks) {
		return block, 0
	}
	b := s.blocks[block]
	return block, sort.Search(len(b), func(i int) bool { return b[i].Key >= key })
}

// insert adds a cell that is not in the list.
func (s *order) insert(c *cell) {
	s.version++
	if len(s.blocks) == 0 {
		s.fill([]*cell{c})
		return
	}
	block, at := s.seek(c.Key)
	if block == len(s.blocks) {
		block--
		at = len(s.blocks[block])
	}
	b := slices.Insert(s.blocks[block], at, c)
	s.blocks[block] = b
	if len(b) >= blockCells {
		half := append(make([]*cell, 0, blockCells), b[len(b)/2:]...)
		clear(b[len(b)/2:])
		s.blocks[block] = b[:len(b)/2]
		s.blocks = slices.Insert(s.blocks, block+1, half)
	}
}

// keepPinned takes out the cells that are clean.
func (s *order) keepPinned() {
	var kept []*cell
	for _, b := range s.blocks {
		for _, c := range b {
			if c.Mark&markPinned != 0 {
				kept = append(kept, c)
			}
		}
	}
	s.fill(kept)
}

// cursor walks over an order, which may change under it: it then finds its place again by the last key that it passed.
type cursor struct {
	*order
	reverse bool
	// from and to bound the walk, both included; unbounded says which of them is open.
	from, to         string
	noFrom, noTo     bool
	last             string
	started, current bool
	version          uint64
	block, at        int
}

func (s *order) cursor(from, to []byte, reverse bool) *cursor {
	return &cursor{order: s, reverse: reverse, from: string(from), to: string(to), noFrom: from == nil, noTo: to == nil}
}

// peek is the next cell, nil at the end.
func (c *cursor) peek() *cell {
	if !c.current || c.version != c.order.version {
		c.find()
	}
	if c.block < 0 || c.block >= len(c.blocks) {
		return nil
	}
	next := c.blocks[c.block][c.at]
	if c.reverse && !c.noFrom && next.Key < c.from || !c.reverse && !c.noTo && next.Key > c.to {
		return nil
	}
	return next
}

// beyond says that a key which is not in the list was passed: it must not come again when it joins the list.
func (c *cursor) beyond(key string) { c.last, c.started = key, true }

// pass goes behind the cell that peek gave.
func (c *cursor) pass(next *cell) {
	c.beyond(next.Key)
	if c.reverse {
		c.at--
	} else {
		c.at++
	}
	c.settle()
}

// find goes to the first place that is inside the bounds and behind the last key.
func (c *cursor) find() {
	c.current, c.version = true, c.order.version
	if c.reverse {
		c.findLast()
		return
	}
	switch {
	case c.started:
		c.block, c.at = c.seek(c.last + "\x00") // the smallest key above last
	case c.noFrom:
		c.block, c.at = 0, 0
	default:
		c.block, c.at = c.seek(c.from)
	}
	c.settle()
}

func (c *cursor) findLast() {
	switch {
	case c.started:
		c.block, c.at = c.seek(c.last)
	case c.noTo:
		c.block, c.at = len(c.blocks), 0
	default:
		c.block, c.at = c.seek(c.to + "\x00")
	}
	c.at--
	c.settle()
}

// settle moves from the edge of a block to its neighbour.
func (c *cursor) settle() {
	switch {
	case c.at < 0:
		if c.block--; c.block >= 0 {
			c.at = len(c.blocks[c.block]) - 1
		}
	case c.block >= 0 && c.block < len(c.blocks) && c.at >= len(c.blocks[c.block]):
		c.block, c.at = c.block+1, 0
	}
}
