package topology

import (
	"fmt"

	"github.com/millrace-io/millrace/record"
)

// SinkOption changes one thing about a sink.
type SinkOption[K, V any] func(*sink[K, V])

// WithPartitioner chooses the partition of each record among n, instead of Kafka's murmur2 of the key. An absent key
// or value is given as its zero value. A partition that is not in 0..n-1 is a SinkError.
func WithPartitioner[K, V any](f func(key K, value V, n int32) int32) SinkOption[K, V] {
	return func(s *sink[K, V]) { s.partition = f }
}

type sink[K, V any] struct {
	topic      Topic[K, V]
	partition  func(key K, value V, n int32) int32
	node, name string
	out        Output
	key, value []byte // scratch
	raw        record.Raw
}

// To writes the stream to a topic.
func To[K, V any](s Stream[K, V], t Topic[K, V], opts ...SinkOption[K, V]) {
	addSink(s, s.b.topic(t.name, false, codecNames(s.b, t.name, t.keys, t.values), 0), t, opts)
}

// ToRepartition is the writing half of Through.
func ToRepartition[K, V any](s Stream[K, V], r Repartition[K, V]) {
	tn := s.b.topic(r.name, true, codecNames(s.b, r.name, r.keys, r.values), r.partitions)
	addSink(s, tn, Topic[K, V]{name: r.name, keys: r.keys, values: r.values}, nil)
}

func addSink[K, V any](s Stream[K, V], tn *topicNode, t Topic[K, V], opts []SinkOption[K, V]) {
	n := s.b.add("", "sink", sinkKind, s.n)
	n.topic, tn.written = tn, true
	n.make = func(in *Instance, n *node) any {
		k := &sink[K, V]{topic: t, node: n.name, name: in.sub.kafkaTopic(tn)}
		for _, o := range opts {
			o(k)
		}
		in.parts[n.index].init = func() error {
			if k.out = in.host.Output(k.name); k.out == nil {
				return k.fail(fmt.Errorf("the task has no output for it"))
			}
			return nil
		}
		return handler[K, V](k.send)
	}
}

func (s *sink[K, V]) fail(err error) error {
	return &SinkError{Node: s.node, Topic: s.name, Cause: err}
}

// refuse asks about a record that cannot be sent. What was encoded of it is in raw.
func (s *sink[K, V]) refuse(partition int32, err error) error {
	return s.out.Refused(&s.raw, partition, &SinkError{Node: s.node, Topic: s.name, Cause: err})
}

func (s *sink[K, V]) send(r record.Record[K, V]) error {
	var err error
	s.raw = record.Raw{Timestamp: r.Timestamp, Headers: r.Headers}
	if !r.NoKey {
		if s.key, err = s.topic.keys.Encode(s.key[:0], r.Key); err != nil {
			return s.refuse(-1, err)
		}
		s.raw.Key = present(s.key)
	}
	if !r.NoValue {
		if s.value, err = s.topic.values.Encode(s.value[:0], r.Value); err != nil {
			return s.refuse(-1, err)
		}
		s.raw.Value = present(s.value)
	}
	p := int32(-1)
	if s.partition != nil {
		n := s.out.Partitions()
		if p = s.partition(r.Key, r.Value, n); p < 0 || p >= n {
			return s.refuse(-1, fmt.Errorf("the partitioner gave partition %d of %d", p, n))
		}
	}
	if err := s.out.Send(&s.raw, p); err != nil {
		return s.refuse(p, err)
	}
	return nil
}

var empty = []byte{}

// present keeps an empty encoding apart from Kafka's null: appending nothing to a nil slice gives nil.
func present(b []byte) []byte {
	if b == nil {
		return empty
	}
	return b
}
