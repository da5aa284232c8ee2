package query

import (
	"context"
	"errors"
	"sync"

	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// binding is a handle, a client and options: what every read has in common. leases is nil for a free function.
type binding[K, V any] struct {
	client Client
	handle Handle[K, V]
	opts   options
	leases []uint64
}

func bind[K, V any](c Client, h Handle[K, V], opts []Option) *binding[K, V] {
	return &binding[K, V]{client: c, handle: h, opts: gather(opts)}
}

func (b *binding[K, V]) about(ctx context.Context, partition int32) *querypb.About {
	// One piece of memory, because a Get is made of few pieces.
	whole := &struct {
		about     querypb.About
		partition int32
	}{partition: partition}
	a := &whole.about
	a.Store, a.Partition, a.Kind = b.handle.StoreName(), &whole.partition, b.handle.StoreKind()
	a.KeyCodec, a.ValueCodec = b.handle.KeyCodec().Name(), b.handle.ValueCodec().Name()
	a.RequireRunning, a.Held, a.MaxLag = b.opts.requireRunning, b.leases != nil, b.opts.maxLag
	a.Derived = b.opts.partition == nil
	if partition >= 0 && int(partition) < len(b.leases) {
		a.Epoch = b.leases[partition]
	}
	if deadline, ok := ctx.Deadline(); ok {
		a.DeadlineMs = deadline.UnixMilli()
	}
	for tp, next := range b.opts.atLeast {
		if tp.Partition == partition || global(b.handle) {
			a.AtLeast = append(a.AtLeast, &querypb.Position{Topic: tp.Topic, Partition: tp.Partition, Next: next})
		}
	}
	return a
}

// ask makes sure that a client's error is a *Failure and its reply a value.
func (b *binding[K, V]) ask(ctx context.Context, q Question) (*querypb.Reply, error) {
	r, err := b.asks(ctx, q)
	if err == nil {
		b.track(r)
	}
	return r, err
}

// asks is ask without the caller's Tracker, for an answer that may not be used.
func (b *binding[K, V]) asks(ctx context.Context, q Question) (*querypb.Reply, error) {
	r, err := b.client.Ask(ctx, q)
	if err == nil {
		err = FromReply(r)
	}
	if err != nil {
		return nil, b.typed(err, q.GetAbout().GetPartition())
	}
	return r, nil
}

func (b *binding[K, V]) track(r *querypb.Reply) {
	if b.opts.tracker != nil {
		b.opts.tracker.merge(r)
	}
}

// typed makes a *Failure of the error of a client that does not keep its contract.
func (b *binding[K, V]) typed(err error, partition int32) error {
	if f := (*Failure)(nil); errors.As(err, &f) {
		return err
	}
	f := New(StoreFailure, b.handle.StoreName(), partition)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		f = New(DeadlineExceeded, b.handle.StoreName(), partition)
	}
	f.Cause = err
	return f
}

// partitions is how many there are. A node that does not know it yet is asked by an Open of partition 0: mistakes win over
// everything that has to do with states, so a wrong type is told before the node has started too.
func (b *binding[K, V]) partitions(ctx context.Context) (int32, error) {
	name := b.handle.StoreName()
	n, err := b.client.Partitions(ctx, name)
	if err == nil || errors.Is(err, ErrUnknownStateStore) || errors.Is(err, ErrDeadlineExceeded) {
		return n, err
	}
	if _, asked := b.ask(ctx, &querypb.Open{About: b.about(ctx, b.anyPartition())}); asked != nil {
		return 0, b.ofNoPartition(asked)
	}
	n, err = b.client.Partitions(ctx, name) // it has become known meanwhile
	if err != nil {
		err = b.typed(err, NoPartition)
	}
	return n, err
}

// mistake is the failure of a question that is not sent, because the asker itself sees what is wrong: StateStoreTypeMismatch
// or InvalidQuery. An unknown store, or one of another type, is worse, and the node says more about it.
func (b *binding[K, V]) mistake(ctx context.Context, f *Failure) error {
	_, err := b.ask(ctx, &querypb.Open{About: b.about(ctx, b.anyPartition())})
	if worse := (*Failure)(nil); errors.As(err, &worse) && worse.Kind <= StateStoreTypeMismatch {
		return b.ofNoPartition(worse)
	}
	return f
}

// anyPartition is whom to ask about the store as a whole.
func (b *binding[K, V]) anyPartition() int32 {
	if b.opts.partition != nil {
		return *b.opts.partition
	}
	return 0
}

// ofNoPartition takes the partition out of the failure of a question that was not about one: the caller has named none.
func (b *binding[K, V]) ofNoPartition(err error) error {
	f := (*Failure)(nil)
	if b.opts.partition != nil || !errors.As(err, &f) {
		return err
	}
	c := *f
	c.Partition = NoPartition
	return &c
}

// home is the partition that a key belongs to.
func (b *binding[K, V]) home(encoded []byte, n int32) int32 {
	if b.opts.partition != nil {
		return *b.opts.partition
	}
	return record.Partition(encoded, n)
}

// unexpected is for a reply of another type than the question's.
func (b *binding[K, V]) unexpected(r *querypb.Reply) error {
	f := New(StoreFailure, b.handle.StoreName(), r.GetPartition())
	f.Detail = "the reply is of another type than the question"
	return f
}

func (b *binding[K, V]) get(ctx context.Context, key K) (v V, ok bool, err error) {
	if err := b.wantsKeys(ctx); err != nil {
		return v, false, err
	}
	encoded, err := b.encode(ctx, key)
	if err != nil {
		return v, false, err
	}
	return b.getEncoded(ctx, encoded, encoded)
}

// getEncoded reads a key of the store in the partition of a key of its records.
func (b *binding[K, V]) getEncoded(ctx context.Context, raw, key []byte) (v V, ok bool, err error) {
	n, err := b.partitions(ctx)
	if err != nil {
		return v, false, err
	}
	r, err := b.ask(ctx, &querypb.Get{About: b.about(ctx, b.home(raw, n)), Key: key})
	if err != nil {
		return v, false, err
	}
	a := r.GetValue()
	if a == nil {
		return v, false, b.unexpected(r)
	}
	if !a.Present {
		return v, false, nil
	}
	v, err = b.handle.ValueCodec().Decode(present(a.Value))
	if err != nil {
		return v, false, b.notOurs(r.Partition, err)
	}
	return v, true, nil
}

// encode never gives nil, which would be an absent key.
func (b *binding[K, V]) encode(ctx context.Context, key K) ([]byte, error) {
	encoded, err := b.handle.KeyCodec().Encode([]byte{}, key)
	if err != nil {
		f := Invalid(b.handle.StoreName(), NoPartition, "the key cannot be encoded")
		f.Cause = err
		return nil, b.mistake(ctx, f)
	}
	return present(encoded), nil
}

// notOurs is for bytes that the handle's codec refuses although the codecs' names agree.
func (b *binding[K, V]) notOurs(partition int32, err error) error {
	f := New(StateStoreTypeMismatch, b.handle.StoreName(), partition)
	f.Detail, f.Cause = "its bytes are not what the codec of the handle reads", err
	return f
}

// each calls f for each of the partitions, FanOut at a time, and returns the error of the first in the list that failed.
func each(partitions []int32, f func(i int, partition int32) error) error {
	errs := make([]error, len(partitions))
	if len(partitions) == 1 {
		return f(0, partitions[0])
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, FanOut)
	for i, p := range partitions {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(i, p)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// over are the partitions that a scan asks: that of one key, or all if it is nil.
func (b *binding[K, V]) over(ctx context.Context, raw []byte) ([]int32, error) {
	if raw == nil {
		return b.all(ctx)
	}
	n, err := b.partitions(ctx)
	if err != nil {
		return nil, err
	}
	return []int32{b.home(raw, n)}, nil
}

// all are the partitions that a read of the whole store asks.
func (b *binding[K, V]) all(ctx context.Context) ([]int32, error) {
	n, err := b.partitions(ctx)
	if err != nil {
		return nil, err
	}
	if b.opts.partition != nil {
		return []int32{*b.opts.partition}, nil
	}
	list := make([]int32, n)
	for p := range n {
		list[p] = p
	}
	return list, nil
}

func (b *binding[K, V]) count(ctx context.Context) (total int64, err error) {
	partitions, err := b.all(ctx)
	if err != nil {
		return 0, err
	}
	entries := make([]int64, len(partitions))
	err = each(partitions, func(i int, p int32) error {
		r, err := b.ask(ctx, &querypb.Count{About: b.about(ctx, p), Approximate: b.opts.approximate})
		if err != nil {
			return err
		}
		if r.GetCount() == nil {
			return b.unexpected(r)
		}
		entries[i] = r.GetCount().Entries
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, n := range entries {
		total += n
	}
	return total, nil
}

// present turns the nil that the wire makes of empty bytes back into empty bytes.
func present(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Get reads one key of a key-value store: it acquires the store and reads in one message. An absent key is not an error; found is false. The
// error is a *Failure.
func Get[K, V any](ctx context.Context, c Client, h Handle[K, V], key K, opts ...Option) (value V, found bool, err error) {
	return bind(c, h, opts).get(ctx, key)
}

// Count is the number of entries in all partitions, or with Approximate an estimate of it; those of a window or session store
// are its windows or sessions that have not expired. The error is a *Failure, of the
// first partition that fails.
func Count[K, V any](ctx context.Context, c Client, h Handle[K, V], opts ...Option) (int64, error) {
	return bind(c, h, opts).count(ctx)
}
