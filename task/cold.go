package task

import (
	"encoding/binary"
	"unsafe"
)

// cold keeps the values of evicted cells: committed ones, packed one behind the other, a third to a quarter of what the cells
// were. A key that comes back within some millions of others is then a look at one place in memory and no search through the
// engine's tables, which takes ten times as long and a hundred times when its block is not in the engine's cache.
//
// The bytes are in segments of one size, which form a ring. When there is no room for one more, the next one is packed again:
// of its keys those stay that were asked for since the last time, the others are forgotten. What a key with a cell has here
// may be old, and nobody asks for it; when the cell goes, its value takes the old one's place. So whoever lets a cell go
// says what the key has now, or that it has nothing. A value of another size takes another place; while the gaps that this
// leaves are more than half, there is no new segment, and all keys stay when one is packed.
//
// The index has 32 bits of a key's hash. Of two keys with the same ones, the later counts and the other is forgotten: this is a
// cache, and the engine has both. Rejected: a larger block cache of the engine, which keeps 4 KiB for each of the keys that
// are spread over the tables; and to take a key out when it gets a cell, which left half of the bytes to nobody.
type cold struct {
	// limit is what bytes gives at most, size how long a segment is.
	limit int64
	size  int
	index map[uint32]uint32
	// segments[current] is the one that is written. Each has a capacity of size.
	segments [][]byte
	current  int
	// live is the size of all entries that the index leads to.
	live int64
}

const (
	// A segment is one of segmentsLeast parts of the limit, within these bounds.
	segmentsLeast, smallestSegment, largestSegment = 64, 256, 16 << 10
	// indexBytes is what a place in the index costs: ten bytes when Go's map is full, twice that when it has just grown.
	indexBytes = 16
	// coldShare of 8 parts of a task's memory for clean cells goes to cold ones, when there are as many.
	coldShare = 5
	// largestShare of a segment is how long an entry may be: one that is longer saves less, and leaves a larger gap.
	largestShare = 4
	// entryHead is the store's number, the lengths of key and value, and the timestamp.
	entryHead = 2 + 2 + 2 + 8
	// entryAsked is a bit of the store's number: the key was asked for.
	entryAsked = 1 << 15
)

// newCold takes its share of a task's memory.
func newCold(limit int64) cold {
	limit = limit / 8 * coldShare
	return cold{limit: limit, size: int(min(max(limit/segmentsLeast, smallestSegment), largestSegment)), index: map[uint32]uint32{}}
}

// entry is a key with its value, in a segment: entryHead bytes, the key and the value.
type entry []byte

func (e entry) number(at int) int             { return int(binary.LittleEndian.Uint16(e[at:])) }
func (e entry) set(at, number int)            { binary.LittleEndian.PutUint16(e[at:], uint16(number)) }
func (e entry) store() int                    { return e.number(0) &^ entryAsked }
func (e entry) asked() bool                   { return e.number(0)&entryAsked != 0 }
func (e entry) size() int                     { return entryHead + e.number(2) + e.number(4) }
func (e entry) key() []byte                   { return e[entryHead : entryHead+e.number(2)] }
func (e entry) value() []byte                 { return e[entryHead+e.number(2) : e.size()] }
func (e entry) timestamp() int64              { return int64(binary.LittleEndian.Uint64(e[6:])) }
func (e entry) setTimestamp(t int64)          { binary.LittleEndian.PutUint64(e[6:], uint64(t)) }
func (e entry) is(store int, key string) bool { return e.store() == store && string(e.key()) == key }

// of is what a key's hash is in the index. Stores share it.
func (c *cold) of(hash uint64, store int) uint32 { return uint32((hash ^ uint64(store)*golden) >> 32) }

// bytes is what all segments and the index hold.
func (c *cold) bytes() int64 {
	return int64(len(c.segments)*c.size) + int64(len(c.index))*indexBytes
}

// full says that there is no room for a place in the index and so many bytes besides.
func (c *cold) full(more int) bool { return c.bytes()+int64(more)+indexBytes > c.limit }

// pushes says that a key that comes pushes others out. One that was never asked for again shall not: it may be one of a stream of
// keys that come once.
func (c *cold) pushes() bool {
	if c.sparse() {
		return c.full(0)
	}
	return c.full(c.size)
}

// put keeps what a key without a cell has.
func (c *cold) put(hash uint64, store int, key string, value []byte, timestamp int64) {
	h := c.of(hash, store)
	if place, ok := c.index[h]; ok {
		e := c.at(place)
		if e.is(store, key) && len(e.value()) == len(value) {
			e.setTimestamp(timestamp)
			copy(e.value(), value)
			return
		}
		c.forget(h, e)
	}
	n := entryHead + len(key) + len(value)
	if n > c.size/largestShare || store >= entryAsked || !c.room(n) {
		return
	}
	s := c.segments[c.current]
	at := len(s)
	s = s[:at+n]
	c.segments[c.current], c.index[h] = s, uint32(c.current*c.size+at)
	c.live += int64(n)
	e := entry(s[at:])
	e.set(0, store)
	e.set(2, len(key))
	e.set(4, len(value))
	e.setTimestamp(timestamp)
	copy(e[entryHead:], key)
	copy(e[entryHead+len(key):], value)
}

// drop says that a key without a cell has nothing.
func (c *cold) drop(hash uint64, store int, key string) {
	h := c.of(hash, store)
	if place, ok := c.index[h]; ok && c.at(place).is(store, key) {
		c.forget(h, c.at(place))
	}
}

// at is the entry at a place of the index.
func (c *cold) at(place uint32) entry {
	size := uint32(c.size)
	return c.segments[place/size][place%size:]
}

// room makes the current segment one that has n bytes more. It is false if there may be none at all. It ends, because no entry
// is asked for in the second round, and because a segment that is sparse has room when it is packed.
func (c *cold) room(n int) bool {
	for len(c.index) > 0 && c.full(0) {
		if c.sparse() && len(c.segments) > 1 {
			c.shrink()
		} else {
			c.repack()
		}
	}
	if c.full(0) {
		return false
	}
	for len(c.segments) == 0 || len(c.segments[c.current])+n > c.size {
		if !c.sparse() && !c.full(c.size) && uint64(len(c.segments)) < 1<<32/uint64(c.size) {
			c.segments = append(c.segments, make([]byte, 0, c.size))
			c.current = len(c.segments) - 1
		} else if len(c.segments) > 0 {
			c.repack()
		} else {
			return false
		}
	}
	return true
}

// sparse says that of the segments' bytes less than half can be asked for. The others are of keys that have a value of another
// size now, or none.
func (c *cold) sparse() bool { return 2*c.live < int64(len(c.segments)*c.size) }

// repack makes the segment after the current one the current one, with those of its entries that were asked for, or with all
// if there is room enough in the gaps between them.
func (c *cold) repack() {
	c.current = (c.current + 1) % len(c.segments)
	if c.sparse() && !c.full(0) {
		c.pack(c.current, keepAll)
	} else {
		c.pack(c.current, keepAsked)
	}
}

// shrink lets the last segment go, so that the index may have its bytes: there were fewer and larger values before.
func (c *cold) shrink() {
	last := len(c.segments) - 1
	c.pack(last, keepNone)
	c.segments[last] = nil
	c.segments = c.segments[:last]
	c.current %= last
}

// What pack keeps of the entries that the index leads to.
const (
	keepNone = iota
	keepAsked
	keepAll
)

// pack has a segment's entries follow each other without gaps, and lets go of others than keep says.
func (c *cold) pack(segment, keep int) {
	s := c.segments[segment]
	to := 0
	for at := 0; at < len(s); {
		e := entry(s[at:])
		n := e.size()
		h := c.of(hashed(e.key()), e.store())
		place, ok := c.index[h]
		switch {
		case !ok || place != uint32(segment*c.size+at):
		case keep == keepAll || keep == keepAsked && e.asked():
			if keep == keepAsked {
				e.set(0, e.store())
			}
			copy(s[to:], e[:n])
			c.index[h] = uint32(segment*c.size + to)
			to += n
		default:
			c.forget(h, e)
		}
		at += n
	}
	c.segments[segment] = s[:to]
}

// forget has the index not lead to an entry any more.
func (c *cold) forget(h uint32, e entry) {
	delete(c.index, h)
	c.live -= int64(e.size())
}

// get is what a key without a cell has. The value may be written over by the next put.
func (c *cold) get(hash uint64, store int, key []byte) (value []byte, timestamp int64, ok bool) {
	place, ok := c.index[c.of(hash, store)]
	if !ok {
		return nil, 0, false
	}
	e := c.at(place)
	if !e.is(store, unsafe.String(unsafe.SliceData(key), len(key))) {
		return nil, 0, false
	}
	e.set(0, store|entryAsked)
	return e.value(), e.timestamp(), true
}

// bytesOf are the bytes of a string, which nobody may change.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
