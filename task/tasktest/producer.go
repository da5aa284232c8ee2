package tasktest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
)

// Producer keeps records by partition, in order. It is for one goroutine at a time.
type Producer struct {
	// Counts are the topics that exist, with their partition counts.
	Counts map[string]int32
	// Log is what was appended. Offsets are positions in the slice.
	Log map[record.TopicPartition][]record.Raw
	// Err, while set, is what Append returns; Refuse, if set, is asked about each record.
	Err    error
	Refuse func(tp record.TopicPartition, r *record.Raw) error
}

var _ task.Producer = (*Producer)(nil)

// NewProducer returns a producer for the given topics.
func NewProducer(counts map[string]int32) *Producer {
	return &Producer{Counts: counts, Log: map[record.TopicPartition][]record.Raw{}}
}

// Append implements task.Producer.
func (p *Producer) Append(tp record.TopicPartition, r *record.Raw) error {
	if p.Err != nil {
		return p.Err
	}
	if p.Refuse != nil {
		if err := p.Refuse(tp, r); err != nil {
			return err
		}
	}
	c := record.Raw{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Timestamp: r.Timestamp, Offset: int64(len(p.Log[tp]))}
	for _, h := range r.Headers {
		c.Headers = append(c.Headers, record.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	p.Log[tp] = append(p.Log[tp], c)
	return nil
}

// Partitions implements task.Producer.
func (p *Producer) Partitions(topic string) (int32, error) {
	n, ok := p.Counts[topic]
	if !ok {
		return 0, fmt.Errorf("topic %q does not exist", topic)
	}
	return n, nil
}

// Compacted is what a log-compacted partition ends up with: the last record of each key, tombstones left out.
func (p *Producer) Compacted(tp record.TopicPartition) map[string]Row {
	rows := map[string]Row{}
	for _, r := range p.Log[tp] {
		if r.Value == nil {
			delete(rows, string(r.Key))
			continue
		}
		rows[string(r.Key)] = Row{slices.Clip(r.Value), r.Timestamp}
	}
	return rows
}
