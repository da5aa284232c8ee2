package topology

import "github.com/millrace-io/millrace/record"

// AggregateOption changes one thing about an aggregation.
type AggregateOption func(*emission)

// EveryUpdate makes an aggregation forward each new value at once, instead of once per key per commit.
func EveryUpdate() AggregateOption { return func(e *emission) { e.every = true } }

// Count counts the records of each key. Like Reduce and Aggregate it drops records without key or value, counted as
// "null key" and "null value", as Kafka Streams does; a result's timestamp is the highest of what went into it.
func Count[K, V any](s Stream[K, V], store KeyValueStore[K, int64], opts ...AggregateOption) Stream[K, int64] {
	return aggregate(s, "count", store, opts, func(_ record.Record[K, V], old int64, _ bool) (int64, error) { return old + 1, nil })
}

// Reduce joins the values of each key to one; the first value is taken as it is.
func Reduce[K, V any](s Stream[K, V], store KeyValueStore[K, V], f func(aggregate, value V) (V, error), opts ...AggregateOption) Stream[K, V] {
	need(s, "reduce", f == nil)
	return aggregate(s, "reduce", store, opts, reducing[K](f))
}

// Aggregate joins the values of each key to an aggregate of another type, which starts as initial().
func Aggregate[K, V, A any](s Stream[K, V], store KeyValueStore[K, A], initial func() A, f func(key K, value V, aggregate A) (A, error), opts ...AggregateOption) Stream[K, A] {
	need(s, "aggregate", f == nil || initial == nil)
	return aggregate(s, "aggregate", store, opts, aggregating(initial, f))
}

type aggregation[K, V, A any] struct {
	*KeyValue[K, A]
	node string
	host Host
	add  func(r record.Record[K, V], old A, found bool) (A, error)
	next handler[K, A]
	emission
}

func aggregate[K, V, A any](s Stream[K, V], name string, store KeyValueStore[K, A], opts []AggregateOption, add func(record.Record[K, V], A, bool) (A, error)) Stream[K, A] {
	n := s.b.add("", name, aggregateKind, s.n)
	s.b.use(n, store)
	s.b.claim(n, store.name)
	e := emissionOf(s.b, n.name, false, opts)
	n.make = func(in *Instance, n *node) any {
		a := &aggregation[K, V, A]{KeyValue: &KeyValue[K, A]{newTable(store.name, store.keys, store.values, nil)}, node: n.name, host: in.host, add: add, next: outs[K, A](in, n), emission: e}
		in.parts[n.index].init = func() (err error) {
			a.state, err = in.store(store.name)
			return err
		}
		if !a.every {
			emit := a.emit // made once: a method value allocates
			in.parts[n.index].flush = func() error { return a.state.Changed(emit) }
		}
		return handler[K, V](a.process)
	}
	return Stream[K, A]{s.b, n}
}

func (a *aggregation[K, V, A]) process(r record.Record[K, V]) error {
	if !usable(a.host, &r) {
		return nil
	}
	c, err := a.cell(r.Key)
	if err != nil {
		return err
	}
	var old A
	timestamp := r.Timestamp
	if c.Present {
		if old, err = a.decode(c); err != nil {
			return err
		}
		timestamp = max(timestamp, c.Timestamp)
	}
	value, err := a.add(r, old, c.Present)
	if err != nil {
		return wrap(a.node, err)
	}
	if err := a.set(c, value, timestamp); err != nil || !a.every {
		return err
	}
	return a.next(record.Record[K, A]{Key: r.Key, Value: value, Timestamp: timestamp, Headers: r.Headers})
}

func (a *aggregation[K, V, A]) emit(c *Cell) error {
	key, err := a.keys.Decode(bytesOf(c.Key))
	if err != nil {
		return storeError(a.name, err)
	}
	out := record.Record[K, A]{Key: key, NoValue: !c.Present, Timestamp: c.Timestamp}
	if c.Present {
		if out.Value, err = a.decode(c); err != nil {
			return err
		}
	}
	return a.next(out)
}
