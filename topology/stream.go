package topology

import "github.com/millrace-io/millrace/record"

// From reads a topic. Reading one topic twice gives the same source.
func From[K, V any](b *Builder, t Topic[K, V]) Stream[K, V] {
	tn := b.topic(t.name, false, codecNames(b, t.name, t.keys, t.values), 0)
	if tn.source != nil {
		if tn.reset != t.reset {
			b.fail(t.name, ConflictingSettings, "it is read with reset policy %s and with %s", tn.reset, t.reset)
		}
		return Stream[K, V]{b, tn.source}
	}
	tn.reset = t.reset
	return source(b, tn, t)
}

// Through writes the stream to a repartition topic and reads it back, so that records with one key meet in one task.
func Through[K, V any](s Stream[K, V], r Repartition[K, V]) Stream[K, V] {
	ToRepartition(s, r)
	return FromRepartition(s.b, r)
}

// FromRepartition is the reading half of Through.
func FromRepartition[K, V any](b *Builder, r Repartition[K, V]) Stream[K, V] {
	tn := b.topic(r.name, true, codecNames(b, r.name, r.keys, r.values), r.partitions)
	if tn.source != nil {
		return Stream[K, V]{b, tn.source}
	}
	return source(b, tn, Topic[K, V]{name: r.name, keys: r.keys, values: r.values})
}

func source[K, V any](b *Builder, tn *topicNode, t Topic[K, V]) Stream[K, V] {
	n := b.add("", "source", sourceKind)
	n.topic, tn.source = tn, n
	n.make = func(in *Instance, n *node) any {
		topic := in.sub.kafkaTopic(tn)
		next := outs[K, V](in, n)
		in.sources[topic] = sourceOf(in, n.name, topic, t, next)
		in.readers[topic] = readerOf(n.name, t)
		return next
	}
	return Stream[K, V]{b, n}
}

func sourceOf[K, V any](in *Instance, name, topic string, t Topic[K, V], next handler[K, V]) func(*record.Raw) error {
	keys, values, timestamp, host := t.keys, t.values, t.timestamp, in.host
	return func(raw *record.Raw) error {
		r := record.Record[K, V]{Timestamp: raw.Timestamp, Headers: raw.Headers, NoKey: raw.Key == nil, NoValue: raw.Value == nil}
		var err error
		if !r.NoKey {
			if r.Key, err = keys.Decode(raw.Key); err != nil {
				return &DeserializationError{Source: name, Topic: topic, Part: "key", Cause: err}
			}
		}
		if !r.NoValue {
			if r.Value, err = values.Decode(raw.Value); err != nil {
				return &DeserializationError{Source: name, Topic: topic, Part: "value", Cause: err}
			}
		}
		if timestamp != nil {
			r.Timestamp = timestamp(r)
			host.Extracted(r.Timestamp)
		}
		if r.Timestamp < 0 {
			host.Dropped("negative timestamp")
			return nil
		}
		return next(r)
	}
}

func operator[K, V, L, W any](s Stream[K, V], name string, k kind, make func(name string, next handler[L, W]) handler[K, V]) Stream[L, W] {
	n := s.b.add("", name, k, s.n)
	n.make = func(in *Instance, n *node) any { return make(n.name, outs[L, W](in, n)) }
	return Stream[L, W]{s.b, n}
}

func need[K, V any](s Stream[K, V], operator string, missing bool) {
	if missing {
		s.b.fail(s.n.name, MissingFunction, "%s after it has no function", operator)
	}
}

// Map makes another record of each record. f may return an error, which ends the step.
func Map[K, V, L, W any](s Stream[K, V], f func(record.Record[K, V]) (record.Record[L, W], error)) Stream[L, W] {
	need(s, "map", f == nil)
	return operator(s, "map", operatorKind, func(name string, next handler[L, W]) handler[K, V] {
		return func(r record.Record[K, V]) error {
			out, err := f(r)
			if err != nil {
				return wrap(name, err)
			}
			return next(out)
		}
	})
}

// MapValues gives each record another value; an absent value is handed to f as the zero value and stays absent only
// if f is not called: records without a value pass by with a zero value that is absent.
func MapValues[K, V, W any](s Stream[K, V], f func(V) W) Stream[K, W] {
	need(s, "map-values", f == nil)
	return operator(s, "map-values", operatorKind, func(_ string, next handler[K, W]) handler[K, V] {
		return func(r record.Record[K, V]) error {
			if r.NoValue {
				var zero W
				out := record.WithValue(r, zero)
				out.NoValue = true
				return next(out)
			}
			return next(record.WithValue(r, f(r.Value)))
		}
	})
}

// FlatMap makes any number of records of each record: f calls emit for each of them and returns emit's error.
func FlatMap[K, V, L, W any](s Stream[K, V], f func(r record.Record[K, V], emit func(record.Record[L, W]) error) error) Stream[L, W] {
	need(s, "flat-map", f == nil)
	return operator(s, "flat-map", operatorKind, func(name string, next handler[L, W]) handler[K, V] {
		return func(r record.Record[K, V]) error { return wrap(name, f(r, next)) }
	})
}

// Filter keeps the records for which keep is true.
func Filter[K, V any](s Stream[K, V], keep func(record.Record[K, V]) bool) Stream[K, V] {
	need(s, "filter", keep == nil)
	return operator(s, "filter", operatorKind, func(_ string, next handler[K, V]) handler[K, V] {
		return func(r record.Record[K, V]) error {
			if !keep(r) {
				return nil
			}
			return next(r)
		}
	})
}

// SelectKey gives each record another key. Follow it with Through before an aggregation.
func SelectKey[K, V, L any](s Stream[K, V], f func(record.Record[K, V]) L) Stream[L, V] {
	need(s, "select-key", f == nil)
	return operator(s, "select-key", operatorKind, func(_ string, next handler[L, V]) handler[K, V] {
		return func(r record.Record[K, V]) error { return next(record.WithKey(r, f(r))) }
	})
}

// Peek looks at each record and passes it on. It may be the end of a stream.
func Peek[K, V any](s Stream[K, V], f func(record.Record[K, V])) Stream[K, V] {
	need(s, "peek", f == nil)
	return operator(s, "peek", effectKind, func(_ string, next handler[K, V]) handler[K, V] {
		return func(r record.Record[K, V]) error {
			f(r)
			return next(r)
		}
	})
}

// Merge takes the records of several streams as they come. Their order between streams is not said.
func Merge[K, V any](first Stream[K, V], rest ...Stream[K, V]) Stream[K, V] {
	parents := []*node{first.n}
	for _, s := range rest {
		if s.n != first.n {
			parents = append(parents, s.n)
		}
	}
	n := first.b.add("", "merge", operatorKind, parents...)
	n.make = func(in *Instance, n *node) any { return outs[K, V](in, n) }
	return Stream[K, V]{first.b, n}
}
