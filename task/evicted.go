package task

import (
	"hash/crc32"
	"math/bits"
	"unsafe"
)

// evicted says which keys a store may have that have no cell, as long as all it has was written under this task's eyes. A
// processor's first look at a new key, of a new window above all, is then no search through the engine's tables, which
// costs a hundred times as much as this.
//
// It is a Bloom filter in lines of the size of a cache line, with about ten bits for a key: one key in forty is searched for in
// vain. A layer that is full is followed by another of four times its size, and all are asked. Rejected: the
// filters of the engine's tables, which are asked one after the other, each with its table; and a filter made at the start
// from a store that has keys already, which would read all of it.
type evicted struct {
	layers [][]line
	// room is how many keys the last layer has room for.
	room int
	// bytes is what all layers hold.
	bytes int64
}

type line [8]uint64

const (
	lineBytes     = int64(unsafe.Sizeof(line{}))
	keysPerLine   = 50
	firstLines    = 64
	bitsPerKey    = 6
	layerGrowth   = 4
	evictedShare  = 8 // of a task's memory for clean cells
	golden        = 0x9E3779B97F4A7C15
	bitsOfLine    = 9
	bitsOfLineMax = 1<<bitsOfLine - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// hashed spreads a key over 64 bits. It is the same in each process, so that the same records do the same again.
func hashed(key []byte) uint64 {
	return (uint64(crc32.Update(0, castagnoli, key)) + uint64(len(key))<<32 + 1) * golden
}

// may says that a key may have been added.
func (e *evicted) may(hash uint64) bool {
	for _, layer := range e.layers {
		if layer[place(hash, len(layer))].has(hash) {
			return true
		}
	}
	return false
}

// add takes a key in. It gives how many bytes more the filter has now.
func (e *evicted) add(hash uint64) (grown int64) {
	if e.may(hash) {
		return 0
	}
	if e.room == 0 {
		n := firstLines
		if len(e.layers) > 0 {
			n = layerGrowth * len(e.layers[len(e.layers)-1])
		}
		e.layers, e.room, grown = append(e.layers, make([]line, n)), n*keysPerLine, int64(n)*lineBytes
		e.bytes += grown
	}
	layer := e.layers[len(e.layers)-1]
	layer[place(hash, len(layer))].set(hash)
	e.room--
	return grown
}

// next is what the layer after this one will take, in bytes; 0 while there is room.
func (e *evicted) next() int64 {
	switch {
	case e.room > 0:
		return 0
	case len(e.layers) == 0:
		return firstLines * lineBytes
	}
	return layerGrowth * int64(len(e.layers[len(e.layers)-1])) * lineBytes
}

// place is the line of a key among n.
func place(hash uint64, n int) uint64 {
	high, _ := bits.Mul64(hash, uint64(n))
	return high
}

// bitsOf are the bits of a key in its line: bitsPerKey numbers of bitsOfLine bits.
func bitsOf(hash uint64) uint64 { return (hash ^ hash>>29) * golden }

func (l *line) has(hash uint64) bool {
	hash = bitsOf(hash)
	for range bitsPerKey {
		bit := hash & bitsOfLineMax
		if l[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
		hash >>= bitsOfLine
	}
	return true
}

func (l *line) set(hash uint64) {
	hash = bitsOf(hash)
	for range bitsPerKey {
		bit := hash & bitsOfLineMax
		l[bit/64] |= 1 << (bit % 64)
		hash >>= bitsOfLine
	}
}
