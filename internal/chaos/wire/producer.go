package wire

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/record"
)

// Producer writes to one partition, one batch at a time, each exactly once: a batch is sent with the same sequence
// number until it is acknowledged by all replicas in sync. It is for its client's goroutine.
type Producer struct {
	client   *Client
	tp       record.TopicPartition
	id       int64
	epoch    int16
	sequence int32
}

// NewProducer gets a producer id.
func (c *Client) NewProducer(ctx context.Context, tp record.TopicPartition) (*Producer, error) {
	p := &Producer{client: c, tp: tp}
	return p, c.retry(ctx, "a producer id for "+tp.String(), func() error {
		answer, err := anyBroker(c, func(b *sarama.Broker) (*sarama.InitProducerIDResponse, error) {
			return b.InitProducerID(&sarama.InitProducerIDRequest{Version: 3, ProducerID: -1, ProducerEpoch: -1, TransactionTimeout: time.Minute})
		})
		if err != nil {
			return err
		}
		if answer.Err != sarama.ErrNoError {
			return answer.Err
		}
		p.id, p.epoch = answer.ProducerID, answer.ProducerEpoch
		return nil
	})
}

// Write returns when the records are in the log, or with an error when that is not known and never will be.
func (p *Producer) Write(ctx context.Context, records []record.Raw) error {
	batch := p.batch(records)
	err := p.client.retry(ctx, "writing to "+p.tp.String(), func() error { return p.send(batch) })
	if err == nil {
		p.sequence += int32(len(records))
	}
	return err
}

func (p *Producer) batch(records []record.Raw) *sarama.RecordBatch {
	first, last := records[0].Timestamp, records[0].Timestamp
	for _, r := range records {
		last = max(last, r.Timestamp)
	}
	batch := &sarama.RecordBatch{
		Version: 2, FirstTimestamp: time.UnixMilli(first), MaxTimestamp: time.UnixMilli(last), LastOffsetDelta: int32(len(records) - 1),
		ProducerID: p.id, ProducerEpoch: p.epoch, FirstSequence: p.sequence,
	}
	for i, r := range records {
		out := &sarama.Record{OffsetDelta: int64(i), TimestampDelta: time.Duration(r.Timestamp-first) * time.Millisecond, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			out.Headers = append(out.Headers, &sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
		}
		batch.Records = append(batch.Records, out)
	}
	return batch
}

// refusals are answers that say that the batch, or what is kept of its sequence, is wrong: trying again changes nothing.
var refusals = map[sarama.KError]bool{
	sarama.ErrOutOfOrderSequenceNumber: true, sarama.ErrUnknownProducerID: true, sarama.ErrInvalidProducerEpoch: true,
	sarama.ErrInvalidRecord: true, sarama.ErrMessageSizeTooLarge: true, sarama.ErrInvalidTimestamp: true, sarama.ErrInvalidMessage: true,
}

func (p *Producer) send(batch *sarama.RecordBatch) error {
	l, err := p.client.leader(p.tp)
	if err != nil {
		return err
	}
	request := &sarama.ProduceRequest{Version: 7, RequiredAcks: sarama.WaitForAll, Timeout: 10_000}
	request.AddBatch(p.tp.Topic, p.tp.Partition, batch)
	answer, err := call(p.client, l.address, func(b *sarama.Broker) (*sarama.ProduceResponse, error) { return b.Produce(request) })
	if err != nil {
		return err
	}
	block := answer.GetBlock(p.tp.Topic, p.tp.Partition)
	switch {
	case block == nil:
		return fmt.Errorf("the answer to a batch lacks %s", p.tp)
	case block.Err == sarama.ErrNoError || block.Err == sarama.ErrDuplicateSequenceNumber:
		return nil
	case refusals[block.Err]:
		return &Refused{"a batch for " + p.tp.String(), block.Err}
	}
	return fmt.Errorf("a batch for %s: %w", p.tp, block.Err)
}
