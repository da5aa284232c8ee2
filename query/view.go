package query

import (
	"context"
	"errors"
	"iter"

	"github.com/millrace-io/millrace/query/querypb"
)

// View is a typed handle that is bound to the stores that were open when Open returned: the draft's store() and
// setStreams() in one. Its reads fail with StateStoreMigrated when a partition has been opened anew or has moved, and
// with StateStoreNotAvailable when the node has stopped: Open again, at the failure's Owner or at another node. A View
// may be used from any goroutine and needs no closing. One of a window or session store is read by Fetch and the methods
// beside it.
type View[K, V any] struct{ binding[K, V] }

// Open checks the store's name, kind and codecs and that the node runs, and takes the lease of each partition that can
// answer now. It fails if no partition can, with the failure of the first one, and for each mistake of the caller. A
// partition without a lease is asked when it is read.
func Open[K, V any](ctx context.Context, c Client, h Handle[K, V], opts ...Option) (*View[K, V], error) {
	b := bind(c, h, opts)
	n, err := b.partitions(ctx)
	if err != nil {
		return nil, err
	}
	leases := make([]uint64, n)
	partitions, err := b.all(ctx)
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(partitions))
	_ = each(partitions, func(i int, p int32) error {
		r, err := b.ask(ctx, &querypb.Open{About: b.about(ctx, p)})
		if err == nil && int(p) < len(leases) {
			leases[p] = r.Epoch
		}
		errs[i] = err
		return nil
	})
	if err := opened(errs); err != nil {
		return nil, err
	}
	b.leases = leases
	return &View[K, V]{*b}, nil
}

// opened is why a View cannot be had, if so.
func opened(errs []error) (first error) {
	open := false
	for _, err := range errs {
		if f := (*Failure)(nil); errors.As(err, &f) && f.retry() == Never {
			return err
		}
		open = open || err == nil
		if first == nil {
			first = err
		}
	}
	if open {
		return nil
	}
	return first
}

// Get reads one key, as the function Get does.
func (v *View[K, V]) Get(ctx context.Context, key K) (value V, found bool, err error) {
	return v.get(ctx, key)
}

// GetMany reads many keys, as the function GetMany does.
func (v *View[K, V]) GetMany(ctx context.Context, keys []K) ([]Result[V], error) {
	return v.getMany(ctx, keys)
}

// Range yields the entries between two keys, as the function Range does.
func (v *View[K, V]) Range(ctx context.Context, from, to K) iter.Seq2[Entry[K, V], error] {
	return v.Scan(ctx, Between(from, to))
}

// ReverseRange is Range in the opposite order.
func (v *View[K, V]) ReverseRange(ctx context.Context, from, to K) iter.Seq2[Entry[K, V], error] {
	return v.Scan(ctx, Between(from, to), Reverse())
}

// Prefix yields the entries whose encoded keys begin with prefix.
func (v *View[K, V]) Prefix(ctx context.Context, prefix []byte) iter.Seq2[Entry[K, V], error] {
	return v.Scan(ctx, Prefixed[K](prefix))
}

// All yields every entry.
func (v *View[K, V]) All(ctx context.Context) iter.Seq2[Entry[K, V], error] {
	return v.Scan(ctx, Everything[K]())
}

// Scan yields the entries of a span, as the function Scan does. The options add to those of Open.
func (v *View[K, V]) Scan(ctx context.Context, span Span[K], opts ...Option) iter.Seq2[Entry[K, V], error] {
	return v.with(opts).scan(ctx, span)
}

// Iterate is an iterator over a span, as the function Iterate makes it. The options add to those of Open.
func (v *View[K, V]) Iterate(ctx context.Context, span Span[K], opts ...Option) *KeyValueIterator[K, V] {
	return v.with(opts).iterate(ctx, span)
}

// Count is the number of entries, as the function Count gives it.
func (v *View[K, V]) Count(ctx context.Context) (int64, error) { return v.count(ctx) }

// Epoch is the lease epoch of a partition; 0 if the View has none.
func (v *View[K, V]) Epoch(partition int32) uint64 {
	if partition < 0 || int(partition) >= len(v.leases) {
		return 0
	}
	return v.leases[partition]
}

func (v *View[K, V]) with(opts []Option) *binding[K, V] {
	b := v.binding
	for _, f := range opts {
		f(&b.opts)
	}
	return &b
}
