package query

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/millrace-io/millrace/record"
)

// Fetch reads the window of a key that begins at start: the draft's fetch(key, time). It acquires the store and reads in
// one message, to the partition of the key. A window that is absent, or has expired, is not an error; found is false. A
// start before 0 is InvalidQuery. The error is a *Failure.
func Fetch[K, V any](ctx context.Context, c Client, h WindowHandle[K, V], key K, start int64, opts ...Option) (value V, found bool, err error) {
	return fetchWindow(ctx, bind[K, V](c, h, opts), key, start)
}

// FetchRange yields the windows of one key with from ≤ start ≤ to, by start. It is ScanWindows of WindowsOf.
func FetchRange[K, V any](ctx context.Context, c Client, h WindowHandle[K, V], key K, from, to int64, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return ScanWindows[K, V](ctx, c, h, WindowsOf(key, from, to), opts...)
}

// FetchKeys yields the windows of keyFrom ≤ key ≤ keyTo with from ≤ start ≤ to. It is ScanWindows of WindowsBetween. The
// codec must be Ordered.
func FetchKeys[K, V any](ctx context.Context, c Client, h WindowHandle[K, V], keyFrom, keyTo K, from, to int64, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return ScanWindows[K, V](ctx, c, h, WindowsBetween(keyFrom, keyTo, from, to), opts...)
}

// FetchAll yields the windows of all keys with from ≤ start ≤ to. It is ScanWindows of WindowsIn.
func FetchAll[K, V any](ctx context.Context, c Client, h WindowHandle[K, V], from, to int64, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return ScanWindows[K, V](ctx, c, h, WindowsIn[K](from, to), opts...)
}

// AllWindows yields every window. It is ScanWindows of EveryWindow.
func AllWindows[K, V any](ctx context.Context, c Client, h WindowHandle[K, V], opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return ScanWindows[K, V](ctx, c, h, EveryWindow[K](), opts...)
}

// FetchSessions yields all sessions of one key, by end and then by start: the draft's fetch(key). It is ScanWindows of
// SessionsOf.
func FetchSessions[K, V any](ctx context.Context, c Client, h Handle[K, V], key K, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return ScanWindows(ctx, c, h, SessionsOf(key), opts...)
}

// FetchSessionKeys yields the sessions of keyFrom ≤ key ≤ keyTo: the draft's fetch(from, to). It is ScanWindows of
// SessionsBetween. The codec must be Ordered.
func FetchSessionKeys[K, V any](ctx context.Context, c Client, h Handle[K, V], keyFrom, keyTo K, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return ScanWindows(ctx, c, h, SessionsBetween(keyFrom, keyTo), opts...)
}

// FindSessions yields the sessions of one key that end at earliestEnd or later and start at latestStart or earlier. It is
// ScanWindows of SessionsWithin.
func FindSessions[K, V any](ctx context.Context, c Client, h Handle[K, V], key K, earliestEnd, latestStart int64, opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return ScanWindows(ctx, c, h, SessionsWithin(key, earliestEnd, latestStart), opts...)
}

// AllSessions yields every session. It is ScanWindows of EverySession.
func AllSessions[K, V any](ctx context.Context, c Client, h Handle[K, V], opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return ScanWindows(ctx, c, h, EverySession[K](), opts...)
}

// ScanWindows yields the windows, or sessions, of a span; h must be of that kind, a WindowHandle for windows. The order is
// that of Range: partition after partition, in each in the byte order of the store's keys, which is that of times for the
// windows of one key, and interleaves the windows of keys of different lengths. Reverse gives the opposite order. It
// validates, ends in a failure and resumes as Range does; what expires while it goes on may be left out.
func ScanWindows[K, V any](ctx context.Context, c Client, h Handle[K, V], span WindowSpan[K], opts ...Option) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return scanWindows(ctx, bind(c, h, opts), span)
}

// IterateWindows makes an iterator over what ScanWindows yields. It asks nothing before its first step.
func IterateWindows[K, V any](ctx context.Context, c Client, h Handle[K, V], span WindowSpan[K], opts ...Option) *KeyValueIterator[record.Windowed[K], V] {
	return iterateWindows(ctx, bind(c, h, opts), span)
}

func scanWindows[K, V any](ctx context.Context, b *binding[K, V], span WindowSpan[K]) iter.Seq2[Entry[record.Windowed[K], V], error] {
	return windowed(b).walks(ctx, windowPlan(b, span))
}

func iterateWindows[K, V any](ctx context.Context, b *binding[K, V], span WindowSpan[K]) *KeyValueIterator[record.Windowed[K], V] {
	return &KeyValueIterator[record.Windowed[K], V]{walk: newWalk(ctx, windowed(b), windowPlan(b, span))}
}

func windowPlan[K, V any](b *binding[K, V], span WindowSpan[K]) plan {
	return func(ctx context.Context) (bounds, error) { return windowBounds(ctx, b, span) }
}

func fetchWindow[K, V any](ctx context.Context, b *binding[K, V], key K, start int64) (v V, found bool, err error) {
	if err := b.wants(ctx, windowKind); err != nil {
		return v, false, err
	}
	if start < 0 {
		return v, false, b.mistake(ctx, Invalid(b.handle.StoreName(), NoPartition, fmt.Sprintf("no window begins before 0, so none at %d", start)))
	}
	raw, err := b.encode(ctx, key)
	if err != nil {
		return v, false, err
	}
	return b.getEncoded(ctx, raw, record.AppendWindowSuffix(bytes.Clone(raw), start, 0))
}
