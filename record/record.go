package record

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// TopicPartition names one partition of one topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String gives Kafka's own spelling, topic-partition.
func (tp TopicPartition) String() string { return tp.Topic + "-" + strconv.Itoa(int(tp.Partition)) }

// Compare orders by topic, then partition.
func (tp TopicPartition) Compare(o TopicPartition) int {
	switch {
	case tp.Topic < o.Topic:
		return -1
	case tp.Topic > o.Topic:
		return 1
	}
	return int(tp.Partition) - int(o.Partition)
}

// TaskID names one partition group of one sub-topology, as Kafka Streams does: 0_2 is partition 2 of sub-topology 0.
type TaskID struct {
	SubTopology int32
	Partition   int32
}

// String gives Kafka Streams' spelling, subtopology_partition.
func (id TaskID) String() string { return fmt.Sprintf("%d_%d", id.SubTopology, id.Partition) }

// ParseTaskID reads what TaskID.String writes, and nothing else: a task has one name.
func ParseTaskID(name string) (id TaskID, ok bool) {
	sub, partition, _ := strings.Cut(name, "_")
	s, err1 := strconv.ParseInt(sub, 10, 32)
	p, err2 := strconv.ParseInt(partition, 10, 32)
	id = TaskID{int32(s), int32(p)}
	return id, errors.Join(err1, err2) == nil && min(s, p) >= 0 && id.String() == name
}

// Compare orders by sub-topology, then partition.
func (id TaskID) Compare(o TaskID) int {
	if id.SubTopology != o.SubTopology {
		return int(id.SubTopology - o.SubTopology)
	}
	return int(id.Partition - o.Partition)
}

// Header is one record header. A nil Value is Kafka's null header value.
type Header struct {
	Key   string
	Value []byte
}

// Headers keep the order in which they were written; a key may occur more than once.
type Headers []Header

// Last returns the value of the last header called key.
func (h Headers) Last(key string) (value []byte, ok bool) {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].Key == key {
			return h[i].Value, true
		}
	}
	return nil, false
}

// Raw is a record as the log holds it. A nil Key or Value is absent (Kafka's null); an empty non-nil one is present.
// The slices may share the memory of a whole fetched batch and must not be changed.
type Raw struct {
	Key, Value []byte
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
	Offset    int64
	Headers   Headers
}

// Record is a record inside a topology. The zero NoKey and NoValue mean "present": a Record built with New has both.
type Record[K, V any] struct {
	Key   K
	Value V
	// NoKey and NoValue say that the key or value is absent (Kafka's null); Key or Value is then the zero value.
	NoKey, NoValue bool
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
	Headers   Headers
}

// New returns a record with key and value present.
func New[K, V any](key K, value V, timestamp int64) Record[K, V] {
	return Record[K, V]{Key: key, Value: value, Timestamp: timestamp}
}

// WithValue returns r with another value, which is present.
func WithValue[K, V, W any](r Record[K, V], value W) Record[K, W] {
	return Record[K, W]{Key: r.Key, Value: value, NoKey: r.NoKey, Timestamp: r.Timestamp, Headers: r.Headers}
}

// WithKey returns r with another key, which is present.
func WithKey[K, V, L any](r Record[K, V], key L) Record[L, V] {
	return Record[L, V]{Key: key, Value: r.Value, NoValue: r.NoValue, Timestamp: r.Timestamp, Headers: r.Headers}
}
