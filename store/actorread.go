package store

import (
	"errors"
	"runtime"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/query/querypb"
)

// walk calls f for each entry of a span until f is false. Key and value belong to the engine and are good for that call
// only. It is scan for those who copy what they keep, and catches panics once for the whole walk: f must not panic.
func (t *TaskState) walk(store int, s span, f func(key, value []byte, timestamp int64) bool) error {
	if err := t.enter(store); err != nil {
		return err
	}
	defer t.engine.lease.release()
	if m := t.memory(store); m != nil {
		return t.walkMemory(m, s, f)
	}
	lower, upper, empty := s.bounds(t.numbers[store])
	if empty {
		return nil
	}
	err := caught("scan", func() error {
		it, err := t.engine.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			return err
		}
		return errors.Join(t.steps(it, s.reverse, f), it.Close())
	})
	if err != nil {
		return t.engine.failure("scan", err)
	}
	return nil
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

// getMany reads keys. It ends early, with the values of the first keys, when the values have more than the given number of
// bytes; one is always read. Many keys are read by several goroutines, because the actor's next question has to wait for
// this one in any case.
func (t *TaskState) getMany(store int, keys [][]byte, limit int) ([]*querypb.Value, error) {
	if err := t.enter(store); err != nil {
		return nil, err
	}
	defer t.engine.lease.release()
	slab, values := make([]querypb.Value, len(keys)), make([]*querypb.Value, len(keys))
	for i := range values {
		values[i] = &slab[i]
	}
	readers := max(1, min(runtime.GOMAXPROCS(0), len(keys)/keysPerReader))
	errs, sizes := make([]error, readers), make([]int, len(keys))
	var wg sync.WaitGroup
	read := func(r int) {
		from, to := r*len(keys)/readers, (r+1)*len(keys)/readers
		errs[r] = caught("get", func() error { return t.getSome(store, keys[from:to], values[from:to], sizes[from:to], limit) })
	}
	for r := 1; r < readers; r++ {
		wg.Go(func() { read(r) })
	}
	read(0)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, t.engine.failure("get", err)
	}
	return values[:fitting(sizes, limit)], nil
}

// unread marks a key that a reader has left out, because the ones before it have filled the reply.
const unread = -1

// getSome is one reader's part: values and sizes are filled in by key.
func (t *TaskState) getSome(store int, keys [][]byte, values []*querypb.Value, sizes []int, limit int) error {
	if m := t.memory(store); m != nil {
		return t.getSomeMemory(m, keys, values, sizes, limit)
	}
	var buf []byte
	var copies arena
	for i, key := range keys {
		if limit < 0 {
			sizes[i] = unread
			continue
		}
		if t.engine.lease.ending() {
			return ErrStateStoreClosed
		}
		buf = appendKey(buf[:0], t.numbers[store], key)
		b, closer, err := t.engine.db.Get(buf)
		if errors.Is(err, pebble.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		timestamp, shared, err := splitValue(b)
		v := values[i]
		v.Present, v.Value, v.Timestamp = true, copies.copy(shared), timestamp
		sizes[i] = len(shared)
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
