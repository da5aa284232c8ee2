package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// ProducerConfig is how a Producer batches. Zero values mean the defaults in brackets.
type ProducerConfig struct {
	Config Config
	// Linger is how long a record waits for company [20 ms].
	Linger time.Duration
	// BatchBytes is the size at which a batch is sent [512 KiB]; a record above MaxRecordBytes [1,000,000] is refused.
	BatchBytes, MaxRecordBytes int
	// MaxInFlight is how many requests may be under way per broker [5].
	MaxInFlight int
	// DeliveryTimeout is how long a batch is tried [2 min].
	DeliveryTimeout time.Duration
	// Compression is none, gzip, snappy, lz4 or zstd [none].
	Compression string
}

func (c *ProducerConfig) fill() error {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&c.Linger, 20*time.Millisecond)
	set(&c.DeliveryTimeout, 2*time.Minute)
	if c.BatchBytes <= 0 {
		c.BatchBytes = 512 << 10
	}
	if c.MaxRecordBytes <= 0 {
		c.MaxRecordBytes = 1_000_000
	}
	if c.MaxInFlight <= 0 {
		c.MaxInFlight = 5
	}
	if _, ok := codecs[c.Compression]; !ok {
		return fmt.Errorf("kafka: compression %q is not one of none, gzip, snappy, lz4, zstd", c.Compression)
	}
	return nil
}

var codecs = map[string]sarama.CompressionCodec{"": sarama.CompressionNone, "none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD}

// Producer is an idempotent batching producer on raw Produce requests. Append, Tick, Flush and Abort belong to one
// goroutine, its owner; batches are sent and acknowledged by the producer's own. Per partition one batch is under way at a
// time, so order is kept and a refused batch leaves no sequence gap behind it; many partitions share a request.
type Producer struct {
	cfg    ProducerConfig
	sender *sender
	// What follows belongs to the owner.
	topics   map[string][]*lane
	open     []*lane // lanes with an unsealed batch
	last     string
	lastLane []*lane
	count    uint64
	buffered atomic.Int64
	// free are batches to use again; the mutex protects it, since the sender gives them back.
	freeMu sync.Mutex
	free   []*batch
}

// lane is one partition as the owner sees it.
type lane struct {
	tp   record.TopicPartition
	open *batch
}

// NewProducer returns a running producer. deliver gets broker.Flushed and broker.ConnectionChanged on the producer's
// goroutine and must not block.
func NewProducer(cfg ProducerConfig, deliver func(broker.Event)) (*Producer, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	p := &Producer{cfg: cfg, topics: map[string][]*lane{}}
	p.sender = newSender(p, deliver)
	go p.sender.run()
	return p, nil
}

// Append copies the record into its partition's batch. Its error is a *broker.Error of class Record for a record that no
// broker would take, or the class of a look-up of the topic's partitions that failed.
func (p *Producer) Append(tp record.TopicPartition, r *record.Raw) error {
	size := recordSize(r)
	if size > p.cfg.MaxRecordBytes {
		return NewError(broker.OpProduce, int16(sarama.ErrMessageSizeTooLarge), tp, fmt.Errorf("a record of %d bytes is above the limit of %d", size, p.cfg.MaxRecordBytes))
	}
	l, err := p.lane(tp)
	if err != nil {
		return err
	}
	b := l.open
	if b != nil && b.bytes+size > p.cfg.BatchBytes && len(b.records) > 0 {
		p.seal(l)
		b = nil
	}
	if b == nil {
		b = p.newBatch(tp)
		l.open = b
		p.open = append(p.open, l)
	}
	b.add(r, size)
	p.buffered.Add(int64(size))
	return nil
}

func recordSize(r *record.Raw) int {
	n := 24 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 8 + len(h.Key) + len(h.Value)
	}
	return n
}

func (p *Producer) lane(tp record.TopicPartition) (*lane, error) {
	lanes := p.lastLane
	if tp.Topic != p.last || lanes == nil {
		lanes = p.topics[tp.Topic]
		if lanes == nil {
			n, err := p.Partitions(tp.Topic)
			if err != nil {
				return nil, err
			}
			for i := range n {
				lanes = append(lanes, &lane{tp: record.TopicPartition{Topic: tp.Topic, Partition: i}})
			}
			p.topics[tp.Topic] = lanes
		}
		p.last, p.lastLane = tp.Topic, lanes
	}
	if tp.Partition < 0 || int(tp.Partition) >= len(lanes) {
		return nil, NewError(broker.OpProduce, int16(sarama.ErrUnknownTopicOrPartition), tp, fmt.Errorf("topic %q has %d partitions", tp.Topic, len(lanes)))
	}
	return lanes[tp.Partition], nil
}

// seal hands the lane's open batch to the sender.
func (p *Producer) seal(l *lane) {
	b := l.open
	l.open = nil
	for i, o := range p.open {
		if o == l {
			p.open[i] = p.open[len(p.open)-1]
			p.open = p.open[:len(p.open)-1]
			break
		}
	}
	p.count++
	b.number = p.count
	p.sender.put(b)
}

// Tick sends batches whose linger is over; next is when the next one's is, zero if none is open.
func (p *Producer) Tick(now time.Time) (next time.Time) {
	for i := 0; i < len(p.open); {
		l := p.open[i]
		if l.open.born.IsZero() {
			l.open.born = now
		}
		due := l.open.born.Add(p.cfg.Linger)
		if !now.Before(due) {
			p.seal(l) // moves another lane to i
			continue
		}
		if next.IsZero() || due.Before(next) {
			next = due
		}
		i++
	}
	return next
}

// Buffered is what was appended and not acknowledged, in bytes.
func (p *Producer) Buffered() int64 { return p.buffered.Load() }

// Flush sends everything that was appended. Exactly one broker.Flushed with the token follows, when all of it is
// acknowledged or given up.
func (p *Producer) Flush(token uint64) {
	for len(p.open) > 0 {
		p.seal(p.open[0])
	}
	p.sender.flush(token, p.count)
}

// Partitions is a topic's partition count; it may ask the cluster the first time.
func (p *Producer) Partitions(topic string) (int32, error) {
	var n int32
	err := p.sender.retry(func() (err error) {
		n, err = p.sender.cluster.partitions(topic)
		return err
	})
	return n, err
}

// Amend adds records to what the last Flush has sent and flushes again.
func (p *Producer) Amend(token uint64, records []broker.Outgoing) {
	for i := range records {
		if err := p.Append(records[i].To, &records[i].Record); err != nil {
			p.sender.deliver(broker.Flushed{Token: token, Err: asError(broker.OpProduce, records[i].To, err)})
			return
		}
	}
	p.Flush(token)
}

// Commit is refused: this producer has no transactional id.
func (p *Producer) Commit(token uint64, _ broker.Offsets, _ broker.Membership) {
	p.sender.deliver(broker.TransactionEnded{Token: token, Err: notTransactional(broker.OpEndTxn)})
}

// Fence is refused: this producer has no transactional id.
func (p *Producer) Fence(token uint64, _ string) {
	p.sender.deliver(broker.Fenced{Token: token, Err: notTransactional(broker.OpInitProducerID)})
}

func notTransactional(op broker.Op) *broker.Error {
	return &broker.Error{Op: op, Class: broker.Fatal, Cause: errors.New("the producer has no transactional id")}
}

// Abort forgets what was appended, as far as no broker has seen it, and its flushes. A batch that was sent once is
// finished: its sequence may be in the log, and another batch under the same one would be taken for a duplicate.
func (p *Producer) Abort(token uint64) {
	for _, l := range p.open {
		p.buffered.Add(-int64(l.open.bytes))
		l.open = nil
	}
	p.open = p.open[:0]
	p.sender.reset()
	p.sender.deliver(broker.TransactionAborted{Token: token})
}

// Close ends the producer without sending what is not flushed. It returns when its goroutine is gone, or ctx's cause.
func (p *Producer) Close(ctx context.Context) error {
	p.sender.stop()
	select {
	case <-p.sender.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// batch is records of one partition. It belongs to the owner until it is sealed, then to the sender.
type batch struct {
	tp      record.TopicPartition
	number  uint64
	records []sarama.Record
	arena   []byte
	bytes   int
	first   int64
	last    int64
	born    time.Time

	// What follows is the sender's.
	refs     []*sarama.Record
	sequence int32
	sent     bool
	attempts int
	retryAt  time.Time
	deadline time.Time
}

func (p *Producer) newBatch(tp record.TopicPartition) *batch {
	p.freeMu.Lock()
	defer p.freeMu.Unlock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		*b = batch{tp: tp, records: b.records[:0], arena: b.arena[:0], refs: b.refs[:0]}
		return b
	}
	return &batch{tp: tp}
}

// release gives a batch back. A few are kept: enough to go round, not what a burst needed.
func (p *Producer) release(b *batch) {
	p.buffered.Add(-int64(b.bytes))
	p.freeMu.Lock()
	defer p.freeMu.Unlock()
	if len(p.free) < 32 {
		clear(b.records)
		p.free = append(p.free, b)
	}
}

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

// wire is the batch as the client library takes it.
func (b *batch) wire(pid int64, epoch int16, codec sarama.CompressionCodec) *sarama.RecordBatch {
	if len(b.refs) == 0 {
		for i := range b.records {
			b.refs = append(b.refs, &b.records[i])
		}
	}
	w := &sarama.RecordBatch{
		Version: 2, Codec: codec, ProducerID: pid, ProducerEpoch: epoch, FirstSequence: b.sequence, Records: b.refs,
		LastOffsetDelta: int32(len(b.refs) - 1), FirstTimestamp: time.UnixMilli(b.first), MaxTimestamp: time.UnixMilli(b.last),
	}
	if codec != sarama.CompressionNone {
		w.CompressionLevel = sarama.CompressionLevelDefault
	}
	return w
}
