package kafka

import (
	"bytes"
	"time"
	"unsafe"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/kafka/transaction"
	"github.com/millrace-io/millrace/record"
)

// batch is records of one partition. It belongs to the owner until it is sealed, then to the sender.
type batch struct {
	transaction.Batch
	records []sarama.Record
	arena   []byte
	refs    []*sarama.Record
	// bytes is about what it takes on the wire, memory what it takes here.
	bytes, memory int
	first         int64
	last          int64
	born          time.Time
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
	*b = batch{records: b.records[:0], arena: b.arena[:0], refs: b.refs[:0]}
	return b
}

// release gives a batch back. A few are kept: enough to go round, not what a burst needed.
func (p *Producer) release(b *batch) {
	p.buffered.Add(-int64(b.memory))
	p.freeMu.Lock()
	defer p.freeMu.Unlock()
	if len(p.free) < 32 {
		clear(b.records)
		p.free = append(p.free, b)
	}
}

// frameBytes is what a record costs besides its bytes: the client library's frame, the reference to it, and half as much
// again for slices that grow. Most records are smaller than that, so a limit that left it out would be several times what
// it says.
const frameBytes = int(unsafe.Sizeof(sarama.Record{}))*3/2 + 8

func (b *batch) add(r *record.Raw, size int) {
	if len(b.records) == 0 {
		b.first, b.last = r.Timestamp, r.Timestamp
	}
	b.last = max(b.last, r.Timestamp)
	s := sarama.Record{
		Key: b.copy(r.Key), Value: b.copy(r.Value), OffsetDelta: int64(len(b.records)),
		TimestampDelta: time.Duration(r.Timestamp-b.first) * time.Millisecond,
	}
	for _, h := range r.Headers {
		s.Headers = append(s.Headers, &sarama.RecordHeader{Key: b.copy([]byte(h.Key)), Value: b.copy(h.Value)})
	}
	b.records = append(b.records, s)
	b.bytes += size
	b.memory += size + frameBytes
	b.Records++
}

// copy puts bytes into the arena. When it is full another one is begun; what points into the old one keeps it alive.
func (b *batch) copy(v []byte) []byte {
	if len(v) == 0 {
		return v // nil stays null; a slice of an arena that is not there yet would make empty null too
	}
	if len(b.arena)+len(v) > cap(b.arena) {
		b.arena = make([]byte, 0, max(2*cap(b.arena), len(v), 16<<10))
	}
	at := len(b.arena)
	b.arena = append(b.arena, v...)
	return b.arena[at:len(b.arena):len(b.arena)]
}

// raw is one record as it was appended. Its bytes are its own.
func (b *batch) raw(i int) record.Raw {
	r := &b.records[i]
	raw := record.Raw{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Timestamp: b.first + r.TimestampDelta.Milliseconds()}
	for _, h := range r.Headers {
		raw.Headers = append(raw.Headers, record.Header{Key: string(h.Key), Value: bytes.Clone(h.Value)})
	}
	return raw
}

// wire is the batch as the client library takes it.
func (b *batch) wire(pid int64, epoch int16, codec sarama.CompressionCodec, transactional bool) *sarama.RecordBatch {
	if len(b.refs) == 0 {
		for i := range b.records {
			b.refs = append(b.refs, &b.records[i])
		}
	}
	w := &sarama.RecordBatch{
		Version: 2, Codec: codec, ProducerID: pid, ProducerEpoch: epoch, FirstSequence: b.Sequence(), Records: b.refs, IsTransactional: transactional,
		LastOffsetDelta: int32(len(b.refs) - 1), FirstTimestamp: time.UnixMilli(b.first), MaxTimestamp: time.UnixMilli(b.last),
	}
	if codec != sarama.CompressionNone {
		w.CompressionLevel = sarama.CompressionLevelDefault
	}
	return w
}

// part copies some records of a batch into a new one, which takes their bytes over.
func (p *Producer) part(b *batch, from, to int, without map[int]bool) *batch {
	n := p.newBatch(b.To, b.Interval)
	for i := from; i < to; i++ {
		if without[i] {
			continue
		}
		raw := b.raw(i)
		size := recordSize(&raw)
		n.add(&raw, size)
		b.bytes -= size
		b.memory -= size + frameBytes
	}
	return n
}
