package raw

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/bench/work"
)

const (
	batchRecords = 1000
	batchBytes   = 900 << 10
	requestBytes = 4 << 20
	inFlight     = 5
)

// producer is an idempotent producer on one connection, with up to five requests in flight. It belongs to one goroutine;
// only answers come in on another. With a transaction it also is transactional.
type producer struct {
	conn        *sarama.Broker
	client      *Client
	id          int64
	epoch       int16
	codec       sarama.CompressionCodec
	transaction *transaction
	outlets     []*outlet
	// answers holds one place per request in flight.
	answers chan error
	waiting int
}

// outlet is a topic that a producer writes to. It is made before the first record is added.
type outlet struct {
	p        *producer
	topic    string
	open     []batch
	sequence []int32
}

// batch is what was added for a partition and not sent. Its records are used again for every batch: sarama has encoded
// them when AsyncProduce returns.
type batch struct {
	records []*sarama.Record
	n       int
	bytes   int
	// first and last are timestamps in milliseconds, of the first record and the latest.
	first, last int64
}

// producer connects one. An empty compression or transactional id is none; group is whose offsets its transactions commit.
func (c *Client) producer(compression, transactional, group string) (*producer, error) {
	var codec sarama.CompressionCodec
	if err := codec.UnmarshalText([]byte(cmp.Or(compression, "none"))); err != nil {
		return nil, err
	}
	conn, err := c.connect()
	if err != nil {
		return nil, err
	}
	p := &producer{conn: conn, client: c, codec: codec, answers: make(chan error, inFlight)}
	request := &sarama.InitProducerIDRequest{Version: 3, ProducerID: -1, ProducerEpoch: -1, TransactionTimeout: time.Minute}
	if transactional != "" {
		request.TransactionalID = &transactional
		err = p.transactional(transactional, group)
	}
	if err == nil {
		err = p.identify(request)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("no producer id: %w", err)
	}
	return p, nil
}

// identify asks for an id; a broker that has just started needs a while before it has one.
func (p *producer) identify(request *sarama.InitProducerIDRequest) error {
	return patiently(func() error {
		r, err := p.conn.InitProducerID(request)
		if err != nil {
			return err
		}
		if r.Err != sarama.ErrNoError {
			return r.Err
		}
		p.id, p.epoch = r.ProducerID, r.ProducerEpoch
		return nil
	})
}

// to adds a topic, which exists.
func (p *producer) to(topic string) (*outlet, error) {
	n, err := partitions(p.conn, topic)
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	o := &outlet{p: p, topic: topic, open: make([]batch, n), sequence: make([]int32, n)}
	p.outlets = append(p.outlets, o)
	return o, nil
}

// add takes a record; key and value must stay as they are until the next push. timestamp is in milliseconds.
func (o *outlet) add(partition int32, key, value []byte, timestamp int64) error {
	b := &o.open[partition]
	if b.n == len(b.records) {
		b.records = append(b.records, &sarama.Record{OffsetDelta: int64(b.n)})
	}
	if b.n == 0 {
		b.first, b.last = timestamp, timestamp
	}
	r := b.records[b.n]
	r.Key, r.Value, r.TimestampDelta = key, value, time.Duration(timestamp-b.first)*time.Millisecond
	b.n++
	b.bytes += len(key) + len(value) + 16
	b.last = max(b.last, timestamp)
	if b.n == batchRecords || b.bytes > batchBytes {
		return o.p.send([]slot{{o, partition}})
	}
	return nil
}

// slot is a partition of a topic that a producer writes to.
type slot struct {
	*outlet
	partition int32
}

// send sends the open batches of some partitions in one request.
func (p *producer) send(slots []slot) error {
	if p.transaction != nil {
		if err := p.transaction.add(slots); err != nil {
			return err
		}
	}
	if p.waiting == inFlight {
		if err := p.await(); err != nil {
			return err
		}
	}
	request := &sarama.ProduceRequest{Version: 7, RequiredAcks: sarama.WaitForAll, Timeout: 30_000}
	if p.transaction != nil {
		request.TransactionalID = &p.transaction.name
	}
	for _, s := range slots {
		request.AddBatch(s.topic, s.partition, s.take())
	}
	p.waiting++
	return p.conn.AsyncProduce(request, func(r *sarama.ProduceResponse, err error) { p.answers <- outcome(slots, r, err) })
}

// take makes a batch of what is open for a partition, and begins the next.
func (s slot) take() *sarama.RecordBatch {
	b, p := &s.open[s.partition], s.p
	taken := &sarama.RecordBatch{
		Version: 2, FirstTimestamp: time.UnixMilli(b.first), MaxTimestamp: time.UnixMilli(b.last), LastOffsetDelta: int32(b.n - 1),
		Records: b.records[:b.n], ProducerID: p.id, ProducerEpoch: p.epoch, FirstSequence: s.sequence[s.partition],
		IsTransactional: p.transaction != nil, Codec: p.codec, CompressionLevel: sarama.CompressionLevelDefault,
	}
	s.sequence[s.partition] += int32(b.n)
	b.n, b.bytes = 0, 0
	return taken
}

func outcome(slots []slot, r *sarama.ProduceResponse, err error) error {
	if err != nil {
		return err
	}
	for _, s := range slots {
		block := r.GetBlock(s.topic, s.partition)
		switch {
		case block == nil:
			return errors.New("a produce answer without its partition")
		case block.Err != sarama.ErrNoError && block.Err != sarama.ErrDuplicateSequenceNumber:
			return fmt.Errorf("produce to %s-%d: %w", s.topic, s.partition, block.Err)
		}
	}
	return nil
}

func (p *producer) await() error {
	p.waiting--
	return <-p.answers
}

// push sends what is open, as many partitions in a request as fit; flush also waits until all of it is acknowledged.
func (p *producer) push() error {
	var slots []slot
	size := 0
	for _, o := range p.outlets {
		for partition := range o.open {
			if o.open[partition].n == 0 {
				continue
			}
			if size += o.open[partition].bytes; size > requestBytes && len(slots) > 0 {
				if err := p.send(slots); err != nil {
					return err
				}
				slots, size = nil, o.open[partition].bytes
			}
			slots = append(slots, slot{o, int32(partition)})
		}
	}
	if len(slots) == 0 {
		return nil
	}
	return p.send(slots)
}

func (p *producer) flush() error {
	err := p.push()
	for p.waiting > 0 {
		err = errors.Join(err, p.await())
	}
	return err
}

func (p *producer) close() {
	p.conn.Close()
	if p.transaction != nil {
		p.transaction.conn.Close()
	}
}

// Fill creates an input's topic and writes n records to it. A topic that is there has to be empty.
func (c *Client) Fill(in work.Input, n int) error {
	if err := c.Create(in.Topic, in.Partitions); err != nil {
		return err
	}
	p, err := c.producer(in.Compression, "", "")
	if err != nil {
		return err
	}
	defer p.close()
	o, err := p.to(in.Topic)
	if err != nil {
		return err
	}
	err = in.Messages(n, func(m work.Message) error {
		return o.add(m.Partition, bytes.Clone(m.Key), bytes.Clone(m.Value), m.Timestamp) // a nil key stays nil
	})
	return errors.Join(err, p.flush())
}
