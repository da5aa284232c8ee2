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
// may be used from any goroutine and needs no closing.
type View[K, V any] struct{ binding[K, V] }

// Open checks the store's name, kind and codecs and that the node runs, and takes the lease of each partition that can
// answer now. It fails if no partition can, with the failure of the first one, and for each mistake of the caller. A
// partition without a lease is asked when it is read.
func Open[K, V any](ctx context.Context, c Client, h Handle[K, V], opts ...Option) (*View[K, V], error) {
	b := binding[K, V]{client: c, handle: h, opts: gather(opts)}
	n, err := c.Partitions(ctx, h.StoreName())
	if err != nil {
		return nil, err
	}
	leases := make([]uint64, n)
	var first error
	open := false
	for p := range n {
		r, err := b.ask(ctx, &querypb.Open{About: b.about(ctx, p)})
		if err == nil {
			leases[p], open = r.Epoch, true
			continue
		}
		if f := (*Failure)(nil); errors.As(err, &f) && f.retry() == Never {
			return nil, err
		}
		if first == nil {
			first = err
		}
	}
	if !open {
		return nil, first
	}
	b.leases = leases
	return &View[K, V]{b}, nil
}

// Get reads one key, as the function Get does.
func (v *View[K, V]) Get(ctx context.Context, key K) (value V, found bool, err error) {
	return v.get(ctx, key)
}

// Range, All and Count read all partitions, as the functions do.
func (v *View[K, V]) Range(ctx context.Context, from, to K) iter.Seq2[Entry[K, V], error] {
	return v.between(ctx, from, to)
}

// All yields every entry.
func (v *View[K, V]) All(ctx context.Context) iter.Seq2[Entry[K, V], error] {
	return v.scan(ctx, bounds{})
}

// Count is the number of entries.
func (v *View[K, V]) Count(ctx context.Context) (int64, error) { return v.count(ctx) }

// Epoch is the lease epoch of a partition; 0 if the View has none.
func (v *View[K, V]) Epoch(partition int32) uint64 {
	if partition < 0 || int(partition) >= len(v.leases) {
		return 0
	}
	return v.leases[partition]
}
