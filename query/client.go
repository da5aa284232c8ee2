package query

import (
	"context"
	"errors"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
)

// Question is one of querypb's questions: *querypb.Open, Get, Range, Count.
type Question interface {
	proto.Message
	GetAbout() *querypb.About
}

// Client is who is asked: an embedded node, or anything that speaks for one.
type Client interface {
	// Ask sends a question to the gate of its store partition. Two things might happen before ctx ends: a reply with a
	// value, or a *Failure.
	Ask(ctx context.Context, q Question) (*querypb.Reply, error)
	// Partitions is how many partitions a store has. It fails with UnknownStateStore, or with MetadataUnavailable while
	// the node does not know yet.
	Partitions(ctx context.Context, store string) (int32, error)
}

// Handle is a typed name of a key-value store; topology.KeyValueStore is one.
type Handle[K, V any] interface {
	StoreName() string
	StoreKind() string
	KeyCodec() codec.Codec[K]
	ValueCodec() codec.Codec[V]
}

// Entry is one entry of a scan. Timestamp is in milliseconds since the Unix epoch.
type Entry[K, V any] struct {
	Key       K
	Value     V
	Timestamp int64
}

// View is a store that was acquired: the draft's store(). Its reads are bound to the leases of that moment; one whose
// lease has ended fails with StateStoreMigrated or StateStoreNotAvailable, and another Open is needed.
type View[K, V any] struct {
	client     Client
	handle     Handle[K, V]
	partitions int32
	epochs     map[int32]uint64
}

// Open acquires a store: it checks name, kind, codecs and state, and notes the lease of each partition that this client
// serves. It fails if no partition is served, with the failure of the first one.
func Open[K, V any](ctx context.Context, c Client, h Handle[K, V]) (*View[K, V], error) {
	n, err := c.Partitions(ctx, h.StoreName())
	if err != nil {
		return nil, err
	}
	v := &View[K, V]{client: c, handle: h, partitions: n, epochs: map[int32]uint64{}}
	var first error
	for p := range n {
		reply, err := c.Ask(ctx, &querypb.Open{About: v.about(ctx, p)})
		var f *Failure
		switch {
		case err == nil:
			v.epochs[p] = reply.GetEpoch()
		case errors.As(err, &f) && (f.Retry == Never || f.Retry == Elsewhere):
			return nil, err
		case first == nil:
			first = err
		}
	}
	if len(v.epochs) == 0 && first != nil {
		return nil, first
	}
	return v, nil
}

// unbound is a View for one free function: it acquires and reads in one message.
func unbound[K, V any](ctx context.Context, c Client, h Handle[K, V]) (*View[K, V], error) {
	n, err := c.Partitions(ctx, h.StoreName())
	if err != nil {
		return nil, err
	}
	return &View[K, V]{client: c, handle: h, partitions: n}, nil
}

func (v *View[K, V]) about(ctx context.Context, partition int32) *querypb.About {
	a := &querypb.About{
		Store: v.handle.StoreName(), Partition: &partition, Epoch: v.epochs[partition], Kind: v.handle.StoreKind(),
		KeyCodec: v.handle.KeyCodec().Name(), ValueCodec: v.handle.ValueCodec().Name(),
	}
	if deadline, ok := ctx.Deadline(); ok {
		a.DeadlineMs = deadline.UnixMilli()
	}
	return a
}

// Get reads one key. found is false for an absent key, which is an answer; err is a *Failure, or the codec's error.
func (v *View[K, V]) Get(ctx context.Context, key K) (value V, found bool, err error) {
	encoded, err := v.handle.KeyCodec().Encode([]byte{}, key)
	if err != nil {
		return value, false, err
	}
	reply, err := v.client.Ask(ctx, &querypb.Get{About: v.about(ctx, record.Partition(encoded, v.partitions)), Key: encoded})
	if err != nil {
		return value, false, err
	}
	answer := reply.GetValue()
	if answer == nil || !answer.Present {
		return value, false, nil
	}
	b := answer.Value
	if b == nil {
		b = []byte{}
	}
	value, err = v.handle.ValueCodec().Decode(b)
	return value, err == nil, err
}

// All scans every partition, in the byte order of the keys within each. An error is the last thing that is yielded; a
// *Failure among them carries the last key that was delivered.
func (v *View[K, V]) All(ctx context.Context) iter.Seq2[Entry[K, V], error] {
	return v.scan(ctx, func(about *querypb.About) *querypb.Range { return &querypb.Range{About: about} })
}

// Range scans the keys between from and to, both included, as All does.
func (v *View[K, V]) Range(ctx context.Context, from, to K) iter.Seq2[Entry[K, V], error] {
	lo, err := v.handle.KeyCodec().Encode([]byte{}, from)
	hi, err2 := v.handle.KeyCodec().Encode([]byte{}, to)
	if err := errors.Join(err, err2); err != nil {
		return func(yield func(Entry[K, V], error) bool) { yield(Entry[K, V]{}, err) }
	}
	return v.scan(ctx, func(about *querypb.About) *querypb.Range {
		return &querypb.Range{About: about, From: lo, To: hi, ToInclusive: true}
	})
}

func (v *View[K, V]) scan(ctx context.Context, question func(*querypb.About) *querypb.Range) iter.Seq2[Entry[K, V], error] {
	return func(yield func(Entry[K, V], error) bool) {
		for p := range v.partitions {
			var last []byte
			epoch := v.epochs[p]
			for {
				q := question(v.about(ctx, p))
				q.About.Epoch, q.About.Held, q.Resume = epoch, last != nil, last
				reply, err := v.client.Ask(ctx, q)
				if err != nil {
					var f *Failure
					if errors.As(err, &f) {
						f.LastKey = last
					}
					yield(Entry[K, V]{}, err)
					return
				}
				epoch = reply.GetEpoch() // the pages of one scan come from one lease
				page := reply.GetPage()
				for _, e := range page.GetEntries() {
					entry, err := v.entry(e)
					if !yield(entry, err) || err != nil {
						return
					}
					last = e.Key
				}
				if !page.GetMore() || len(page.GetEntries()) == 0 {
					break
				}
			}
		}
	}
}

func (v *View[K, V]) entry(e *querypb.Entry) (out Entry[K, V], err error) {
	present := func(b []byte) []byte {
		if b == nil {
			return []byte{}
		}
		return b
	}
	if out.Key, err = v.handle.KeyCodec().Decode(present(e.Key)); err != nil {
		return out, err
	}
	out.Value, err = v.handle.ValueCodec().Decode(present(e.Value))
	out.Timestamp = e.Timestamp
	return out, err
}

// Get is Open and View.Get in one message.
func Get[K, V any](ctx context.Context, c Client, h Handle[K, V], key K) (value V, found bool, err error) {
	v, err := unbound(ctx, c, h)
	if err != nil {
		return value, false, err
	}
	return v.Get(ctx, key)
}

// All is Open and View.All.
func All[K, V any](ctx context.Context, c Client, h Handle[K, V]) iter.Seq2[Entry[K, V], error] {
	return opened(ctx, c, h, func(v *View[K, V]) iter.Seq2[Entry[K, V], error] { return v.All(ctx) })
}

// Range is Open and View.Range.
func Range[K, V any](ctx context.Context, c Client, h Handle[K, V], from, to K) iter.Seq2[Entry[K, V], error] {
	return opened(ctx, c, h, func(v *View[K, V]) iter.Seq2[Entry[K, V], error] { return v.Range(ctx, from, to) })
}

func opened[K, V any](ctx context.Context, c Client, h Handle[K, V], scan func(*View[K, V]) iter.Seq2[Entry[K, V], error]) iter.Seq2[Entry[K, V], error] {
	return func(yield func(Entry[K, V], error) bool) {
		v, err := unbound(ctx, c, h)
		if err != nil {
			yield(Entry[K, V]{}, err)
			return
		}
		scan(v)(yield)
	}
}

// RetryHere repeats f while it fails with a failure that says to retry here, waiting as the failure says, until ctx ends.
func RetryHere(ctx context.Context, f func() error) error {
	for {
		err := f()
		var failure *Failure
		if !errors.As(err, &failure) || failure.Retry != Here {
			return err
		}
		timer := time.NewTimer(max(failure.RetryAfter, 10*time.Millisecond))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}
