package topology

import (
	"bytes"
	"fmt"
	"iter"
	"math"

	"github.com/millrace-io/millrace/record"
)

// Session is a session store as a processor of one task sees it. It is for the task's goroutine only.
//
// A session whose end is retention or more behind the highest timestamp in the store is expired: no read gives it, and a
// Put of it is dropped and counted ("expired window"). Times are in milliseconds since the Unix epoch, both ends of a
// session included. The sessions of one key come oldest first, by their ends; the order of two keys' sessions is that of
// the bytes. An error is the last thing that is yielded; a range of keys may be a *RangeError.
type Session[K, V any] struct {
	table[K, V]
	task      Host
	retention int64
}

// In opens the store in a processor's Init. It is an error if the store is not connected to the processor.
func (s SessionStore[K, V]) In(ctx StoreContext) (*Session[K, V], error) {
	state, err := ctx.openStore(s.name)
	if err != nil {
		return nil, err
	}
	v := s.view(state)
	v.task = ctx.host()
	return v, nil
}

func (s SessionStore[K, V]) view(state StateStore) *Session[K, V] {
	return &Session[K, V]{table: newTable(s.name, s.keys, s.values, state), retention: s.retention.Milliseconds()}
}

// cell encodes the session's key into the scratch buffer and asks for its cell.
func (s *Session[K, V]) cell(key K, start, end int64) (*Cell, error) {
	var err error
	if s.key, err = s.keys.Encode(s.key[:0], key); err != nil {
		return nil, storeError(s.name, err)
	}
	return s.at(start, end)
}

// at asks for the cell of the key in the scratch buffer.
func (s *Session[K, V]) at(start, end int64) (*Cell, error) {
	n := len(s.key)
	s.key = record.AppendSessionSuffix(s.key, start, end)
	c, err := s.state.Cell(s.key)
	s.key = s.key[:n]
	return c, storeError(s.name, err)
}

// floor is the first end that is not expired.
func (s *Session[K, V]) floor() int64 { return max(0, s.state.Time()-s.retention+1) }

// FetchSession gives the value of one session; found is false if there is none with exactly these times. Its error is a
// *StoreError: the key cannot be encoded, the value cannot be decoded, or the store cannot be read.
func (s *Session[K, V]) FetchSession(key K, start, end int64) (value V, timestamp int64, found bool, err error) {
	if end < s.floor() || start < 0 {
		return value, 0, false, nil
	}
	c, err := s.cell(key, start, end)
	if err != nil {
		return value, 0, false, err
	}
	return s.read(c)
}

// Put sets the value of a session. The timestamp is the one of the value in the changelog, and what retention counts
// from. A session that starts below 0 or ends before it starts is an error. Put takes out no other session.
func (s *Session[K, V]) Put(session Windowed[K], value V, timestamp int64) error {
	switch {
	case session.Start < 0 || session.End < session.Start:
		return storeError(s.name, fmt.Errorf("there is no session from %d to %d", session.Start, session.End))
	case session.End < s.floor():
		s.task.Dropped("expired window")
		return nil
	}
	c, err := s.cell(session.Key, session.Start, session.End)
	if err != nil {
		return err
	}
	return s.set(c, value, timestamp)
}

// Remove takes a session out. Taking out what is not there is no error.
func (s *Session[K, V]) Remove(session Windowed[K]) error {
	if session.Start < 0 || session.End < session.Start {
		return nil
	}
	c, err := s.cell(session.Key, session.Start, session.End)
	if err != nil {
		return err
	}
	return s.remove(c)
}

// Fetch gives all sessions of one key, oldest first.
func (s *Session[K, V]) Fetch(key K) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.ofKey(key, 0, math.MaxInt64, false)
}

// BackwardFetch is Fetch, newest first.
func (s *Session[K, V]) BackwardFetch(key K) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.ofKey(key, 0, math.MaxInt64, true)
}

// FetchKeys gives all sessions of the keys from keyFrom to keyTo; the key codec must be Ordered.
func (s *Session[K, V]) FetchKeys(keyFrom, keyTo K) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.between(&keyFrom, &keyTo, false)
}

// BackwardFetchKeys is FetchKeys, the other way round.
func (s *Session[K, V]) BackwardFetchKeys(keyFrom, keyTo K) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.between(&keyFrom, &keyTo, true)
}

// FindSessions gives the sessions of one key that end at earliestEnd or later and start at latestStart or earlier: those
// that meet the time between the two, oldest first.
func (s *Session[K, V]) FindSessions(key K, earliestEnd, latestStart int64) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.ofKey(key, earliestEnd, latestStart, false)
}

// BackwardFindSessions is FindSessions, newest first.
func (s *Session[K, V]) BackwardFindSessions(key K, earliestEnd, latestStart int64) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.ofKey(key, earliestEnd, latestStart, true)
}

// All gives every session that is not expired.
func (s *Session[K, V]) All() iter.Seq2[Entry[Windowed[K], V], error] {
	return s.between(nil, nil, false)
}

// BackwardAll is All, the other way round.
func (s *Session[K, V]) BackwardAll() iter.Seq2[Entry[Windowed[K], V], error] {
	return s.between(nil, nil, true)
}

// sessionRange is a range of a session store: bytes that hold everything that is wanted, and what is wanted of it.
type sessionRange struct {
	lower, upper             []byte
	low, high                []byte // keys; nil is open
	earliestEnd, latestStart int64
	reverse                  bool
}

func (r *sessionRange) wants(key []byte, start, end int64) bool {
	return end >= r.earliestEnd && start <= r.latestStart &&
		(r.low == nil || bytes.Compare(key, r.low) >= 0) && (r.high == nil || bytes.Compare(key, r.high) <= 0)
}

// sessionsOf is the range of one encoded key, which it keeps.
func sessionsOf(key []byte, earliestEnd, latestStart int64, reverse bool) sessionRange {
	key = present(key) // nil is open, and the empty key is a key
	return sessionRange{lower: record.AppendSessionSuffix(bytes.Clone(key), 0, max(earliestEnd, 0)),
		upper: record.AppendSessionSuffix(bytes.Clone(key), math.MaxInt64, math.MaxInt64), low: key, high: key,
		earliestEnd: earliestEnd, latestStart: latestStart, reverse: reverse}
}

func (s *Session[K, V]) ofKey(key K, earliestEnd, latestStart int64, reverse bool) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.entries(func() (sessionRange, error) {
		b, err := s.bound(&key)
		return sessionsOf(b, max(earliestEnd, s.floor()), latestStart, reverse), err
	})
}

func (s *Session[K, V]) between(keyFrom, keyTo *K, reverse bool) iter.Seq2[Entry[Windowed[K], V], error] {
	return s.entries(func() (sessionRange, error) {
		low, high, err := s.bounds(keyFrom, keyTo)
		r := sessionRange{lower: low, low: low, high: high, earliestEnd: s.floor(), latestStart: math.MaxInt64, reverse: reverse}
		if high != nil {
			r.upper = record.UpperBound(high, record.AppendSessionSuffix(nil, math.MaxInt64, math.MaxInt64))
		}
		return r, err
	})
}

// entries yields the entries of a range that is made when the loop begins.
func (s *Session[K, V]) entries(of func() (sessionRange, error)) iter.Seq2[Entry[Windowed[K], V], error] {
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
func (s *Session[K, V]) cells(r *sessionRange) iter.Seq2[*Cell, error] {
	return func(yield func(*Cell, error) bool) {
		for c, err := range s.state.Range(r.lower, r.upper, r.reverse) {
			if err == nil {
				key, start, end, ok := record.SplitSessionKey(bytesOf(c.Key))
				if !ok {
					err = fmt.Errorf("%x is not a session store's key", c.Key)
				} else if !r.wants(key, start, end) {
					continue
				}
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// windowed gives the session of a cell.
func (s *Session[K, V]) windowed(c *Cell) (w Windowed[K], err error) {
	key, start, end, ok := record.SplitSessionKey(bytesOf(c.Key))
	if !ok {
		return w, storeError(s.name, fmt.Errorf("%x is not a session store's key", c.Key))
	}
	w.Start, w.End = start, end
	w.Key, err = s.keys.Decode(key)
	return w, storeError(s.name, err)
}

func (s *Session[K, V]) entry(c *Cell) (e Entry[Windowed[K], V], err error) {
	if e.Key, err = s.windowed(c); err != nil {
		return e, err
	}
	e.Timestamp = c.Timestamp
	e.Value, err = s.decode(c)
	return e, err
}
