package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// PositionHeader is the name of the header that carries a store's position on its changelog: the last record of each
// commit and store has it.
const PositionHeader = "millrace.position"

// Position says up to where a store has taken up its sources: the next offset of each source partition. It is an alias,
// so that a room may spell it as the map that it is.
type Position = map[TopicPartition]int64

// ErrPosition is found with errors.Is in every error of DecodePosition: the bytes are not a position that this version
// knows. A position informs and decides nothing, so a reader may go on without it.
var ErrPosition = errors.New("not a position")

// positionVersion is the first byte. What follows it in version 1: the number of topics, then for each topic, in byte
// order, its name's length, its name, the number of its partitions, and for each partition, in order, its number and
// its next offset. All numbers are unsigned varints, offsets signed ones.
const positionVersion = 1

// AppendPosition appends the encoding of p to dst. Equal positions have equal encodings.
func AppendPosition(dst []byte, p Position) []byte {
	sources := slices.SortedFunc(maps.Keys(p), TopicPartition.Compare)
	topics := 0
	for i, tp := range sources {
		if i == 0 || tp.Topic != sources[i-1].Topic {
			topics++
		}
	}
	dst = append(dst, positionVersion)
	dst = binary.AppendUvarint(dst, uint64(topics))
	for len(sources) > 0 {
		topic := sources[0].Topic
		n := slices.IndexFunc(sources, func(tp TopicPartition) bool { return tp.Topic != topic })
		if n < 0 {
			n = len(sources)
		}
		dst = binary.AppendUvarint(dst, uint64(len(topic)))
		dst = append(dst, topic...)
		dst = binary.AppendUvarint(dst, uint64(n))
		for _, tp := range sources[:n] {
			dst = binary.AppendUvarint(dst, uint64(uint32(tp.Partition)))
			dst = binary.AppendVarint(dst, p[tp])
		}
		sources = sources[n:]
	}
	return dst
}

// EncodePosition is AppendPosition to nothing.
func EncodePosition(p Position) []byte { return AppendPosition(nil, p) }

// DecodePosition reads what EncodePosition wrote. Its errors wrap ErrPosition.
func DecodePosition(b []byte) (Position, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrPosition)
	}
	if b[0] != positionVersion {
		return nil, fmt.Errorf("%w: version %d, only %d is known", ErrPosition, b[0], positionVersion)
	}
	d := positionDecoder{rest: b[1:]}
	p := Position{}
	for range d.count() {
		topic := string(d.bytes())
		for range d.count() {
			partition := d.uvarint()
			offset := d.varint()
			if !d.failed {
				p[TopicPartition{topic, int32(uint32(partition))}] = offset
			}
		}
	}
	if d.failed || len(d.rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes are cut off or damaged", ErrPosition, len(b))
	}
	return p, nil
}

// MergePosition moves dst forward to every offset of p that is further on.
func MergePosition(dst, p Position) {
	for tp, next := range p {
		if at, ok := dst[tp]; !ok || next > at {
			dst[tp] = next
		}
	}
}

// positionDecoder reads numbers until one is missing; then it only says so.
type positionDecoder struct {
	rest   []byte
	failed bool
}

func (d *positionDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	return advance(d, v, n)
}

func (d *positionDecoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	return advance(d, v, n)
}

func advance[T uint64 | int64](d *positionDecoder, v T, n int) T {
	if n <= 0 || d.failed {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// count is a number of things that are still to come. Each takes two bytes at least, so a damaged count cannot make a
// loop long.
func (d *positionDecoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.rest))/2 {
		d.failed = true
		return 0
	}
	return int(n)
}

func (d *positionDecoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.failed = true
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}
