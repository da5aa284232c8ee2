package query

import (
	"context"
	"iter"

	"github.com/millrace-io/millrace/record"
)

// Fetch reads the window of a key that begins at start, as the function Fetch does.
func (v *View[K, V]) Fetch(ctx context.Context, key K, start int64) (value V, found bool, err error) {
	return fetchWindow(ctx, &v.binding, key, start)
}

// FetchRange yields the windows of one key, as the function FetchRange does.
func (v *View[K, V]) FetchRange(ctx context.Context, key K, from, to int64, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return v.ScanWindows(ctx, WindowsOf(key, from, to), opts...)
}

// FetchKeys yields the windows of a range of keys, as the function FetchKeys does.
func (v *View[K, V]) FetchKeys(ctx context.Context, keyFrom, keyTo K, from, to int64, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return v.ScanWindows(ctx, WindowsBetween(keyFrom, keyTo, from, to), opts...)
}

// FetchAll yields the windows of all keys, as the function FetchAll does.
func (v *View[K, V]) FetchAll(ctx context.Context, from, to int64, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return v.ScanWindows(ctx, WindowsIn[K](from, to), opts...)
}

// AllWindows yields every window.
func (v *View[K, V]) AllWindows(ctx context.Context, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return v.ScanWindows(ctx, EveryWindow[K](), opts...)
}

// FetchSessions yields the sessions of one key, as the function FetchSessions does.
func (v *View[K, V]) FetchSessions(ctx context.Context, key K, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return v.ScanWindows(ctx, SessionsOf(key), opts...)
}

// FetchSessionKeys yields the sessions of a range of keys, as the function FetchSessionKeys does.
func (v *View[K, V]) FetchSessionKeys(ctx context.Context, keyFrom, keyTo K, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return v.ScanWindows(ctx, SessionsBetween(keyFrom, keyTo), opts...)
}

// FindSessions yields sessions of one key by their times, as the function FindSessions does.
func (v *View[K, V]) FindSessions(ctx context.Context, key K, earliestEnd, latestStart int64, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return v.ScanWindows(ctx, SessionsWithin(key, earliestEnd, latestStart), opts...)
}

// AllSessions yields every session.
func (v *View[K, V]) AllSessions(ctx context.Context, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return v.ScanWindows(ctx, EverySession[K](), opts...)
}

// ScanWindows yields the windows or sessions of a span, as the function ScanWindows does. The options add to those of Open.
func (v *View[K, V]) ScanWindows(ctx context.Context, span WindowSpan[K], opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return scanWindows(ctx, v.with(opts), span)
}

// IterateWindows is an iterator over a span, as the function IterateWindows makes it. The options add to those of Open.
func (v *View[K, V]) IterateWindows(ctx context.Context, span WindowSpan[K], opts ...Option) *KeyValueIterator[record.Windowed[K], V] {
	return iterateWindows(ctx, v.with(opts), span)
}
