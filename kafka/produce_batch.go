package kafka

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"iter"
	"slices"
	"time"

	"github.com/millrace-io/millrace/kafka/transaction"
	"github.com/millrace-io/millrace/record"
)

// batch is records of one partition. It belongs to the owner until it is sealed, then to the sender.
type batch struct {
	transaction.Batch
	// records are encoded as they are appended, once. compressed is what is sent in their place; empty without a codec, and
	// until the batch is sent.
	records, compressed []byte
	// bytes is about what it takes on the wire, and in memory.
	bytes int
	// first and last are the timestamps of the first record and the highest one, in milliseconds.
	first, last int64
	born        time.Time
}

func (p *Producer) newBatch(tp record.TopicPartition, interval uint64) *batch {
	b := p.reuse()
	b.To, b.Interval, b.Payload = tp, interval, b
	return b
}

func (p *Producer) reuse() *batch {
	p.freeMu.Lock()
	defer p.freeMu.Unlock()
	n := len(p.free)
	if n == 0 {
		return &batch{}
	}
	b := p.free[n-1]
	p.free = p.free[:n-1]
	*b = batch{records: b.records[:0], compressed: b.compressed[:0]}
	return b
}

// release gives a batch back. A few are kept: enough to go round, not what a burst needed.
func (p *Producer) release(b *batch) {
	p.buffered.Add(-int64(b.bytes))
	p.freeMu.Lock()
	defer p.freeMu.Unlock()
	if len(p.free) < 32 {
		p.free = append(p.free, b)
	}
}

// leastBatch is the memory that a batch begins with.
const leastBatch = 4 << 10

func (b *batch) add(r *record.Raw, size int) {
	if b.Records == 0 {
		b.first, b.last = r.Timestamp, r.Timestamp
	}
	b.last = max(b.last, r.Timestamp)
	if cap(b.records) == 0 {
		b.records = make([]byte, 0, max(leastBatch, size))
	}
	b.records = appendRecord(b.records, r, int64(b.Records), r.Timestamp-b.first)
	b.bytes += size
	b.Records++
}

// all are the records as they were appended. Their bytes are their own.
func (b *batch) all() iter.Seq2[int, record.Raw] {
	return func(yield func(int, record.Raw) bool) {
		rest := b.records
		for i := range int(b.Records) {
			var r record.Raw
			rest, _ = takeRecord(rest, &r)
			r.Timestamp, r.Offset = r.Timestamp+b.first, 0
			r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
			for j := range r.Headers {
				r.Headers[j].Value = bytes.Clone(r.Headers[j].Value)
			}
			if !yield(i, r) {
				return
			}
		}
	}
}

// part copies some records of a batch into a new one, which takes their bytes over.
func (p *Producer) part(b *batch, from, to int, without map[int]bool) *batch {
	n := p.newBatch(b.To, b.Interval)
	for i, raw := range b.all() {
		if i < from || i >= to || without[i] {
			continue
		}
		size := recordSize(&raw)
		n.add(&raw, size)
		b.bytes -= size
	}
	return n
}

// payload is the records as they are sent, and the codec that they are in. What cannot be compressed is sent as it is.
func (b *batch) payload(codec int8) ([]byte, int8) {
	if codec == codecNone {
		return b.records, codecNone
	}
	if len(b.compressed) == 0 {
		compressed, err := compress(codec, b.compressed, b.records)
		if err != nil {
			return b.records, codecNone
		}
		b.compressed = compressed
	}
	return b.compressed, codec
}

// appendHead appends what comes before the records of a batch in the log.
func (b *batch) appendHead(dst []byte, pid int64, epoch int16, codec int8, transactional bool, payload []byte) []byte {
	at := len(dst)
	dst = slices.Grow(dst, headBytes)[:at+headBytes]
	h := dst[at:]
	binary.BigEndian.PutUint64(h, 0) // the broker gives offsets
	binary.BigEndian.PutUint32(h[lengthAt:], uint32(headBytes-epochAt+len(payload)))
	binary.BigEndian.PutUint32(h[epochAt:], 0)
	h[magicAt] = 2
	attributes := uint16(codec)
	if transactional {
		attributes |= attributeTransactional
	}
	binary.BigEndian.PutUint16(h[attributesAt:], attributes)
	binary.BigEndian.PutUint32(h[lastDeltaAt:], uint32(b.Records-1))
	binary.BigEndian.PutUint64(h[firstTimeAt:], uint64(b.first))
	binary.BigEndian.PutUint64(h[maxTimeAt:], uint64(b.last))
	binary.BigEndian.PutUint64(h[producerAt:], uint64(pid))
	binary.BigEndian.PutUint16(h[producerEpochAt:], uint16(epoch))
	binary.BigEndian.PutUint32(h[sequenceAt:], uint32(b.Sequence()))
	binary.BigEndian.PutUint32(h[countAt:], uint32(b.Records))
	sum := crc32.Update(crc32.Checksum(h[attributesAt:], castagnoli), castagnoli, payload)
	binary.BigEndian.PutUint32(h[checksumAt:], sum)
	return dst
}
