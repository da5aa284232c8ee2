package query

import (
	"context"
	"errors"

	"github.com/millrace-io/millrace/query/querypb"
)

// Result is what came of one key of a GetMany.
type Result[V any] struct {
	Value V
	// Found is false for an absent key, which is no failure, and if Err is set.
	Found bool
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
	Partition int32
	// Err is the *Failure of the key's partition. Other partitions answer all the same.
	Err error
}

// GetMany reads many keys: one message to each partition that has some of them, FanOut partitions at a time. The results
// are in the order of the keys. err is the failure of the first of the keys whose partition has failed, or of the whole if
// nothing could be asked; results is nil only then. Each partition's answer is of one moment, different partitions' are not.
func GetMany[K, V any](ctx context.Context, c Client, h Handle[K, V], keys []K, opts ...Option) (results []Result[V], err error) {
	return bind(c, h, opts).getMany(ctx, keys)
}

// share are the keys of one partition.
type share struct {
	partition int32
	keys      [][]byte
	// at is where in the results each belongs.
	at []int32
}

func (b *binding[K, V]) getMany(ctx context.Context, keys []K) ([]Result[V], error) {
	if len(keys) == 0 {
		return []Result[V]{}, nil
	}
	if err := b.wantsKeys(ctx); err != nil {
		return nil, err
	}
	encoded, err := b.encodeAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	n, err := b.partitions(ctx)
	if err != nil {
		return nil, err
	}
	shares, partitions := b.shares(encoded, n)
	results := make([]Result[V], len(keys))
	_ = each(partitions, func(i int, _ int32) error { // each result has the failure
		b.fetch(ctx, &shares[i], results)
		return nil
	})
	for i := range results {
		if results[i].Err != nil {
			return results, results[i].Err
		}
	}
	return results, nil
}

// encodeAll puts all keys into one arena; growing it leaves earlier keys where they were.
func (b *binding[K, V]) encodeAll(ctx context.Context, keys []K) ([][]byte, error) {
	encoded := make([][]byte, len(keys))
	arena := make([]byte, 0, 16*len(keys))
	for i, key := range keys {
		from := len(arena)
		var err error
		if arena, err = b.handle.KeyCodec().Encode(arena, key); err != nil {
			f := Invalid(b.handle.StoreName(), NoPartition, "a key cannot be encoded")
			f.Cause = err
			return nil, b.mistake(ctx, f)
		}
		encoded[i] = arena[from:len(arena):len(arena)]
	}
	return encoded, nil
}

// shares splits the keys by partition, in the order in which partitions first appear.
func (b *binding[K, V]) shares(encoded [][]byte, n int32) (shares []share, partitions []int32) {
	index := make(map[int32]int, min(int(n), len(encoded)))
	for i, key := range encoded {
		p := b.home(key, n)
		s, ok := index[p]
		if !ok {
			s = len(shares)
			index[p] = s
			shares, partitions = append(shares, share{partition: p}), append(partitions, p)
		}
		shares[s].keys, shares[s].at = append(shares[s].keys, key), append(shares[s].at, int32(i))
	}
	return shares, partitions
}

// fetch asks for the share, in as many messages as the limits need, and fills in its results. Later messages are bound to
// the lease of the first, so that a share is never of two incarnations.
func (b *binding[K, V]) fetch(ctx context.Context, s *share, results []Result[V]) {
	epoch := uint64(0)
	for len(s.keys) > 0 {
		about := b.about(ctx, s.partition)
		if epoch != 0 {
			about.Epoch, about.Held = epoch, true
		}
		r, err := b.ask(ctx, &querypb.GetMany{About: about, Keys: firstKeys(s.keys)})
		values := r.GetValues().GetValues()
		if err == nil && (len(values) == 0 || len(values) > len(s.keys)) {
			err = b.unexpected(r)
		}
		if err != nil {
			b.refuse(s, results, err)
			return
		}
		epoch = r.Epoch
		for i, v := range values {
			results[s.at[i]] = b.result(s.partition, v)
		}
		s.keys, s.at = s.keys[len(values):], s.at[len(values):]
	}
}

// firstKeys are as many as one message may ask for.
func firstKeys(keys [][]byte) [][]byte {
	size := 0
	for i, k := range keys {
		if size += len(k); i == MaxKeys || (i > 0 && size > MaxKeysBytes) {
			return keys[:i]
		}
	}
	return keys
}

func (b *binding[K, V]) refuse(s *share, results []Result[V], err error) {
	for _, i := range s.at {
		results[i] = Result[V]{Partition: s.partition, Err: err}
	}
}

func (b *binding[K, V]) result(partition int32, v *querypb.Value) Result[V] {
	out := Result[V]{Partition: partition, Found: v.GetPresent(), Timestamp: v.GetTimestamp()}
	if !out.Found {
		return out
	}
	value, err := b.handle.ValueCodec().Decode(present(v.GetValue()))
	if err != nil {
		return Result[V]{Partition: partition, Err: b.notOurs(partition, err)}
	}
	out.Value = value
	return out
}

// Failures are the distinct failures of the results of a GetMany, in order of first appearance.
func Failures[V any](results []Result[V]) (all []*Failure) {
	seen := map[*Failure]bool{}
	for i := range results {
		if f := (*Failure)(nil); errors.As(results[i].Err, &f) && !seen[f] {
			seen[f] = true
			all = append(all, f)
		}
	}
	return all
}
