package store

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/fault"
)

// Entry is one key of a store. It belongs to the receiver.
type Entry struct {
	Key, Value []byte
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
}

// keys are buffers for engine keys. A buffer on the stack would escape into the engine.
var keys = sync.Pool{New: func() any { b := make([]byte, 0, 256); return &b }}

// enter takes a lease on the engine for the given store. Whoever enters without an error calls t.engine.lease.release.
func (t *TaskState) enter(store int) error {
	if store < 0 || store >= len(t.numbers) {
		return &SpecError{fmt.Sprintf("task %s has no store %d", t.spec.name(), store)}
	}
	if err := t.engine.dead(); err != nil {
		return err
	}
	if !t.engine.lease.acquire() {
		return ErrStateStoreClosed
	}
	return nil
}

// Get reads committed state. The value is a copy; an empty one is not nil. Errors: *SpecError, ErrNullKey,
// ErrStateStoreClosed, *EngineError.
func (t *TaskState) Get(store int, key []byte) (value []byte, timestamp int64, ok bool, err error) {
	if key == nil {
		return nil, 0, false, ErrNullKey
	}
	if err := t.enter(store); err != nil {
		return nil, 0, false, err
	}
	defer t.engine.lease.release()
	defer recovered("get", &err)
	return t.getFrom(t.engine.db, t.view.Load(), store, key)
}

// getFrom is Get from a reader, or of the view if the store is in memory.
func (t *TaskState) getFrom(r pebble.Reader, v *view, store int, key []byte) (value []byte, timestamp int64, ok bool, err error) {
	if err := t.breakable(fault.StoreGet, store); err != nil {
		return nil, 0, false, t.engine.failure("get", err)
	}
	t.spec.Stores[store].Counts.get(1)
	if m := v.memories[store]; m != nil {
		return m.get(key)
	}
	buf := keys.Get().(*[]byte)
	*buf = appendKey((*buf)[:0], t.numbers[store], key)
	defer keys.Put(buf)
	b, closer, err := r.Get(*buf)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, 0, false, nil
	}
	if err != nil {
		return nil, 0, false, t.engine.failure("get", err)
	}
	timestamp, shared, err := splitValue(b)
	value = append(make([]byte, 0, len(shared)), shared...)
	if err = errors.Join(err, closer.Close()); err != nil {
		return nil, 0, false, t.engine.failure("get", err)
	}
	return value, timestamp, true, nil
}

// span is a range of a store's keys.
type span struct {
	from, to []byte // nil is open
	// after excludes from itself; through includes to.
	after, through bool
	reverse        bool
}

// bounds are the engine's bounds; empty is true if nothing can be between them.
func (s span) bounds(number uint16) (lower, upper []byte, empty bool) {
	lower, upper = prefixes(number)
	if s.from != nil {
		lower = appendKey(nil, number, s.from)
		if s.after {
			lower = append(lower, 0)
		}
	}
	if s.to != nil {
		upper = appendKey(nil, number, s.to)
		if s.through {
			upper = append(upper, 0)
		}
	}
	return lower, upper, bytes.Compare(lower, upper) >= 0
}

// Scan gives the entries between from and to, both included, in byte order or backwards; a nil bound is open. It sees one
// consistent committed state, that of its beginning. An error is the last thing that is yielded: those of Get, and
// ErrStateStoreClosed in the middle if the state is closed meanwhile.
func (t *TaskState) Scan(store int, from, to []byte, reverse bool) iter.Seq2[Entry, error] {
	return t.scan(store, span{from: from, to: to, through: true, reverse: reverse})
}

func (t *TaskState) scan(store int, s span) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := t.enter(store); err != nil {
			yield(Entry{}, err)
			return
		}
		defer t.engine.lease.release()
		t.spec.Stores[store].Counts.scan()
		if m := t.memory(store); m != nil {
			t.scanMemory(m, s, yield)
			return
		}
		c := cursor{t: t, number: t.numbers[store], span: s}
		if c.open() {
			defer c.close()
			for c.next() {
				if !yield(c.entry, nil) {
					return
				}
			}
		}
		if c.err != nil {
			yield(Entry{}, t.engine.failure("scan", c.err))
		}
	}
}

// cursor walks over a span. A panic of the engine becomes its error; one of the loop body passes through, because no
// step of the engine is on the stack then.
type cursor struct {
	t      *TaskState
	number uint16
	span   span
	it     *pebble.Iterator
	began  bool
	entry  Entry
	err    error
	arena  arena
}

func (c *cursor) open() bool {
	lower, upper, empty := c.span.bounds(c.number)
	if empty {
		return false
	}
	c.err = caught("scan", func() (err error) {
		c.it, err = c.t.engine.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		return err
	})
	return c.err == nil
}

func (c *cursor) close() {
	if err := caught("scan", c.it.Close); err != nil && c.err == nil {
		c.err = err
	}
}

// next makes entry the next one. It looks at the lease first, so that a Close does not wait for a whole scan.
func (c *cursor) next() bool {
	if c.t.engine.lease.ending() {
		c.err = ErrStateStoreClosed
		return false
	}
	more := false
	c.err = caught("scan", func() (err error) {
		more, err = c.step()
		return err
	})
	return more && c.err == nil
}

func (c *cursor) step() (bool, error) {
	valid := false
	switch {
	case !c.began && c.span.reverse:
		valid = c.it.Last()
	case !c.began:
		valid = c.it.First()
	case c.span.reverse:
		valid = c.it.Prev()
	default:
		valid = c.it.Next()
	}
	c.began = true
	if !valid {
		// Damage ends an iteration early and looks like its end, but for this.
		return false, c.it.Error()
	}
	b, err := c.it.ValueAndErr()
	if err != nil {
		return false, err
	}
	timestamp, value, err := splitValue(b)
	c.entry = Entry{Key: c.arena.copy(c.it.Key()[numberBytes:]), Value: c.arena.copy(value), Timestamp: timestamp}
	return err == nil, err
}

// arena holds copies: one allocation serves many of them.
type arena struct{ chunk []byte }

// copy puts b into the arena. An empty copy is not nil.
func (a *arena) copy(b []byte) []byte {
	if a.chunk == nil || len(b) > cap(a.chunk)-len(a.chunk) {
		a.chunk = make([]byte, 0, max(len(b), min(max(2*cap(a.chunk), 1<<10), 64<<10)))
	}
	at := len(a.chunk)
	a.chunk = append(a.chunk, b...)
	return slices.Clip(a.chunk[at:])
}

// empty reports whether a store has no entry at all.
func (t *TaskState) empty(store int) (bool, error) {
	for _, err := range t.scan(store, span{}) {
		return false, err
	}
	return true, nil
}
