package store

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The engine's keys. Everything of a store begins with its number, two bytes, from 1 up; number 0 is the task's own:
//
//	0000 'r'            registry (JSON)
//	0000 'c'            wall clock of the last commit, 8 bytes, milliseconds since the Unix epoch
//	0000 'n'            number of the last commit, 8 bytes, which only grows
//	0000 'p'            position (record.EncodePosition)
//	0000 'o' <number>   a store's changelog: next offset (8), wall clock at which that was so (8)
//	0000 't' <number>   a store's time: the highest timestamp that it was ever given, 8 bytes
//	<number> <key>      format (1), timestamp (8), value
const (
	numberBytes   = 2
	valueFormat   = 1
	valueOverhead = 1 + 8
)

var (
	keyRegistry = []byte{0, 0, 'r'}
	keyClock    = []byte{0, 0, 'c'}
	keyCommit   = []byte{0, 0, 'n'}
	keyPosition = []byte{0, 0, 'p'}
)

var errValue = errors.New("store: a value has an unknown format")

func keyOffset(number uint16) []byte { return []byte{0, 0, 'o', byte(number >> 8), byte(number)} }

func keyTime(number uint16) []byte { return []byte{0, 0, 't', byte(number >> 8), byte(number)} }

func appendKey(dst []byte, number uint16, key []byte) []byte {
	return append(binary.BigEndian.AppendUint16(dst, number), key...)
}

// prefixes are the bounds of everything of a store, the second one excluded. No store has the last number.
func prefixes(number uint16) (from, to []byte) {
	return binary.BigEndian.AppendUint16(nil, number), binary.BigEndian.AppendUint16(nil, number+1)
}

func putValue(dst []byte, timestamp int64, value []byte) {
	dst[0] = valueFormat
	binary.BigEndian.PutUint64(dst[1:], uint64(timestamp))
	copy(dst[valueOverhead:], value)
}

// splitValue gives the parts of an engine value; value shares its memory.
func splitValue(b []byte) (timestamp int64, value []byte, err error) {
	if len(b) < valueOverhead || b[0] != valueFormat {
		return 0, nil, fmt.Errorf("%w (%d bytes)", errValue, len(b))
	}
	return int64(binary.BigEndian.Uint64(b[1:])), b[valueOverhead:], nil
}

// mark is what is kept about a store's changelog.
type mark struct {
	next, clock int64
}

func (m mark) encode() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(m.next)), uint64(m.clock))
}

func decodeMark(b []byte) (mark, error) {
	if len(b) != 16 {
		return mark{}, fmt.Errorf("store: a changelog offset has %d bytes, not 16", len(b))
	}
	return mark{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))}, nil
}
