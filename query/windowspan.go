package query

import (
	"context"

	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// WindowSpan is which windows or sessions a scan is over. Keys and times are included at both ends. Times are in
// milliseconds since the Unix epoch and compared as signed numbers; no window begins before 0. What has expired, by the
// store's retention and its stream time, is in no span.
type WindowSpan[K any] struct {
	session  bool
	from, to *K
	one      bool
	// nil is open
	startFrom, startTo, endFrom *int64
}

// WindowsOf is the windows of one key with from ≤ start ≤ to: the draft's fetch(key, from, to). Only the partition of the
// key is asked.
func WindowsOf[K any](key K, from, to int64) WindowSpan[K] {
	s := WindowsIn[K](from, to)
	s.from, s.to, s.one = &key, &key, true
	return s
}

// WindowsBetween is the windows of keyFrom ≤ key ≤ keyTo with from ≤ start ≤ to: fetch(keyFrom, keyTo, from, to). It needs
// a key codec that is Ordered.
func WindowsBetween[K any](keyFrom, keyTo K, from, to int64) WindowSpan[K] {
	s := WindowsIn[K](from, to)
	s.from, s.to = &keyFrom, &keyTo
	return s
}

// WindowsIn is the windows of all keys with from ≤ start ≤ to: fetchAll(from, to).
func WindowsIn[K any](from, to int64) WindowSpan[K] {
	return WindowSpan[K]{startFrom: &from, startTo: &to}
}

// EveryWindow is all windows: all().
func EveryWindow[K any]() WindowSpan[K] { return WindowSpan[K]{} }

// SessionsOf is all sessions of one key: fetch(key). Only the partition of the key is asked.
func SessionsOf[K any](key K) WindowSpan[K] {
	return WindowSpan[K]{session: true, from: &key, to: &key, one: true}
}

// SessionsBetween is the sessions of keyFrom ≤ key ≤ keyTo: fetch(keyFrom, keyTo). It needs a key codec that is Ordered.
func SessionsBetween[K any](keyFrom, keyTo K) WindowSpan[K] {
	return WindowSpan[K]{session: true, from: &keyFrom, to: &keyTo}
}

// SessionsWithin is the sessions of one key that end at earliestEnd or later and start at latestStart or earlier:
// findSessions(key, earliestEnd, latestStart). With both the same it is the session that holds this time; with earliestEnd
// the lower one it is the sessions that touch the time between them.
func SessionsWithin[K any](key K, earliestEnd, latestStart int64) WindowSpan[K] {
	s := SessionsOf(key)
	s.endFrom, s.startTo = &earliestEnd, &latestStart
	return s
}

// EverySession is all sessions.
func EverySession[K any]() WindowSpan[K] { return WindowSpan[K]{session: true} }

func (s *WindowSpan[K]) kind() string {
	if s.session {
		return sessionKind
	}
	return windowKind
}

// windowBounds makes the filter of a span. b is the binding of the raw keys, whose codec must be Ordered for a range of them.
func windowBounds[K, V any](ctx context.Context, b *binding[K, V], s WindowSpan[K]) (out bounds, err error) {
	if err := b.wants(ctx, s.kind()); err != nil {
		return out, err
	}
	w := &querypb.Windows{StartFrom: s.startFrom, StartTo: s.startTo, EndFrom: s.endFrom}
	out.windows = w
	switch {
	case s.one:
		if w.KeyFrom, err = b.encode(ctx, *s.from); err != nil {
			return out, err
		}
		w.KeyTo, out.home = w.KeyFrom, w.KeyFrom
	case s.from != nil:
		keys, err := b.bounds(ctx, Between(*s.from, *s.to))
		if err != nil {
			return out, err
		}
		w.KeyFrom, w.KeyTo = keys.from, keys.to
	}
	if m := windowsMistake(w); m != "" {
		return out, b.mistake(ctx, Invalid(b.handle.StoreName(), NoPartition, m))
	}
	return out, nil
}

// windowed is the binding of the same reads by composite keys. The store knows their codec by the name of the raw keys'.
func windowed[K, V any](b *binding[K, V]) *binding[record.Windowed[K], V] {
	return &binding[record.Windowed[K], V]{client: b.client, handle: windowHandle[K, V]{b.handle}, opts: b.opts, leases: b.leases}
}
