package task

import (
	"hash/maphash"
	"iter"
	"unsafe"
)

// index finds the cells of a store by key. It is a table with open addressing that has each cell's hash beside it.
//
// Go's map costs four cache misses where the cells do not fit into the cache, and nothing else in a record's way costs as much:
// its control bytes, its slot, the key's bytes, the cell. This has the slot, the cell, and the bytes of the key that is the right one.
type index struct {
	// slots are as many as a power of two, or none; n of them are taken.
	slots []slot
	n     int
	seed  maphash.Seed
}

type slot struct {
	hash uint64
	cell *cell
}

const leastSlots = 16

func newIndex() index { return index{seed: maphash.MakeSeed()} }

// text is b as a key to look for; it is not kept.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// get gives the cell of a key, nil if there is none.
func (x *index) get(key string) *cell {
	if x.n == 0 {
		return nil
	}
	hash, mask := maphash.String(x.seed, key), uint64(len(x.slots)-1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.cell == nil || s.hash == hash && s.cell.Key == key {
			return s.cell
		}
	}
}

// put adds a cell whose key has none.
func (x *index) put(c *cell) {
	if 8*(x.n+1) > 5*len(x.slots) {
		x.grow()
	}
	x.n++
	x.place(slot{maphash.String(x.seed, c.Key), c})
}

func (x *index) place(s slot) {
	mask := uint64(len(x.slots) - 1)
	i := s.hash & mask
	for x.slots[i].cell != nil {
		i = (i + 1) & mask
	}
	x.slots[i] = s
}

func (x *index) grow() {
	old := x.slots
	x.slots = make([]slot, max(leastSlots, 2*len(old)))
	for _, s := range old {
		if s.cell != nil {
			x.place(s)
		}
	}
}

// remove takes out a cell that is there. What follows it moves up, so that no search ends at the gap too early.
func (x *index) remove(c *cell) {
	mask := uint64(len(x.slots) - 1)
	gap := maphash.String(x.seed, c.Key) & mask
	for x.slots[gap].cell != c {
		gap = (gap + 1) & mask
	}
	x.n--
	for i := (gap + 1) & mask; x.slots[i].cell != nil; i = (i + 1) & mask {
		// It may move to the gap if that is not before its own place.
		if home := x.slots[i].hash & mask; (i-home)&mask >= (i-gap)&mask {
			x.slots[gap], gap = x.slots[i], i
		}
	}
	x.slots[gap] = slot{}
}

// all gives every cell, in no order.
func (x *index) all() iter.Seq[*cell] {
	return func(yield func(*cell) bool) {
		for _, s := range x.slots {
			if s.cell != nil && !yield(s.cell) {
				return
			}
		}
	}
}
