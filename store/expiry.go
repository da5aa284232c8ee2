package store

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/record"
)

// The kinds of stores whose keys end with times, as the topology names them.
const (
	kindWindow  = "window"
	kindSession = "session"
)

const (
	// segmentMin is the shortest segment, in milliseconds; otherwise it is half of the retention, as in Kafka Streams.
	segmentMin = 60_000
	// expiryMargin is for how much longer than the retention windows stay, in milliseconds: a sliding window is made of
	// ones that lie up to two milliseconds further back.
	expiryMargin = 1_000
	// A commit looks at sweepRows rows, and at sweepPerWrite more for each row that it writes. A sweep passes the rows of
	// one and a half retentions, and the next one is due after half of one, so it must be faster than three rows for one.
	sweepRows     = 1_000
	sweepPerWrite = 4
)

// How windows expire. A window store is an ordinary store: its engine keys are the changelog's, key first. Expiry goes by
// segments of the store's time: each time that it enters another segment, a sweep walks over the store, a part of it with
// every commit, and deletes the windows before the last segment that anything live is in. Nobody sees how far it has got:
// processors and restores leave out what has expired to the millisecond, and so must queries (LiveFrom).
//
// Rejected: the segment's number before the key, so that a segment goes with one DeleteRange. That is cheaper to expire
// (measured on 632,000 rows: a delete for each costs 0.8 microseconds of CPU per row, off the loop, where writing it has cost
// 2.5 to 3.5), and dearer for everything else: every read of a key is a seek for each live segment, every scan, page, count
// and resumption a merge of them, and the sessions of a key are looked up for every record. Rejected: a database for each
// segment; there is no atomic commit across them.
type sweep struct {
	// limit is what this sweep expires before, done what the last one did.
	limit, done int64
	// next is the engine key to go on at, nil between two sweeps.
	next []byte
}

func (s *StoreSpec) windowed() bool { return s.Kind == kindWindow || s.Kind == kindSession }

// windowTime is the time that a window expires by: the start of a window, the end of a session.
func (s *StoreSpec) windowTime(key []byte) (at int64, ok bool) {
	if s.Kind == kindSession {
		_, _, at, ok = record.SplitSessionKey(key)
		return at, ok
	}
	_, at, _, ok = record.SplitWindowKey(key)
	return at, ok
}

// liveFrom is the first time that a store keeps for certain when its own time is now; 0 if it keeps everything.
func (s *StoreSpec) liveFrom(now int64) int64 {
	if !s.windowed() || s.Retention == 0 {
		return 0
	}
	return max(0, now-s.Retention.Milliseconds()-expiryMargin+1)
}

func (s *StoreSpec) expired(key []byte, live int64) bool {
	if live <= 0 {
		return false
	}
	at, ok := s.windowTime(key)
	return ok && at < live
}

// segmentFrom is the beginning of the segment of liveFrom.
func (s *StoreSpec) segmentFrom(now int64) int64 {
	segment := max(s.Retention.Milliseconds()/2, segmentMin)
	return s.liveFrom(now) / segment * segment
}

// LiveFrom is the first time that is not expired in a window store (a window's start) or a session store (a session's
// end): what is before it may be there still, and must not be shown. It is 0 for other stores.
func (t *TaskState) LiveFrom(store int) int64 {
	return t.view.Load().liveFrom(t, store)
}

// liveFrom is LiveFrom as of a view.
func (v *view) liveFrom(t *TaskState, store int) int64 {
	s := &t.spec.Stores[store]
	if !s.windowed() || s.Retention == 0 {
		return 0
	}
	return max(0, v.time(store)-s.Retention.Milliseconds()+1)
}

// sweep adds a part of what has expired to a batch.
func (t *TaskState) sweep(v *view, b *pebble.Batch, writes int) error {
	for i := range t.spec.Stores {
		s, w := &t.spec.Stores[i], &t.sweeps[i]
		if w.next == nil {
			limit := s.segmentFrom(v.time(i))
			if limit <= w.done {
				continue
			}
			if s.InMemory {
				v.memories[i], w.done = v.memories[i].without(s, limit), limit
				continue
			}
			w.limit = limit
			w.next, _ = prefixes(t.numbers[i])
		}
		if err := t.sweepSome(s, w, t.numbers[i], b, sweepRows+sweepPerWrite*writes); err != nil {
			return err
		}
	}
	return nil
}

func (t *TaskState) sweepSome(s *StoreSpec, w *sweep, number uint16, b *pebble.Batch, rows int) (err error) {
	_, upper := prefixes(number)
	it, err := t.engine.db.NewIter(&pebble.IterOptions{LowerBound: w.next, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for valid := it.First(); valid; valid = it.Next() {
		if rows--; rows < 0 {
			w.next = append(w.next[:0:0], it.Key()...)
			return nil
		}
		if s.expired(it.Key()[numberBytes:], w.limit) {
			if err := b.Delete(it.Key(), nil); err != nil {
				return err
			}
		}
	}
	w.next, w.done = nil, w.limit
	return it.Error()
}
