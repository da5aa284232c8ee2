package record

import (
	"bytes"
	"encoding/binary"
)

// Windowed is a key within a window. Times are in milliseconds since the Unix epoch.
//
// End is Kafka Streams': excluded for tumbling and hopping windows, included for sliding and session windows. A session
// of one record has Start == End.
type Windowed[K any] struct {
	Key        K
	Start, End int64
}

// The key bytes of window and session stores in Kafka Streams' changelogs, big endian (facts: Kafka Streams'
// WindowKeySchema and SessionKeySchema):
//
//	window    key, start (8), sequence number (4)
//	session   key, end (8), start (8)
//
// Keys have any length, so keys of two lengths interleave in byte order: "a" in a late window comes after "a\x00" in an
// early one. Whoever reads a range of them splits every row and compares key and times exactly.
const (
	WindowSuffix  = 8 + 4
	SessionSuffix = 8 + 8
)

// AppendWindowSuffix makes dst, which ends with a key, a window store's key. seq is 0 unless a store keeps duplicates.
func AppendWindowSuffix(dst []byte, start int64, seq uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(dst, uint64(start)), seq)
}

// SplitWindowKey takes a window store's key apart; key shares its memory. ok is false for bytes that are none: too short,
// or with a start below 0.
func SplitWindowKey(b []byte) (key []byte, start int64, seq uint32, ok bool) {
	n := len(b) - WindowSuffix
	if n < 0 {
		return nil, 0, 0, false
	}
	start = int64(binary.BigEndian.Uint64(b[n:]))
	return b[:n:n], start, binary.BigEndian.Uint32(b[n+8:]), start >= 0
}

// AppendSessionSuffix makes dst, which ends with a key, a session store's key.
func AppendSessionSuffix(dst []byte, start, end int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(end)), uint64(start))
}

// SplitSessionKey takes a session store's key apart; key shares its memory. ok is false for bytes that are none: too
// short, with a start below 0, or with an end before it.
func SplitSessionKey(b []byte) (key []byte, start, end int64, ok bool) {
	n := len(b) - SessionSuffix
	if n < 0 {
		return nil, 0, 0, false
	}
	end, start = int64(binary.BigEndian.Uint64(b[n:])), int64(binary.BigEndian.Uint64(b[n+8:]))
	return b[:n:n], start, end, start >= 0 && end >= start
}

// UpperBound is the highest key that any key up to and including key can have in a store whose keys end with a suffix of
// at most the given one. It is not key with the suffix: a key that is shorter, "a" against "a\x00", may sort behind that
// once its own suffix follows. So every beginning of key is tried with the suffix, and the highest wins.
func UpperBound(key, suffix []byte) []byte {
	best := append(bytes.Clone(key), suffix...)
	for i := len(key) - 1; i >= 0; i-- {
		if bytes.Compare(suffix, best[i:]) > 0 {
			best = append(best[:i], suffix...)
		}
	}
	return best
}
