package store

import (
	"errors"
	"runtime"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/query/querypb"
)

// getOne reads one key into out, which is empty, and gives the view that it is of. A window that has expired by then is absent.
func (t *TaskState) getOne(store int, key []byte, out *querypb.Value) (v *view, err error) {
	if err := t.enter(store); err != nil {
		return nil, err
	}
	defer t.engine.lease.release()
	defer recovered("get", &err)
	v, err = t.asOf(store, func(r pebble.Reader, v *view) (err error) {
		out.Value, out.Timestamp, out.Present, err = t.getFrom(r, v, store, key)
		return err
	})
	if err != nil {
		return nil, t.engine.failure("get", err)
	}
	if out.Present && t.spec.Stores[store].expired(key, v.liveFrom(t, store)) {
		out.Present, out.Value, out.Timestamp = false, nil, 0
	}
	return v, nil
}

// walk calls f for each entry of a span until f is false, and gives the view that the entries are of. Key and value belong
// to the engine and are good for that call only. It is scan for those who copy what they keep, and catches panics once for the
// whole walk: f must not panic. The span is asked for with the first time that is live, perhaps twice; then the last one counts.
func (t *TaskState) walk(store int, choose func(live int64) span, f func(key, value []byte, timestamp int64) bool) (v *view, err error) {
	if err := t.enter(store); err != nil {
		return nil, err
	}
	defer t.engine.lease.release()
	t.spec.Stores[store].Counts.scan()
	if v := t.view.Load(); v.memories[store] != nil {
		return v, t.walkMemory(v.memories[store], choose(v.liveFrom(t, store)), f)
	}
	err = caught("scan", func() error {
		var s span
		var it *pebble.Iterator
		v, it, err = t.iterator(store, func(live int64) span { s = choose(live); return s })
		if err != nil || it == nil {
			return err
		}
		return errors.Join(t.steps(it, s.reverse, f), it.Close())
	})
	if err != nil {
		return nil, t.engine.failure("scan", err)
	}
	return v, nil
}

// iterator opens an iterator over a span, and gives the view that it is of; nil if nothing can be in the span.
func (t *TaskState) iterator(store int, choose func(live int64) span) (v *view, it *pebble.Iterator, err error) {
	v, err = t.asOf(store, func(r pebble.Reader, v *view) (err error) {
		if it != nil {
			err, it = it.Close(), nil
		}
		lower, upper, empty := choose(v.liveFrom(t, store)).bounds(t.numbers[store])
		if empty || err != nil {
			return err
		}
		it, err = r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		return err
	})
	if err != nil && it != nil {
		err = errors.Join(err, it.Close())
	}
	return v, it, err
}

// steps looks at the lease before each entry, so that a Close does not wait for a whole walk.
func (t *TaskState) steps(it *pebble.Iterator, reverse bool, f func(key, value []byte, timestamp int64) bool) error {
	first, next := it.First, it.Next
	if reverse {
		first, next = it.Last, it.Prev
	}
	for valid := first(); valid; valid = next() {
		if t.engine.lease.ending() {
			return ErrStateStoreClosed
		}
		b, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		timestamp, value, err := splitValue(b)
		if err != nil {
			return err
		}
		if !f(it.Key()[numberBytes:], value, timestamp) {
			return nil
		}
	}
	// Damage ends an iteration early and looks like its end, but for this.
	return it.Error()
}

// keysPerReader is how many keys are worth a goroutine of their own.
const keysPerReader = 24

// getMany reads keys, and gives the view that all the values are of. It ends early, with the values of the first keys, when
// the values have more than the given number of bytes; one is always read. Windows that have expired are absent.
func (t *TaskState) getMany(store int, keys [][]byte, limit int) (values []*querypb.Value, v *view, err error) {
	if err := t.enter(store); err != nil {
		return nil, nil, err
	}
	defer t.engine.lease.release()
	defer recovered("get", &err)
	v, err = t.asOf(store, func(r pebble.Reader, v *view) (err error) {
		values, err = t.getAll(r, v, store, keys, limit)
		return err
	})
	if err != nil {
		return nil, nil, t.engine.failure("get", err)
	}
	spec, live := &t.spec.Stores[store], v.liveFrom(t, store)
	for i := range values {
		if spec.expired(keys[i], live) {
			values[i] = &querypb.Value{}
		}
	}
	return values, v, nil
}

// getAll reads many keys by several goroutines, because the actor's next question has to wait for this one in any case.
func (t *TaskState) getAll(from pebble.Reader, v *view, store int, keys [][]byte, limit int) ([]*querypb.Value, error) {
	t.spec.Stores[store].Counts.get(len(keys))
	slab, values := make([]querypb.Value, len(keys)), make([]*querypb.Value, len(keys))
	for i := range values {
		values[i] = &slab[i]
	}
	readers := max(1, min(runtime.GOMAXPROCS(0), len(keys)/keysPerReader))
	errs, sizes := make([]error, readers), make([]int, len(keys))
	var wg sync.WaitGroup
	read := func(r int) {
		low, high := r*len(keys)/readers, (r+1)*len(keys)/readers
		p := part{from, v.memories[store], t.numbers[store], keys[low:high], values[low:high], sizes[low:high]}
		errs[r] = caught("get", func() error { return t.getSome(&p, limit) })
	}
	for r := 1; r < readers; r++ {
		wg.Go(func() { read(r) })
	}
	read(0)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return values[:fitting(sizes, limit)], nil
}

// part is what one goroutine reads: values and sizes are filled in by key.
type part struct {
	from   pebble.Reader
	memory *memory
	number uint16
	keys   [][]byte
	values []*querypb.Value
	sizes  []int
}

// unread marks a key that a reader has left out, because the ones before it have filled the reply.
const unread = -1

// getSome reads a part.
func (t *TaskState) getSome(p *part, limit int) error {
	if p.memory != nil {
		return t.getSomeMemory(p.memory, p.keys, p.values, p.sizes, limit)
	}
	var buf []byte
	var copies arena
	for i, key := range p.keys {
		if limit < 0 {
			p.sizes[i] = unread
			continue
		}
		if t.engine.lease.ending() {
			return ErrStateStoreClosed
		}
		buf = appendKey(buf[:0], p.number, key)
		b, closer, err := p.from.Get(buf)
		if errors.Is(err, pebble.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		timestamp, shared, err := splitValue(b)
		v := p.values[i]
		v.Present, v.Value, v.Timestamp = true, copies.copy(shared), timestamp
		p.sizes[i] = len(shared)
		limit -= len(shared)
		if err = errors.Join(err, closer.Close()); err != nil {
			return err
		}
	}
	return nil
}

// fitting is how many values, from the first on, a reply holds.
func fitting(sizes []int, limit int) int {
	for i, n := range sizes {
		if limit -= n; i > 0 && (n == unread || limit < 0) {
			return i
		}
	}
	return len(sizes)
}
