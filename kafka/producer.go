package kafka

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/transaction"
	"github.com/millrace-io/millrace/record"
)

// ProducerConfig is how a Producer batches. Zero values mean the defaults in brackets.
type ProducerConfig struct {
	Config Config
	// TransactionalID makes an interval a transaction. Empty, the producer is idempotent: what is appended is written, and
	// nothing is ever committed or taken back.
	TransactionalID string
	// TransactionTimeout is how long the coordinator lets a transaction be open before it aborts it [60 s].
	TransactionTimeout time.Duration
	// Linger is how long a record waits for company [20 ms].
	Linger time.Duration
	// BatchBytes is the size at which a batch is sent [512 KiB]; a record above MaxRecordBytes [1,000,000] is refused.
	BatchBytes, MaxRecordBytes int
	// MaxInFlight is how many requests may be under way per broker, and how many batches per partition [5, and at most 5:
	// brokers know a partition's last 5 batches again].
	MaxInFlight int
	// DeliveryTimeout is how long a batch is tried [2 min; in transactions two thirds of their time-out, but 20 s at least,
	// since the brokers take 9 to 11 s to replace one of them].
	DeliveryTimeout time.Duration
	// Compression is none, gzip, snappy, lz4 or zstd [none].
	Compression string
}

func (c *ProducerConfig) fill() error {
	if err := c.Config.validate(); err != nil {
		return err
	}
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&c.Linger, 20*time.Millisecond)
	set(&c.TransactionTimeout, time.Minute)
	if c.TransactionalID != "" {
		set(&c.DeliveryTimeout, max(20*time.Second, c.TransactionTimeout*2/3))
	}
	set(&c.DeliveryTimeout, 2*time.Minute)
	if c.BatchBytes <= 0 {
		c.BatchBytes = 512 << 10
	}
	if c.MaxRecordBytes <= 0 {
		c.MaxRecordBytes = 1_000_000
	}
	if c.MaxInFlight <= 0 || c.MaxInFlight > 5 {
		c.MaxInFlight = 5
	}
	if _, ok := codecs[c.Compression]; !ok {
		return fmt.Errorf("kafka: compression %q is not one of none, gzip, snappy, lz4, zstd", c.Compression)
	}
	return nil
}

// Producer is a batching producer on raw requests, idempotent or, with a transactional id, transactional. One object serves a
// thread's slot for its whole life: after whatever happened to a transaction, Abort makes it usable again. Append, Amend,
// Tick, Flush, Commit, Abort and Fence belong to one goroutine, its owner, and only submit; requests are made and answered
// on the producer's own, and their outcomes are delivered as events.
//
// Up to MaxInFlight batches of a partition are under way at a time. Order is kept; a refused batch leaves no gap in the
// sequence, because what was sent behind it is numbered anew.
//
// A transaction begins with the first record that is appended after the last Commit or Abort, or with a Commit that has
// offsets and no records. Records of the next interval are collected, and their partitions are known, while the one before
// is being committed; they are sent when it has ended. A Flush that neither a Commit nor an Abort follows leaves its
// transaction open, and what is appended after it waits.
type Producer struct {
	cfg    ProducerConfig
	sender *sender
	// What follows belongs to the owner.
	topics   map[string][]*lane
	open     []*lane // lanes with an unsealed batch
	last     string
	lastLane []*lane
	interval uint64
	buffered atomic.Int64
	// free are batches to use again; the mutex protects it, since the sender gives them back.
	freeMu sync.Mutex
	free   []*batch
}

// NewProducer returns a running producer. deliver gets broker.Flushed, broker.TransactionEnded, broker.TransactionAborted,
// broker.Fenced and broker.ConnectionChanged on the producer's goroutines and must not block. A transactional id is initialised
// at once, which ends what an earlier producer of that name has left open. Its error says which setting of cfg cannot work.
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
// broker would take (too large; no key, for a compacted topic), or the class of a look-up of the topic's partitions that failed.
func (p *Producer) Append(tp record.TopicPartition, r *record.Raw) error {
	l, err := p.lane(tp)
	if err != nil {
		return err
	}
	size := recordSize(r)
	if size > p.cfg.MaxRecordBytes || (l.keyed && r.Key == nil) {
		return p.check(l, r, size)
	}
	b := l.open
	if b != nil && b.bytes+size > p.cfg.BatchBytes && b.Records > 0 {
		p.seal(l)
		b = nil
	}
	if b == nil {
		b = p.begin(l)
	}
	b.add(r, size)
	p.buffered.Add(int64(size))
	return nil
}

// begin opens a batch, and announces the partition at its first one in an interval: it is being added to the transaction
// while records are still collected.
func (p *Producer) begin(l *lane) *batch {
	b := p.newBatch(l.tp, p.interval)
	l.open = b
	p.open = append(p.open, l)
	if p.cfg.TransactionalID != "" && l.touched != p.interval+1 {
		l.touched = p.interval + 1
		p.sender.put(touched{l.tp, p.interval})
	}
	return b
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

// Buffered is what was appended and not acknowledged, in bytes of memory.
func (p *Producer) Buffered() int64 { return p.buffered.Load() }

// Flush ends the interval and sends everything of it. Exactly one broker.Flushed with the token follows, when all of it is
// acknowledged, refused or given up, unless an Abort comes first.
func (p *Producer) Flush(token uint64) {
	for len(p.open) > 0 {
		p.seal(p.open[0])
	}
	p.sender.put(flushAsked{token, p.interval})
	p.interval++
}

// Amend adds records to the interval that the last Flush has ended and flushes it again. What is wrong with one of them is
// the error of the broker.Flushed, and then none is added.
func (p *Producer) Amend(token uint64, records []broker.Outgoing) {
	for i := range records {
		l, err := p.lane(records[i].To)
		if err == nil {
			err = p.check(l, &records[i].Record, recordSize(&records[i].Record))
		}
		if err != nil {
			p.sender.deliver(broker.Flushed{Token: token, Err: asError(broker.OpProduce, records[i].To, err)})
			return
		}
	}
	batches := map[record.TopicPartition]*batch{}
	for i := range records {
		to, r := records[i].To, &records[i].Record
		size := recordSize(r)
		b := batches[to]
		if b != nil && b.bytes+size > p.cfg.BatchBytes {
			p.sender.put(b)
			b = nil
		}
		if b == nil {
			b = p.newBatch(to, p.interval-1)
			batches[to] = b
		}
		b.add(r, size)
		p.buffered.Add(int64(size))
	}
	for _, b := range batches {
		p.sender.put(b)
	}
	p.sender.put(flushAsked{token, p.interval - 1})
}

// Partitions is a topic's partition count; it may ask the cluster the first time. Its error has a *broker.Error in its chain: the
// topic does not exist, may not be seen, or no broker answers.
func (p *Producer) Partitions(topic string) (int32, error) {
	var n int32
	err := p.sender.retry(func() (err error) {
		n, err = p.sender.cluster.partitions(topic)
		return err
	})
	return n, err
}

// Commit commits the transaction of the interval that was flushed, with offsets for the group. Exactly one
// broker.TransactionEnded with the token follows, unless an Abort comes first.
func (p *Producer) Commit(token uint64, offsets broker.Offsets, of broker.Membership) {
	p.sender.put(commitAsked{token, offsets, of})
}

// Abort takes back what was appended, of every interval: exactly once all that is not committed, at least once what no broker
// has seen. Flushes and a commit that were asked for before are not answered any more; records may be appended at once.
// Exactly one broker.TransactionAborted with the token follows, when nothing of the old is under way any more.
func (p *Producer) Abort(token uint64) {
	for _, l := range p.open {
		p.release(l.open)
		l.open = nil
	}
	p.open = p.open[:0]
	p.interval++
	p.sender.put(abortAsked{token, p.interval})
}

// Fence ends the open transaction of another transactional id. Exactly one broker.Fenced with the token follows. It is
// tried for as long as a batch is.
func (p *Producer) Fence(token uint64, transactionalID string) {
	p.sender.fence(token, transactionalID)
}

// Counts are what a producer has done since it was made: transactions that were committed and aborted, how often another
// producer took its id over, how often it initialised its id again, and how many commits it could not find out about.
type Counts = transaction.Counts

// Counts may be called from any goroutine.
func (p *Producer) Counts() Counts { return *p.sender.counts.Load() }

// Close ends the producer without sending what is not flushed. It returns when its goroutines are gone, or ctx's cause. A
// transaction that is open stays so until its time-out, or until the next producer of the name.
func (p *Producer) Close(ctx context.Context) error {
	p.sender.stop()
	select {
	case <-p.sender.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
