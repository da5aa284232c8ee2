package task

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// host is the task as its processors see it.
type host struct{ t *Task }

var _ topology.Host = host{}

// TaskID implements topology.Host.
func (h host) TaskID() record.TaskID { return h.t.cfg.ID }

// Store implements topology.Host. It is nil for a name that Config.Stores does not hold.
func (h host) Store(name string) topology.StateStore {
	for _, o := range h.t.overlays {
		if o.name == name {
			return o
		}
	}
	return nil
}

// Output implements topology.Host. A topic whose partitions cannot be found out fails the Start.
func (h host) Output(topic string) topology.Output {
	o := h.t.output(topic)
	if o.err != nil {
		h.t.fault(o.err)
	}
	return o
}

func (t *Task) output(topic string) *output {
	o := &output{task: t, topic: topic}
	if o.partitions, o.err = t.cfg.Producer.Partitions(topic); o.err == nil && o.partitions <= 0 {
		o.err = fmt.Errorf("output topic %q has no partitions", topic)
	}
	if o.err != nil {
		o.partitions = 0
	}
	t.outputs = append(t.outputs, o)
	return o
}

// StreamTime implements topology.Host.
func (h host) StreamTime() int64 { return h.t.streamTime }

// Extracted implements topology.Host. The record's own timestamp has moved the times already; that is taken back.
func (h host) Extracted(timestamp int64) {
	t := h.t
	if b := t.current; b != nil {
		b.time = max(t.partitionBefore, timestamp)
		t.streamTime = max(t.before, timestamp)
	}
}

// StreamTimes is the status of each windowed aggregation of the task: its stream time, the record that has moved it, and
// what was late. It is empty while the task does not run.
func (t *Task) StreamTimes() []topology.StreamTimeStatus {
	if c, ok := t.chain.(interface {
		StreamTimes() []topology.StreamTimeStatus
	}); ok {
		return c.StreamTimes()
	}
	return nil
}

// Ahead implements topology.Host.
func (h host) Ahead() bool { return h.t.ahead }

// WallClock implements topology.Host.
func (h host) WallClock() int64 { return h.t.wallClock }

// Current implements topology.Host.
func (h host) Current() (record.TopicPartition, int64, bool) {
	if h.t.current == nil {
		return record.TopicPartition{}, 0, false
	}
	return h.t.current.source, h.t.offset, true
}

// RequestCommit implements topology.Host.
func (h host) RequestCommit() { h.t.commitRequested = true }

// Dropped implements topology.Host.
func (h host) Dropped(reason string) {
	if h.t.cfg.Dropped != nil {
		h.t.cfg.Dropped(reason)
	}
}

// output is one topic that the task writes.
type output struct {
	task       *Task
	topic      string
	partitions int32
	err        error
	// sent counts records without a key. A run of them goes to one partition, so that batches fill; each task begins at
	// another partition.
	sent int32
	// raw and headers are the memory of marked.
	raw     record.Raw
	headers record.Headers
}

// keylessRun is how many records without a key go to one partition before the next has its turn.
const keylessRun = 256

// Send implements topology.Output.
func (o *output) Send(r *record.Raw, partition int32) error {
	switch {
	case o.err != nil:
		return o.err
	case partition >= o.partitions:
		return fmt.Errorf("output topic %q has %d partitions, the partitioner chose %d", o.topic, o.partitions, partition)
	case partition < 0:
		partition = o.partition(r)
	}
	o.task.wrote = true
	if s := o.task.span; s != nil {
		r = o.marked(r, s.Headers())
	}
	err := o.task.cfg.Producer.Append(record.TopicPartition{Topic: o.topic, Partition: partition}, r)
	if err != nil && !ofRecord(err) {
		o.task.fault(err)
	}
	return err
}

// ofRecord says that it is about one record: Refused asks what to do.
func ofRecord(err error) bool {
	b := (*broker.Error)(nil)
	return errors.As(err, &b) && b.Class == broker.Record
}

// partition is Kafka's default.
func (o *output) partition(r *record.Raw) int32 {
	if r.Key != nil {
		return record.Partition(r.Key, o.partitions)
	}
	return o.keyless()
}

func (o *output) keyless() int32 {
	run := o.sent / keylessRun
	if o.sent++; o.sent < 0 {
		o.sent = 0
	}
	return (run%o.partitions + o.task.cfg.ID.Partition%o.partitions) % o.partitions
}

// Partitions implements topology.Output.
func (o *output) Partitions() int32 { return o.partitions }
