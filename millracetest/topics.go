package millracetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
)

// topics are the logs of a Driver, by partition. Nothing is ever removed from one.
type topics struct {
	counts map[string]int32
	logs   map[record.TopicPartition][]record.Raw
	// read is up to where Read has come.
	read map[record.TopicPartition]int
}

// logRecords is for how many records a log has room at first.
const logRecords = 64

func newTopics() *topics {
	return &topics{counts: map[string]int32{}, logs: map[record.TopicPartition][]record.Raw{}, read: map[record.TopicPartition]int{}}
}

// end is the offset of the next record.
func (t *topics) end(tp record.TopicPartition) int64 { return int64(len(t.logs[tp])) }

// append gives a record its offset; the log keeps what r refers to.
func (t *topics) append(tp record.TopicPartition, r record.Raw) {
	log := t.logs[tp]
	r.Offset = int64(len(log))
	if len(log) == cap(log) {
		log = slices.Grow(log, max(logRecords, len(log))) // append's own steps would copy each record four times
	}
	t.logs[tp] = append(log, r)
}

// batch is what lies between an offset and the end.
func (t *topics) batch(tp record.TopicPartition, from int64) broker.Batch {
	records, end := t.logs[tp][from:], t.end(tp)
	return broker.Batch{Source: tp, Records: records[:len(records):len(records)], From: from, Next: end, HighWatermark: end, LastStable: end, LeaderEpoch: -1}
}

// Read implements store.ChangelogReader.
func (t *topics) Read(_ context.Context, tp record.TopicPartition, from, to int64, _ bool, fn func(broker.Batch) error) error {
	if from >= to {
		return nil
	}
	return fn(t.batch(tp, from))
}

// Ends implements store.ChangelogReader.
func (t *topics) Ends(_ context.Context, tps []record.TopicPartition) (map[record.TopicPartition]store.LogRange, error) {
	ranges := map[record.TopicPartition]store.LogRange{}
	for _, tp := range tps {
		ranges[tp] = store.LogRange{HighWatermark: t.end(tp)}
	}
	return ranges, nil
}

// interval is a task's producer: what the task sends waits here until its commit.
type interval struct {
	topics *topics
	sent   []broker.Outgoing
	// ends is what the last commit gave back.
	ends map[record.TopicPartition]int64
	// kept, if not nil, gets what was committed in the place of the topics.
	kept func(broker.Outgoing)
}

// Append implements task.Producer.
func (i *interval) Append(tp record.TopicPartition, r *record.Raw) error {
	i.sent = append(i.sent, broker.Outgoing{To: tp, Record: copied(r)})
	return nil
}

// Partitions implements task.Producer.
func (i *interval) Partitions(topic string) (int32, error) {
	n, ok := i.topics.counts[topic]
	if !ok {
		return 0, fmt.Errorf("topic %q does not exist", topic)
	}
	return n, nil
}

// commit gives the ends of the partitions that it has written to. They are good until the next commit.
func (i *interval) commit() (ends map[record.TopicPartition]int64) {
	if i.ends == nil {
		i.ends = map[record.TopicPartition]int64{}
	}
	clear(i.ends)
	for _, out := range i.sent {
		if i.kept != nil {
			i.kept(out)
			continue
		}
		i.topics.append(out.To, out.Record)
		i.ends[out.To] = i.topics.end(out.To)
	}
	i.abort()
	return i.ends
}

func (i *interval) abort() {
	clear(i.sent)
	i.sent = i.sent[:0]
}

// copied shares no memory with r.
func copied(r *record.Raw) record.Raw {
	c := *r
	c.Key, c.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	c.Headers = nil
	for _, h := range r.Headers {
		c.Headers = append(c.Headers, record.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	return c
}
