package query

import (
	"context"
	"errors"
	"iter"

	"github.com/millrace-io/millrace/query/querypb"
)

// bounds is a range of encoded keys; nil is open. to is inclusive.
type bounds struct{ from, to []byte }

// Range yields the entries with keys from ≤ key ≤ to in the byte order of their encodings, partition after partition:
// the whole is ordered only if the store has one partition, and in the order of values only if the codec is Ordered. It
// reads in pages. A failure is the last thing that is yielded; it carries the last key that was delivered before it.
func Range[K, V any](ctx context.Context, c Client, h Handle[K, V], from, to K, opts ...Option) iter.Seq2[Entry[K, V], error] {
	b := &binding[K, V]{client: c, handle: h, opts: gather(opts)}
	return b.between(ctx, from, to)
}

// All yields every entry, partition after partition, as Range does.
func All[K, V any](ctx context.Context, c Client, h Handle[K, V], opts ...Option) iter.Seq2[Entry[K, V], error] {
	b := &binding[K, V]{client: c, handle: h, opts: gather(opts)}
	return b.scan(ctx, bounds{})
}

func (b *binding[K, V]) between(ctx context.Context, from, to K) iter.Seq2[Entry[K, V], error] {
	low, err := b.encode(from)
	if err == nil {
		var high []byte
		if high, err = b.encode(to); err == nil {
			return b.scan(ctx, bounds{low, high})
		}
	}
	return func(yield func(Entry[K, V], error) bool) { yield(Entry[K, V]{}, err) }
}

func (b *binding[K, V]) scan(ctx context.Context, in bounds) iter.Seq2[Entry[K, V], error] {
	return func(yield func(Entry[K, V], error) bool) {
		n, err := b.client.Partitions(ctx, b.handle.StoreName())
		if err != nil {
			yield(Entry[K, V]{}, err)
			return
		}
		for p := range n {
			s := pages[K, V]{binding: b, bounds: in, partition: p, begun: p > 0}
			if !s.run(ctx, yield) {
				return
			}
		}
	}
}

// pages scans one partition. Its first page acquires a lease, unless a View brings one, and the others hold it: a scan
// never joins two incarnations of a store.
type pages[K, V any] struct {
	*binding[K, V]
	bounds
	partition int32
	// begun: the scan has read something already, here or in another partition, so it holds the store.
	begun bool
	epoch uint64
	last  []byte
}

// run reports whether the scan goes on with the next partition.
func (s *pages[K, V]) run(ctx context.Context, yield func(Entry[K, V], error) bool) bool {
	for {
		page, err := s.next(ctx)
		if err != nil {
			yield(Entry[K, V]{}, s.cut(err))
			return false
		}
		for _, e := range page.Entries {
			entry, err := s.decode(e)
			if err != nil {
				yield(Entry[K, V]{}, s.cut(err))
				return false
			}
			s.last = present(e.Key)
			if !yield(entry, nil) {
				return false
			}
		}
		if !page.More {
			return true
		}
	}
}

func (s *pages[K, V]) next(ctx context.Context) (*querypb.Page, error) {
	about := s.about(ctx, s.partition)
	about.Held = about.Held || s.begun
	if s.epoch != 0 {
		about.Epoch = s.epoch
	}
	r, err := s.ask(ctx, &querypb.Range{
		About: about, From: s.from, To: s.to, ToInclusive: s.to != nil, Reverse: s.opts.reverse,
		LimitEntries: s.opts.entries, LimitBytes: s.opts.bytes, Resume: s.last,
	})
	if err != nil {
		return nil, err
	}
	page := r.GetPage()
	if page == nil || (page.More && len(page.Entries) == 0) {
		// A page that promises more and brings nothing would make the scan turn for ever.
		return nil, s.unexpected(r)
	}
	s.begun, s.epoch = true, r.Epoch
	return page, nil
}

func (s *pages[K, V]) decode(e *querypb.Entry) (entry Entry[K, V], err error) {
	key, err := s.handle.KeyCodec().Decode(present(e.Key))
	if err != nil {
		return entry, s.notOurs(s.partition, err)
	}
	value, err := s.handle.ValueCodec().Decode(present(e.Value))
	if err != nil {
		return entry, s.notOurs(s.partition, err)
	}
	return Entry[K, V]{Key: key, Value: value, Timestamp: e.Timestamp, Partition: s.partition}, nil
}

// cut puts the last delivered key into a failure, in a copy: the client may have kept it.
func (s *pages[K, V]) cut(err error) error {
	f := (*Failure)(nil)
	if !errors.As(err, &f) {
		return err
	}
	c := *f
	c.LastKey = s.last
	return &c
}
