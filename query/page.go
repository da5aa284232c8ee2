package query

import (
	"encoding/binary"
	"slices"

	"github.com/millrace-io/millrace/query/querypb"
)

// AppendEntry appends an entry to the packed form of a page, which querypb.Page describes. A page in one piece costs a store
// an append where a message for each entry costs it three allocations, and the collector nothing to look through.
func AppendEntry(dst, key, value []byte, timestamp int64) []byte {
	// Room is made once, and not looked for by each append.
	n := len(dst)
	dst = slices.Grow(dst, len(key)+len(value)+2*binary.MaxVarintLen64+8)
	dst = dst[:cap(dst)]
	n = putBytes(dst, n, key)
	binary.BigEndian.PutUint64(dst[n:], uint64(timestamp))
	return dst[:putBytes(dst, n+8, value)]
}

// putBytes writes a length and so many bytes, and gives where they end.
func putBytes(dst []byte, at int, b []byte) int {
	if len(b) < 0x80 {
		dst[at] = byte(len(b))
		at++
	} else {
		at += binary.PutUvarint(dst[at:], uint64(len(b)))
	}
	return at + copy(dst[at:], b)
}

// Entries reads the entries of a page one after the other, in either form. Its zero value has none.
type Entries struct {
	packed []byte
	list   []*querypb.Entry
	// broken: what follows is no entry.
	broken bool
	// The entry that Next has read. Key and Value share the page's memory; they are not nil.
	Key, Value []byte
	Timestamp  int64
}

// EntriesOf begins to read a page.
func EntriesOf(p *querypb.Page) Entries {
	return Entries{packed: p.GetPacked(), list: p.GetEntries()}
}

// Next reads the next entry; false is the end of the page, or bytes that are no page: see Broken.
func (e *Entries) Next() bool {
	if len(e.list) > 0 {
		next := e.list[0]
		e.list = e.list[1:]
		e.Key, e.Value, e.Timestamp = present(next.GetKey()), present(next.GetValue()), next.GetTimestamp()
		return true
	}
	if len(e.packed) == 0 {
		return false
	}
	key, rest, ok := cutBytes(e.packed)
	if !ok || len(rest) < 8 {
		return e.breaks()
	}
	value, after, ok := cutBytes(rest[8:])
	if !ok {
		return e.breaks()
	}
	e.packed, e.Key, e.Value, e.Timestamp = after, key, value, int64(binary.BigEndian.Uint64(rest))
	return true
}

func (e *Entries) breaks() bool {
	e.broken, e.packed = true, nil
	return false
}

// Broken says that the page has ended at bytes that are no entry.
func (e *Entries) Broken() bool { return e.broken }

// cutBytes takes a length and so many bytes from the beginning of b.
func cutBytes(b []byte) (head, rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, nil, false
	}
	length, n := uint64(b[0]), 1
	if length >= 0x80 {
		if length, n = binary.Uvarint(b); n <= 0 {
			return nil, nil, false
		}
	}
	if b = b[n:]; length > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:length:length], b[length:], true
}
