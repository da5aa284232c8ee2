package task

import (
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// host is the task as its processors see it.
type host struct{ *Task }

var _ topology.Host = host{}

// TaskID implements topology.Host.
func (h host) TaskID() record.TaskID { return h.cfg.ID }

// Store implements topology.Host.
func (h host) Store(name string) topology.StateStore {
	for i, s := range h.cfg.Stores {
		if s.Name == name {
			return h.overlays[i]
		}
	}
	return nil
}

// Output implements topology.Host.
func (h host) Output(topic string) topology.Output { return &output{task: h.Task, topic: topic} }

// StreamTime implements topology.Host.
func (h host) StreamTime() int64 { return h.streamTime }

// WallClock implements topology.Host.
func (h host) WallClock() int64 { return h.wallClock }

// Current implements topology.Host.
func (h host) Current() (record.TopicPartition, int64, bool) {
	if h.current == nil {
		return record.TopicPartition{}, 0, false
	}
	return h.current.source, h.currentOffset, true
}

// RequestCommit implements topology.Host.
func (h host) RequestCommit() { h.commitRequested = true }

// Dropped implements topology.Host.
func (h host) Dropped(reason string) {
	if h.cfg.Dropped != nil {
		h.cfg.Dropped(reason)
	}
}

// output is one topic that the task writes.
type output struct {
	task  *Task
	topic string
	n     int32
	// next and run spread records without a key: a run of them goes to one partition, so that batches fill.
	next, run int32
}

const keylessRun = 256

// Send implements topology.Output.
func (o *output) Send(r *record.Raw, partition int32) error {
	n := o.Partitions()
	if n <= 0 {
		return o.task.outputErr
	}
	if partition < 0 {
		if r.Key != nil {
			partition = record.Partition(r.Key, n)
		} else {
			if o.run++; o.run%keylessRun == 0 {
				o.next++
			}
			partition = (o.next + o.task.cfg.ID.Partition) % n
		}
	}
	return o.task.cfg.Producer.Append(record.TopicPartition{Topic: o.topic, Partition: partition}, r)
}

// Partitions implements topology.Output.
func (o *output) Partitions() int32 {
	if o.n == 0 {
		n, err := o.task.cfg.Producer.Partitions(o.topic)
		if err != nil {
			o.task.outputErr = err
			return 0
		}
		o.n = n
	}
	return o.n
}
