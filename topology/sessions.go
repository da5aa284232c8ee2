package topology

import (
	"bytes"
	"math"
	"strings"

	"github.com/millrace-io/millrace/record"
)

// CountSessions counts the records of each session of each key. What it forwards has the session in its key; write it with
// codec.SessionWindowed. A session that grows or merges is another one: the old one is deleted in the store and
// downstream, unless nobody has seen it yet. See CountWindows for what is dropped.
func CountSessions[K, V any](s Stream[K, V], w Sessions, store SessionStore[K, int64], opts ...AggregateOption) Stream[Windowed[K], int64] {
	return aggregateSessions(s, "count-sessions", w, store, opts,
		func(_ record.Record[K, V], old int64, _ bool) (int64, error) { return old + 1, nil },
		func(_ K, a, b int64) (int64, error) { return a + b, nil })
}

// ReduceSessions joins the values of each session to one; the first value is taken as it is. Sessions that merge are
// joined by f too, the older one first.
func ReduceSessions[K, V any](s Stream[K, V], w Sessions, store SessionStore[K, V], f func(aggregate, value V) (V, error), opts ...AggregateOption) Stream[Windowed[K], V] {
	need(s, "reduce-sessions", f == nil)
	return aggregateSessions(s, "reduce-sessions", w, store, opts, reducing[K](f), func(_ K, a, b V) (V, error) { return f(a, b) })
}

// AggregateSessions joins the values of each session to an aggregate of another type, which starts as initial(). merge
// joins the aggregates of two sessions, the older one first.
func AggregateSessions[K, V, A any](s Stream[K, V], w Sessions, store SessionStore[K, A], initial func() A, f func(key K, value V, aggregate A) (A, error), merge func(key K, a, b A) (A, error), opts ...AggregateOption) Stream[Windowed[K], A] {
	need(s, "aggregate-sessions", f == nil || initial == nil || merge == nil)
	return aggregateSessions(s, "aggregate-sessions", w, store, opts, aggregating(initial, f), merge)
}

type sessioning[K, V, A any] struct {
	*Session[K, A]
	*timeline
	add   func(r record.Record[K, V], old A, found bool) (A, error)
	merge func(key K, a, b A) (A, error)
	next  handler[Windowed[K], A]
	emission
	closing closing
	// met are the sessions that the record in process meets, the oldest first; newest is the key's latest one as far as
	// the search has seen, with an end of -1 for none.
	met    []met
	newest bounds
	// latest is the latest session of keys that came lately. A record at or behind its start can meet no other one: those
	// before it end more than the gap before it. So records in order cost no search in the store. Only the aggregation
	// writes its store; should somebody else have taken the session out, it is searched for.
	latest map[string]*bounds
}

type met struct {
	start, end int64
	cell       *Cell
}

type bounds struct{ start, end int64 }

// latestMax is how many keys latest holds; it begins anew with more.
const latestMax = 1 << 16

func aggregateSessions[K, V, A any](s Stream[K, V], name string, w Sessions, store SessionStore[K, A], opts []AggregateOption,
	add func(record.Record[K, V], A, bool) (A, error), merge func(K, A, A) (A, error)) Stream[Windowed[K], A] {
	n := s.b.add("", name, aggregateKind, s.n)
	s.b.use(n, store)
	s.b.claim(n, store.name)
	e, sp := emissionOf(s.b, n.name, true, opts), w.span()
	sp.check(s.b, n.name, store.name, &s.b.stores[store.name].spec)
	n.windows = w.String() + e.String()
	n.make = func(in *Instance, n *node) any {
		a := &sessioning[K, V, A]{Session: store.view(nil), timeline: in.timeline(n, store.name, sp, e), add: add, merge: merge,
			next: outs[Windowed[K], A](in, n), emission: e, latest: map[string]*bounds{}}
		in.parts[n.index].init = func() (err error) {
			if a.state, err = in.store(store.name); err != nil {
				return err
			}
			a.now = a.state.Time()
			if a.final {
				err = a.closing.fill(a.timeline, a.state, sessionEnd)
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
		return handler[K, V](a.process)
	}
	return Stream[Windowed[K], A]{s.b, n}
}

func (a *sessioning[K, V, A]) process(r record.Record[K, V]) error {
	if !usable(a.host, &r) {
		return nil
	}
	now, err := a.with(r.Timestamp)
	if err != nil {
		return err
	}
	if err := a.meet(r.Key, r.Timestamp, now); err != nil {
		return err
	}
	start, end, timestamp := r.Timestamp, r.Timestamp, r.Timestamp
	for _, m := range a.met {
		start, end, timestamp = min(start, m.start), max(end, m.end), max(timestamp, m.cell.Timestamp)
	}
	if a.span.closed(end, now) {
		a.count(0, 1)
		return nil
	}
	value, err := a.join(&r)
	if err != nil {
		return err
	}
	if err := a.replace(&r, start, end, value, timestamp); err != nil {
		return err
	}
	a.moved(now)
	return nil
}

// meet reads the sessions of a key that a record at t belongs to, and leaves the key in the scratch buffer. Those that are
// final take no more records.
func (a *sessioning[K, V, A]) meet(key K, t, now int64) (err error) {
	if a.key, err = a.keys.Encode(a.key[:0], key); err != nil {
		return storeError(a.name, err)
	}
	a.met, a.newest = a.met[:0], bounds{end: -1}
	if l := a.latest[string(a.key)]; l != nil && t >= l.start {
		if known, err := a.meetLatest(*l, t, now); known || err != nil {
			return err
		}
	}
	r := sessionsOf(bytes.Clone(a.key), max(0, t-a.span.size), math.MaxInt64, false)
	for c, err := range a.cells(&r) {
		if err != nil {
			return storeOnce(a.name, err)
		}
		_, start, end, _ := record.SplitSessionKey(bytesOf(c.Key))
		a.newest = bounds{start, end}
		if start <= t+a.span.size {
			a.meets(start, end, now, c)
		}
	}
	return nil
}

func (a *sessioning[K, V, A]) meets(start, end, now int64, c *Cell) {
	if !a.final || !a.span.closed(end, now) {
		a.met = append(a.met, met{start, end, c})
	}
}

// meetLatest says whether the latest session of the key is all that a record at t can meet.
func (a *sessioning[K, V, A]) meetLatest(l bounds, t, now int64) (known bool, err error) {
	if l.end < t-a.span.size {
		return true, nil
	}
	c, err := a.at(l.start, l.end)
	if err != nil || !c.Present {
		return false, err
	}
	a.meets(l.start, l.end, now, c)
	return true, nil
}

// remember keeps the latest session of the key in the scratch buffer, of which [start, end] is a new one.
func (a *sessioning[K, V, A]) remember(start, end int64) {
	if a.newest.end <= end {
		a.newest = bounds{start, end}
	}
	if l := a.latest[string(a.key)]; l != nil {
		*l = a.newest
		return
	}
	if len(a.latest) >= latestMax {
		clear(a.latest)
	}
	l := a.newest
	a.latest[string(a.key)] = &l
}

// join gives the aggregate of the sessions and the record.
func (a *sessioning[K, V, A]) join(r *record.Record[K, V]) (value A, err error) {
	for i, m := range a.met {
		old, err := a.decode(m.cell)
		if err != nil {
			return value, err
		}
		if i == 0 {
			value = old
		} else if value, err = a.merge(r.Key, value, old); err != nil {
			return value, wrap(a.node, err)
		}
	}
	value, err = a.add(*r, value, len(a.met) > 0)
	return value, wrap(a.node, err)
}

// replace puts one session where the others were.
func (a *sessioning[K, V, A]) replace(r *record.Record[K, V], start, end int64, value A, timestamp int64) error {
	for _, m := range a.met {
		if m.start == start && m.end == end {
			continue
		}
		if err := a.remove(m.cell); err != nil {
			return err
		}
		if a.every {
			gone := record.Record[Windowed[K], A]{Key: Windowed[K]{Key: r.Key, Start: m.start, End: m.end}, NoValue: true, Timestamp: r.Timestamp, Headers: r.Headers}
			if err := a.next(gone); err != nil {
				return err
			}
		}
	}
	c, err := a.at(start, end)
	if err != nil {
		return err
	}
	if a.final && len(a.met) == 0 {
		a.closing.add(end, c.Key)
	}
	if err := a.set(c, value, timestamp); err != nil {
		return err
	}
	a.remember(start, end)
	if !a.every {
		return nil
	}
	return a.next(record.Record[Windowed[K], A]{Key: Windowed[K]{Key: r.Key, Start: start, End: end}, Value: value, Timestamp: timestamp, Headers: r.Headers})
}

// emit forwards a session as it is in the store.
func (a *sessioning[K, V, A]) emit(c *Cell) error {
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

// flushClosed forwards the sessions that have closed. One that fails is passed when the flush is tried again.
func (a *sessioning[K, V, A]) flushClosed(emit func(*Cell) error) error {
	for {
		w, ok := a.closing.take(&a.span, a.now)
		if !ok {
			return nil
		}
		c, err := a.state.Cell([]byte(w.key))
		if err != nil {
			return storeError(a.name, err)
		}
		if c.Present {
			err = emit(c)
		} else {
			err = storeOnce(a.name, a.follow(w))
		}
		if err != nil {
			return err
		}
	}
}

// follow enters the session that has taken up one that was open.
func (a *sessioning[K, V, A]) follow(w open) error {
	key, start, end, ok := record.SplitSessionKey([]byte(w.key))
	if !ok {
		return nil
	}
	r := sessionsOf(key, end, start, false)
	for c, err := range a.cells(&r) {
		if err != nil {
			return err
		}
		_, _, last, _ := record.SplitSessionKey(bytesOf(c.Key))
		a.closing.add(last, strings.Clone(c.Key)) // a row's key shares the memory of others
	}
	return nil
}
