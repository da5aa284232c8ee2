package query

import "context"

// KeyValueIterator walks over a span: the draft's KeyValueIterator. Every step validates that the store it began on still
// answers, so the end of the span and the loss of the store are never confused: the one is HasNext without an error, the
// other a *Failure with the last key delivered, whose Resume goes on. A failure stays. It belongs to one goroutine. Close
// ends a question that may be under way for the next page, which would else end by itself, and makes a mistaken use after it
// be told.
type KeyValueIterator[K, V any] struct {
	walk   *walk[K, V]
	closed bool
}

// Iterate makes an iterator over a span, in the order of Range. It asks nothing before its first step.
func Iterate[K, V any](ctx context.Context, c Client, h Handle[K, V], span Span[K], opts ...Option) *KeyValueIterator[K, V] {
	return bind(c, h, opts).iterate(ctx, span)
}

func (b *binding[K, V]) iterate(ctx context.Context, span Span[K]) *KeyValueIterator[K, V] {
	return &KeyValueIterator[K, V]{walk: newWalk(ctx, b, b.plan(span))}
}

// HasNext says whether there is another entry. False without an error is the end of the span.
func (it *KeyValueIterator[K, V]) HasNext() (bool, error) {
	if it.closed {
		return false, it.misuse("it was closed")
	}
	ok := it.walk.valid()
	return ok, it.walk.err
}

// Next delivers the next entry. At the end of the span it fails with IteratorClosed.
func (it *KeyValueIterator[K, V]) Next() (entry Entry[K, V], err error) {
	if entry, err = it.here(); err == nil {
		it.walk.advance()
	}
	return entry, err
}

// PeekNextKey is the key that Next will deliver. At the end of the span it fails with IteratorClosed.
func (it *KeyValueIterator[K, V]) PeekNextKey() (K, error) {
	entry, err := it.here()
	return entry.Key, err
}

// Close ends the iterator. What follows fails with IteratorClosed, but for another Close.
func (it *KeyValueIterator[K, V]) Close() {
	it.closed = true
	it.walk.page, it.walk.here = Entries{}, false
	it.walk.leave()
}

func (it *KeyValueIterator[K, V]) here() (entry Entry[K, V], err error) {
	more, err := it.HasNext()
	if err != nil {
		return entry, err
	}
	if !more {
		return entry, it.misuse("there is no next entry")
	}
	return it.walk.entry()
}

func (it *KeyValueIterator[K, V]) misuse(detail string) *Failure {
	f := New(IteratorClosed, it.walk.handle.StoreName(), NoPartition)
	f.Detail = detail
	return f
}
