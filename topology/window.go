package topology

import (
	"bytes"
	"fmt"
	"iter"
	"math"

	"github.com/millrace-io/millrace/record"
)

// Window is a window store as a processor of one task sees it. It is for the task's goroutine only.
//
// A window whose start is retention or more behind the highest timestamp in the store is expired: no read gives it, and
// a Put of it is dropped and counted ("expired window"). Times are in milliseconds since the Unix epoch; both ends of a
// range of times are included and mean starts of windows. The windows of one key come oldest first; the order of two
// keys' windows is that of the bytes. An error is the last thing that is yielded. A range of keys, or one of times whose
// ends are the wrong way round, may be a *RangeError.
type Window[K, V any] struct {
	table[K, V]
	task            Host
	size, retention int64
}

// In opens the store in a processor's Init. It is an error if the store is not connected to the processor.
func (s WindowStore[K, V]) In(ctx StoreContext) (*Window[K, V], error) {
	state, err := ctx.openStore(s.name)
	if err != nil {
		return nil, err
	}
	w := s.view(state)
	w.task = ctx.host()
	return w, nil
}

func (s WindowStore[K, V]) view(state StateStore) *Window[K, V] {
	return &Window[K, V]{table: newTable(s.name, s.keys, s.values, state), size: s.size.Milliseconds(), retention: s.retention.Milliseconds()}
}

// cell encodes key and start into the scratch buffer and asks for its cell.
func (s *Window[K, V]) cell(key K, start int64) (*Cell, error) {
	var err error
	if s.key, err = s.keys.Encode(s.key[:0], key); err != nil {
		return nil, storeError(s.name, err)
	}
	return s.at(start)
}

// at asks for the cell of the key in the scratch buffer.
func (s *Window[K, V]) at(start int64) (*Cell, error) {
	n := len(s.key)
	s.key = record.AppendWindowSuffix(s.key, start, 0)
	c, err := s.state.Cell(s.key)
	s.key = s.key[:n]
	return c, storeError(s.name, err)
}

// floor is the first start that is not expired.
func (s *Window[K, V]) floor() int64 { return max(0, s.state.Time()-s.retention+1) }

// Fetch gives the value of the window of key that starts at start; found is false if there is none. Its error is a
// *StoreError: the key cannot be encoded, the value cannot be decoded, or the store cannot be read.
func (s *Window[K, V]) Fetch(key K, start int64) (value V, found bool, err error) {
	value, _, found, err = s.FetchTimestamped(key, start)
	return value, found, err
}

// FetchTimestamped is Fetch with the value's timestamp.
func (s *Window[K, V]) FetchTimestamped(key K, start int64) (value V, timestamp int64, found bool, err error) {
	if start < s.floor() {
		return value, 0, false, nil
	}
	c, err := s.cell(key, start)
	if err != nil {
		return value, 0, false, err
	}
	return s.read(c)
}

// Put sets the value of a window. The timestamp is the one of the value in the changelog, and what retention counts from.
// A start below 0 is an error.
func (s *Window[K, V]) Put(key K, start int64, value V, timestamp int64) error {
	switch {
	case start < 0:
		return storeError(s.name, fmt.Errorf("a window cannot start at %d", start))
	case start < s.floor():
		s.task.Dropped("expired window")
		return nil
	}
	c, err := s.cell(key, start)
	if err != nil {
		return err
	}
	return s.set(c, value, timestamp)
}

// Delete takes a window out. Taking out what is not there is no error.
func (s *Window[K, V]) Delete(key K, start int64) error {
	if start < 0 {
		return nil
	}
	c, err := s.cell(key, start)
	if err != nil {
		return err
	}
	return s.remove(c)
}

// FetchBetween gives the windows of one key that start from from to to, oldest first.
func (s *Window[K, V]) FetchBetween(key K, from, to int64) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.ofKey(key, from, to, false)
}

// BackwardFetchBetween is FetchBetween, newest first.
func (s *Window[K, V]) BackwardFetchBetween(key K, from, to int64) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.ofKey(key, from, to, true)
}

// FetchKeys gives the windows of the keys from keyFrom to keyTo that start from from to to; the key codec must be
// Ordered.
func (s *Window[K, V]) FetchKeys(keyFrom, keyTo K, from, to int64) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.between(&keyFrom, &keyTo, from, to, false)
}

// BackwardFetchKeys is FetchKeys, the other way round.
func (s *Window[K, V]) BackwardFetchKeys(keyFrom, keyTo K, from, to int64) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.between(&keyFrom, &keyTo, from, to, true)
}

// FetchAll gives the windows of all keys that start from from to to. It reads the whole store.
func (s *Window[K, V]) FetchAll(from, to int64) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.between(nil, nil, from, to, false)
}

// BackwardFetchAll is FetchAll, the other way round.
func (s *Window[K, V]) BackwardFetchAll(from, to int64) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.between(nil, nil, from, to, true)
}

// All gives every window that is not expired.
func (s *Window[K, V]) All() iter.Seq2[Entry[Windowed[K], V], error] {
	return s.between(nil, nil, 0, math.MaxInt64, false)
}

// BackwardAll is All, the other way round.
func (s *Window[K, V]) BackwardAll() iter.Seq2[Entry[Windowed[K], V], error] {
	return s.between(nil, nil, 0, math.MaxInt64, true)
}

// windowRange is a range of a window store: bytes that hold everything that is wanted, and what is wanted of it. Keys of
// several lengths interleave, so the bytes alone do not say.
type windowRange struct {
	lower, upper []byte
	low, high    []byte // keys; nil is open
	from, to     int64
	reverse      bool
}

func (r *windowRange) wants(key []byte, start int64) bool {
	return start >= r.from && start <= r.to &&
		(r.low == nil || bytes.Compare(key, r.low) >= 0) && (r.high == nil || bytes.Compare(key, r.high) <= 0)
}

// oneKey is the range of one encoded key, which it keeps.
func oneKey(key []byte, from, to int64, reverse bool) windowRange {
	key = present(key) // nil is open, and the empty key is a key
	return windowRange{lower: record.AppendWindowSuffix(bytes.Clone(key), max(from, 0), 0),
		upper: record.AppendWindowSuffix(bytes.Clone(key), to, math.MaxUint32), low: key, high: key, from: from, to: to, reverse: reverse}
}

func (s *Window[K, V]) ofKey(key K, from, to int64, reverse bool) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.entries(func() (windowRange, error) {
		b, err := s.bound(&key)
		if err == nil {
			err = s.times(from, to)
		}
		return oneKey(b, max(from, s.floor()), to, reverse), err
	})
}

func (s *Window[K, V]) between(keyFrom, keyTo *K, from, to int64, reverse bool) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.entries(func() (windowRange, error) {
		low, high, err := s.bounds(keyFrom, keyTo)
		if err == nil {
			err = s.times(from, to)
		}
		r := windowRange{lower: low, low: low, high: high, from: max(from, s.floor()), to: to, reverse: reverse}
		if high != nil {
			r.upper = record.UpperBound(high, record.AppendWindowSuffix(nil, max(to, 0), math.MaxUint32))
		}
		return r, err
	})
}

func (s *table[K, V]) times(from, to int64) error {
	if from > to {
		return &RangeError{s.keys.Name(), fmt.Sprintf("its first time %d is after its last time %d; swap them", from, to)}
	}
	return nil
}

// entries yields the entries of a range that is made when the loop begins.
func (s *Window[K, V]) entries(of func() (windowRange, error)) iter.Seq2[Entry[Windowed[K], V], error] {
	return func(yield func(Entry[Windowed[K], V], error) bool) {
		r, err := of()
		if err != nil {
			yield(Entry[Windowed[K], V]{}, storeError(s.name, err))
			return
		}
		for c, err := range s.cells(&r) {
			var e Entry[Windowed[K], V]
			if err == nil {
				e, err = s.entry(c)
			}
			if !yield(e, storeOnce(s.name, err)) || err != nil {
				return
			}
		}
	}
}

// cells yields the cells of a range.
func (s *Window[K, V]) cells(r *windowRange) iter.Seq2[*Cell, error] {
	return func(yield func(*Cell, error) bool) {
		if r.from > r.to {
			return
		}
		for c, err := range s.state.Range(r.lower, r.upper, r.reverse) {
			if err == nil {
				key, start, _, ok := record.SplitWindowKey(bytesOf(c.Key))
				if !ok {
					err = fmt.Errorf("%x is not a window store's key", c.Key)
				} else if !r.wants(key, start) {
					continue
				}
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// windowed gives the window of a cell.
func (s *Window[K, V]) windowed(c *Cell) (w Windowed[K], err error) {
	key, start, _, ok := record.SplitWindowKey(bytesOf(c.Key))
	if !ok {
		return w, storeError(s.name, fmt.Errorf("%x is not a window store's key", c.Key))
	}
	w.Start, w.End = start, start+s.size
	w.Key, err = s.keys.Decode(key)
	return w, storeError(s.name, err)
}

func (s *Window[K, V]) entry(c *Cell) (e Entry[Windowed[K], V], err error) {
	if e.Key, err = s.windowed(c); err != nil {
		return e, err
	}
	e.Timestamp = c.Timestamp
	e.Value, err = s.decode(c)
	return e, err
}
