package query

import (
	"bytes"
	"context"

	"github.com/millrace-io/millrace/query/querypb"
)

// Span is which keys a scan is over. The zero Span is everything.
type Span[K any] struct {
	from, to   *K
	prefix     []byte
	prefixOnly bool
}

// Everything is all keys.
func Everything[K any]() Span[K] { return Span[K]{} }

// Between is from ≤ key ≤ to. It needs a key codec that is Ordered.
func Between[K any](from, to K) Span[K] { return Span[K]{from: &from, to: &to} }

// From is from ≤ key. It needs a key codec that is Ordered.
func From[K any](from K) Span[K] { return Span[K]{from: &from} }

// UpTo is key ≤ to. It needs a key codec that is Ordered.
func UpTo[K any](to K) Span[K] { return Span[K]{to: &to} }

// Prefixed is every key whose encoding begins with prefix. It works with every codec.
func Prefixed[K any](prefix []byte) Span[K] { return Span[K]{prefix: prefix, prefixOnly: true} }

// PrefixEnd is the first key after all that begin with prefix, or nil if there is none: a prefix is the range from itself
// up to but not including its end.
func PrefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// bounds is a range of encoded keys; nil is open. through includes to.
type bounds struct {
	from, to []byte
	through  bool
	// windows are those that are meant, for a store of windows.
	windows *querypb.Windows
	// home is the raw key whose partition has all of it, or nil.
	home []byte
}

// plan makes the bounds of a scan when it begins.
type plan func(ctx context.Context) (bounds, error)

// plan is that of a span of keys.
func (b *binding[K, V]) plan(s Span[K]) plan {
	return func(ctx context.Context) (bounds, error) {
		if err := b.wantsKeys(ctx); err != nil {
			return bounds{}, err
		}
		return b.bounds(ctx, s)
	}
}

// bounds encodes a span. A codec that does not keep the order is refused whatever the keys are: the answer would be empty,
// or some other part of the store, and look like a good one.
func (b *binding[K, V]) bounds(ctx context.Context, s Span[K]) (out bounds, err error) {
	if s.prefixOnly {
		return bounds{from: present(s.prefix), to: PrefixEnd(s.prefix)}, nil
	}
	if s.from == nil && s.to == nil {
		return out, nil
	}
	if c := b.handle.KeyCodec(); !c.Ordered() {
		return out, b.mistake(ctx, Invalid(b.handle.StoreName(), NoPartition,
			"a range is not ordered: the key codec "+c.Name()+" does not keep the order of keys, so use one that does, or scan all"))
	}
	if s.from != nil {
		if out.from, err = b.encode(ctx, *s.from); err != nil {
			return out, err
		}
	}
	if s.to != nil {
		if out.to, err = b.encode(ctx, *s.to); err != nil {
			return out, err
		}
		out.through = true
	}
	return out, nil
}
