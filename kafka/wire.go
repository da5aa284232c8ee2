package kafka

import (
	"encoding/binary"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/record"
)

// Two requests carry records, and they are the only ones that are encoded here and not by the client library: Fetch and
// Produce. The library decodes each record into a frame of its own, which is then copied into ours, and encodes each twice, once
// for its size; both cost more than all the rest of a record's way (docs/performance.md). The versions are the newest ones whose
// encoding has no tagged fields: Fetch 11 (Kafka 2.3) and Produce 8 (2.4). Group offsets in transactions ask for 2.5 anyway.
const (
	apiProduce, produceVersion = 0, 8
	apiFetch, fetchVersion     = 1, 11
)

// newRequest begins a frame: room for its length, then the header. stream.send fills in the length and the correlation id.
func newRequest(dst []byte, api, version int16, clientID string) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(api))
	dst = binary.BigEndian.AppendUint16(dst, uint16(version))
	dst = append(dst, 0, 0, 0, 0)
	return appendString(dst, clientID)
}

// correlationAt is where the correlation id is in a frame.
const correlationAt = 8

func appendString(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

func appendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }
func appendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

// fields takes the fields of an answer one after the other. After the first that is not there it only says so.
type fields struct {
	rest   []byte
	broken bool
}

// next is the next n bytes; they share the answer's memory.
func (f *fields) next(n int) []byte {
	if n < 0 || n > len(f.rest) {
		f.broken, f.rest = true, nil
		return nil
	}
	b := f.rest[:n:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) int16() int16 {
	if b := f.next(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (f *fields) int32() int32 {
	if b := f.next(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (f *fields) int64() int64 {
	if b := f.next(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// string is also for one that may be null, which is empty then.
func (f *fields) string() string {
	if n := f.int16(); n >= 0 {
		return string(f.next(int(n)))
	}
	return ""
}

// bytes may be null.
func (f *fields) bytes() []byte {
	if n := f.int32(); n >= 0 {
		return f.next(int(n))
	}
	return nil
}

// count is the length of a list, 0 for null. No element takes less than a byte, so a damaged one cannot make a loop long.
func (f *fields) count() int {
	n := int(f.int32())
	if n > len(f.rest) {
		f.broken, f.rest = true, nil
		return 0
	}
	return max(n, 0)
}

// varint takes a zig-zag number off the front of b; n is how long it was, 0 or less if there is none.
func varint(b []byte) (v int64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]>>1) ^ -int64(b[0]&1), 1
	}
	return binary.Varint(b)
}

// varintSize is how long a number is in zig-zag form.
func varintSize(v int64) (n int) {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for n = 1; u >= 0x80; n++ {
		u >>= 7
	}
	return n
}

// malformed says that an answer cannot be read. It is the library's error, so that it is classified as one of its own would be.
func malformed(what string) error { return sarama.PacketDecodingError{Info: what} }

// appendRecord encodes a record as it is in a batch; delta counts the offset from the batch's first, timestamp from its first's.
func appendRecord(dst []byte, r *record.Raw, delta, timestamp int64) []byte {
	size := 1 + varintSize(timestamp) + varintSize(delta) + bytesSize(r.Key) + bytesSize(r.Value) + varintSize(int64(len(r.Headers)))
	for _, h := range r.Headers {
		size += varintSize(int64(len(h.Key))) + len(h.Key) + bytesSize(h.Value)
	}
	dst = binary.AppendVarint(dst, int64(size))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, timestamp)
	dst = binary.AppendVarint(dst, delta)
	dst = appendBytes(appendBytes(dst, r.Key), r.Value)
	dst = binary.AppendVarint(dst, int64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = append(binary.AppendVarint(dst, int64(len(h.Key))), h.Key...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

// appendBytes writes null as length -1.
func appendBytes(dst, v []byte) []byte {
	if v == nil {
		return append(dst, 1)
	}
	return append(binary.AppendVarint(dst, int64(len(v))), v...)
}

func bytesSize(v []byte) int {
	if v == nil {
		return 1
	}
	return varintSize(int64(len(v))) + len(v)
}

// takeRecord decodes the record at the front of b into r, whose offset and timestamp are then deltas. It gives what follows, or
// false for bytes that are no record. Key, value and headers' values share b's memory.
func takeRecord(b []byte, r *record.Raw) (rest []byte, ok bool) {
	size, n := varint(b)
	if n <= 0 || size < 0 || size > int64(len(b)-n) {
		return nil, false
	}
	b, rest = b[n:n+int(size)], b[n+int(size):]
	if len(b) == 0 {
		return nil, false
	}
	b = b[1:] // attributes: none are defined
	if r.Timestamp, n = varint(b); n <= 0 {
		return nil, false
	}
	b = b[n:]
	if r.Offset, n = varint(b); n <= 0 {
		return nil, false
	}
	b = b[n:]
	if r.Key, b, ok = takeBytes(b); !ok {
		return nil, false
	}
	if r.Value, b, ok = takeBytes(b); !ok {
		return nil, false
	}
	if len(b) == 1 && b[0] == 0 { // no headers, which is usual
		return rest, true
	}
	return rest, takeHeaders(b, r)
}

func takeHeaders(b []byte, r *record.Raw) bool {
	count, n := varint(b)
	if n <= 0 || count < 0 || count > int64(len(b)) {
		return false
	}
	b = b[n:]
	for range count {
		key, after, ok := takeBytes(b)
		if !ok {
			return false
		}
		h := record.Header{Key: string(key)}
		if h.Value, b, ok = takeBytes(after); !ok {
			return false
		}
		r.Headers = append(r.Headers, h)
	}
	return true
}

// takeBytes takes a key or a value; length -1 is null.
func takeBytes(b []byte) (v, rest []byte, ok bool) {
	size, n := varint(b)
	switch {
	case n <= 0 || size > int64(len(b)-n):
		return nil, nil, false
	case size < 0:
		return nil, b[n:], true
	}
	end := n + int(size)
	return b[n:end:end], b[end:], true
}
