package topology

import "github.com/millrace-io/millrace/record"

// CountWindows counts the records of each key in each of its windows. Like all windowed aggregations it drops records
// without key or value, counted as "null key" and "null value", and records all of whose windows are closed, counted as
// "late record" ("late for a window" if only some are). What it forwards has the window in its key; write it with
// codec.TimeWindowed.
func CountWindows[K, V any](s Stream[K, V], w Windows, store WindowStore[K, int64], opts ...AggregateOption) Stream[Windowed[K], int64] {
	return aggregateWindows(s, "count-windows", w, store, opts, func(_ record.Record[K, V], old int64, _ bool) (int64, error) { return old + 1, nil })
}

// ReduceWindows joins the values of each key in each of its windows to one; the first value is taken as it is. With
// hopping and sliding windows f is called once for each window.
func ReduceWindows[K, V any](s Stream[K, V], w Windows, store WindowStore[K, V], f func(aggregate, value V) (V, error), opts ...AggregateOption) Stream[Windowed[K], V] {
	need(s, "reduce-windows", f == nil)
	return aggregateWindows(s, "reduce-windows", w, store, opts, reducing[K](f))
}

func reducing[K, V any](f func(aggregate, value V) (V, error)) func(record.Record[K, V], V, bool) (V, error) {
	return func(r record.Record[K, V], old V, found bool) (V, error) {
		if !found {
			return r.Value, nil
		}
		return f(old, r.Value)
	}
}

// AggregateWindows joins the values of each key in each of its windows to an aggregate of another type, which starts as
// initial().
func AggregateWindows[K, V, A any](s Stream[K, V], w Windows, store WindowStore[K, A], initial func() A, f func(key K, value V, aggregate A) (A, error), opts ...AggregateOption) Stream[Windowed[K], A] {
	need(s, "aggregate-windows", f == nil || initial == nil)
	return aggregateWindows(s, "aggregate-windows", w, store, opts, aggregating(initial, f))
}

func aggregating[K, V, A any](initial func() A, f func(key K, value V, aggregate A) (A, error)) func(record.Record[K, V], A, bool) (A, error) {
	return func(r record.Record[K, V], old A, found bool) (A, error) {
		if !found {
			old = initial()
		}
		return f(r.Key, r.Value, old)
	}
}

type windowing[K, V, A any] struct {
	*Window[K, A]
	*timeline
	add     func(r record.Record[K, V], old A, found bool) (A, error)
	next    handler[Windowed[K], A]
	every   bool
	final   bool
	closing closing
	slides  slides[A]
}

func aggregateWindows[K, V, A any](s Stream[K, V], name string, w Windows, store WindowStore[K, A], opts []AggregateOption, add func(record.Record[K, V], A, bool) (A, error)) Stream[Windowed[K], A] {
	n := s.b.add("", name, aggregateKind, s.n)
	s.b.use(n, store)
	s.b.claim(n, store.name)
	e, sp := emissionOf(s.b, n.name, true, opts), w.span()
	sp.check(s.b, n.name, store.name, &s.b.stores[store.name].spec)
	n.windows = w.String() + e.String()
	n.make = func(in *Instance, n *node) any {
		a := &windowing[K, V, A]{Window: store.view(nil), timeline: in.timeline(n, store.name, sp, e), add: add,
			next: outs[Windowed[K], A](in, n), every: e.every, final: e.final}
		in.parts[n.index].init = func() (err error) {
			if a.state, err = in.store(store.name); err != nil {
				return err
			}
			a.now = a.state.Time()
			if a.final {
				err = a.closing.fill(a.timeline, a.state, windowEnd(a.size))
			}
			return storeOnce(store.name, err)
		}
		emit := a.emit // made once: a method value allocates
		switch {
		case a.final:
			in.parts[n.index].flush = func() error { return a.flushClosed(emit) }
		case !a.every:
			in.parts[n.index].flush = func() error { return a.state.Changed(emit) }
		}
		if sp.shape == sliding {
			return handler[K, V](a.slide)
		}
		return handler[K, V](a.process)
	}
	return Stream[Windowed[K], A]{s.b, n}
}

// claim makes a store an aggregation's own.
func (b *Builder) claim(n *node, store string) {
	if d := b.stores[store]; d.aggregate != nil {
		b.fail(n.name, TwoAggregations, "store %q belongs to %q already; give each its own store", store, d.aggregate.name)
	} else {
		d.aggregate = n
	}
}

// usable drops a record that no aggregation takes, and counts it.
func usable[K, V any](host Host, r *record.Record[K, V]) bool {
	switch {
	case r.NoKey:
		host.Dropped("null key")
	case r.NoValue:
		host.Dropped("null value")
	default:
		return true
	}
	return false
}

// process takes a record into tumbling or hopping windows, the oldest first.
func (a *windowing[K, V, A]) process(r record.Record[K, V]) error {
	if !usable(a.host, &r) {
		return nil
	}
	now, err := a.with(r.Timestamp)
	if err != nil {
		return err
	}
	taken, late := 0, 0
	for start := a.span.first(r.Timestamp); start <= r.Timestamp; start += a.span.advance {
		if a.span.closed(start+a.size, now) {
			late++
			continue
		}
		c, err := a.cell(r.Key, start)
		if err != nil {
			return err
		}
		if err := a.take(&r, c, start); err != nil {
			return err
		}
		taken++
	}
	a.moved(now)
	a.count(taken, late)
	return nil
}

// take adds a record to a window.
func (a *windowing[K, V, A]) take(r *record.Record[K, V], c *Cell, start int64) error {
	old, timestamp, found, err := a.read(c)
	if err != nil {
		return err
	}
	value, err := a.add(*r, old, found)
	if err != nil {
		return wrap(a.node, err)
	}
	return a.store(r, c, start, value, max(timestamp, r.Timestamp))
}

// store gives a window its value, and forwards it if that is to be done at once.
func (a *windowing[K, V, A]) store(r *record.Record[K, V], c *Cell, start int64, value A, timestamp int64) error {
	if a.final && !c.Present {
		a.closing.add(start+a.size, c.Key)
	}
	if err := a.set(c, value, timestamp); err != nil || !a.every {
		return err
	}
	return a.next(record.Record[Windowed[K], A]{Key: Windowed[K]{Key: r.Key, Start: start, End: start + a.size}, Value: value, Timestamp: timestamp, Headers: r.Headers})
}

// emit forwards a window as it is in the store.
func (a *windowing[K, V, A]) emit(c *Cell) error {
	w, err := a.windowed(c)
	if err != nil {
		return err
	}
	out := record.Record[Windowed[K], A]{Key: w, NoValue: !c.Present, Timestamp: c.Timestamp}
	if c.Present {
		if out.Value, err = a.decode(c); err != nil {
			return err
		}
	}
	return a.next(out)
}

// flushClosed forwards the windows that have closed. One that fails is passed when the flush is tried again.
func (a *windowing[K, V, A]) flushClosed(emit func(*Cell) error) error {
	for {
		w, ok := a.closing.take(&a.span, a.now)
		if !ok {
			return nil
		}
		c, err := a.state.Cell([]byte(w.key))
		if err != nil {
			return storeError(a.name, err)
		}
		if !c.Present {
			continue
		}
		if err := emit(c); err != nil {
			return err
		}
	}
}
