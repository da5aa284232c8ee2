package raw

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/bench/work"
)

const (
	batchRecords = 1000
	batchBytes   = 900 << 10
	inFlight     = 5
)

// producer is an idempotent producer to one topic on one connection, with up to five requests in flight. It belongs to
// one goroutine; only answers come in on another.
type producer struct {
	conn     *sarama.Broker
	topic    string
	id       int64
	epoch    int16
	open     [work.Partitions]batch
	sequence [work.Partitions]int32
	// answers holds one place per request in flight: send fills it before, the answer's error replaces it after.
	answers chan error
	waiting int
}

// batch is what was added for a partition and not sent. Its records are used again for every batch: sarama has encoded
// them when AsyncProduce returns.
type batch struct {
	records []sarama.Record
	refs    []*sarama.Record
	bytes   int
}

func (c *Client) producer(topic string) (*producer, error) {
	conn, err := c.connect()
	if err != nil {
		return nil, err
	}
	r, err := producerID(conn)
	if err != nil {
		return nil, fmt.Errorf("no producer id: %w", err)
	}
	p := &producer{conn: conn, topic: topic, id: r.ProducerID, epoch: r.ProducerEpoch, answers: make(chan error, inFlight)}
	for i := range p.open {
		b := &p.open[i]
		b.records, b.refs = make([]sarama.Record, batchRecords), make([]*sarama.Record, 0, batchRecords)
		for j := range b.records {
			b.records[j].OffsetDelta = int64(j)
		}
	}
	return p, nil
}

// producerID asks for an id; a broker that has just started needs a while before it has one.
func producerID(conn *sarama.Broker) (r *sarama.InitProducerIDResponse, err error) {
	request := &sarama.InitProducerIDRequest{Version: 3, ProducerID: -1, ProducerEpoch: -1, TransactionTimeout: time.Minute}
	for range 200 {
		if r, err = conn.InitProducerID(request); err != nil {
			return nil, err
		}
		if r.Err == sarama.ErrNoError {
			return r, nil
		}
		time.Sleep(25 * time.Millisecond)
	}
	return nil, r.Err
}

// add takes a record; key and value must stay as they are until the next flush.
func (p *producer) add(partition int32, key, value []byte) error {
	b := &p.open[partition]
	r := &b.records[len(b.refs)]
	r.Key, r.Value = key, value
	b.refs = append(b.refs, r)
	b.bytes += len(key) + len(value) + 16
	if len(b.refs) == batchRecords || b.bytes > batchBytes {
		return p.send(partition)
	}
	return nil
}

func (p *producer) send(partition int32) error {
	b := &p.open[partition]
	if len(b.refs) == 0 {
		return nil
	}
	if p.waiting == inFlight {
		if err := p.await(); err != nil {
			return err
		}
	}
	now := time.Now()
	request := &sarama.ProduceRequest{Version: 7, RequiredAcks: sarama.WaitForAll, Timeout: 30_000}
	request.AddBatch(p.topic, partition, &sarama.RecordBatch{
		Version: 2, FirstTimestamp: now, MaxTimestamp: now, LastOffsetDelta: int32(len(b.refs) - 1), Records: b.refs,
		ProducerID: p.id, ProducerEpoch: p.epoch, FirstSequence: p.sequence[partition],
	})
	p.sequence[partition] += int32(len(b.refs))
	p.waiting++
	err := p.conn.AsyncProduce(request, func(r *sarama.ProduceResponse, err error) { p.answers <- p.outcome(partition, r, err) })
	b.refs, b.bytes = b.refs[:0], 0
	return err
}

func (p *producer) outcome(partition int32, r *sarama.ProduceResponse, err error) error {
	if err != nil {
		return err
	}
	block := r.GetBlock(p.topic, partition)
	switch {
	case block == nil:
		return errors.New("a produce answer without its partition")
	case block.Err != sarama.ErrNoError && block.Err != sarama.ErrDuplicateSequenceNumber:
		return fmt.Errorf("produce to %s-%d: %w", p.topic, partition, block.Err)
	}
	return nil
}

func (p *producer) await() error {
	p.waiting--
	return <-p.answers
}

// push sends what is open; flush also waits until all of it is acknowledged.
func (p *producer) push() error {
	for partition := range p.open {
		if err := p.send(int32(partition)); err != nil {
			return err
		}
	}
	return nil
}

func (p *producer) flush() error {
	err := p.push()
	for p.waiting > 0 {
		err = errors.Join(err, p.await())
	}
	return err
}

func (p *producer) close() { p.conn.Close() }

// Fill creates a topic and writes the messages that input hands out.
func (c *Client) Fill(topic string, n int, input func(n int, each func(work.Message) error) error) error {
	if err := c.Create(topic); err != nil {
		return err
	}
	p, err := c.producer(topic)
	if err != nil {
		return err
	}
	defer p.close()
	err = input(n, func(m work.Message) error {
		return p.add(m.Partition, bytes.Clone(m.Key), bytes.Clone(m.Value)) // a nil key stays nil
	})
	return errors.Join(err, p.flush())
}
