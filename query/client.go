package query

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
)

// Question is any message of querypb that a store answers.
type Question interface {
	proto.Message
	GetAbout() *querypb.About
}

// Client reaches the stores of one application. The embedded node is one.
type Client interface {
	// Ask sends q to the gate of the store partition that its About names and waits until ctx ends. The reply holds a
	// value; everything else is an error that is a *Failure, DeadlineExceeded included. q must not be changed afterwards.
	Ask(ctx context.Context, q Question) (*querypb.Reply, error)
	// Partitions is how many partitions a store has. Its error is a *Failure: UnknownStateStore, StreamThreadNotStarted,
	// StreamThreadNotRunning, or MetadataUnavailable while the count is not known.
	Partitions(ctx context.Context, store string) (int32, error)
}

// Handle is a typed name of a key-value store; topology.KeyValueStore is one.
type Handle[K, V any] interface {
	StoreName() string
	StoreKind() string
	KeyCodec() codec.Codec[K]
	ValueCodec() codec.Codec[V]
}

// Entry is one entry of a store.
type Entry[K, V any] struct {
	Key   K
	Value V
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
	Partition int32
}

// Option changes how questions are asked.
type Option func(*options)

type options struct {
	requireRunning bool
	reverse        bool
	entries, bytes int32
}

// RequireRunning asks for the draft's rule: StreamThreadRebalancing while any thread of the node that is asked is not
// RUNNING, even if the partition itself could answer.
func RequireRunning() Option { return func(o *options) { o.requireRunning = true } }

// Reverse scans each partition from its last key to its first.
func Reverse() Option { return func(o *options) { o.reverse = true } }

// PageSize bounds the pages of a scan. 0 leaves a bound to the store, whose own bounds cap both.
func PageSize(entries, bytes int32) Option {
	return func(o *options) { o.entries, o.bytes = entries, bytes }
}

func gather(opts []Option) (o options) {
	for _, f := range opts {
		f(&o)
	}
	return o
}

// binding is a handle, a client and options: what every read has in common. leases is nil for a free function.
type binding[K, V any] struct {
	client Client
	handle Handle[K, V]
	opts   options
	leases []uint64
}

// about describes a question for one partition. A View's question is held, and carries the partition's lease if it has one.
func (b *binding[K, V]) about(ctx context.Context, partition int32) *querypb.About {
	a := &querypb.About{
		Store: b.handle.StoreName(), Partition: &partition, Kind: b.handle.StoreKind(),
		KeyCodec: b.handle.KeyCodec().Name(), ValueCodec: b.handle.ValueCodec().Name(),
		RequireRunning: b.opts.requireRunning, Held: b.leases != nil,
	}
	if int(partition) < len(b.leases) {
		a.Epoch = b.leases[partition]
	}
	if deadline, ok := ctx.Deadline(); ok {
		a.DeadlineMs = deadline.UnixMilli()
	}
	return a
}

// ask makes sure that a client's error is a *Failure and its reply a value.
func (b *binding[K, V]) ask(ctx context.Context, q Question) (*querypb.Reply, error) {
	r, err := b.client.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := FromReply(r); err != nil {
		return nil, err
	}
	return r, nil
}

// unexpected is for a reply of another type than the question's.
func (b *binding[K, V]) unexpected(r *querypb.Reply) error {
	f := New(StoreFailure, b.handle.StoreName(), r.GetPartition())
	f.Detail = "the reply is of another type than the question"
	return f
}

func (b *binding[K, V]) get(ctx context.Context, key K) (v V, ok bool, err error) {
	encoded, err := b.encode(key)
	if err != nil {
		return v, false, err
	}
	n, err := b.client.Partitions(ctx, b.handle.StoreName())
	if err != nil {
		return v, false, err
	}
	r, err := b.ask(ctx, &querypb.Get{About: b.about(ctx, record.Partition(encoded, n)), Key: encoded})
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
func (b *binding[K, V]) encode(key K) ([]byte, error) {
	encoded, err := b.handle.KeyCodec().Encode([]byte{}, key)
	if err != nil {
		f := Invalid(b.handle.StoreName(), NoPartition, "the key cannot be encoded")
		f.Cause = err
		return nil, f
	}
	return present(encoded), nil
}

// notOurs is for bytes that the handle's codec refuses although the codecs' names agree.
func (b *binding[K, V]) notOurs(partition int32, err error) error {
	f := New(StateStoreTypeMismatch, b.handle.StoreName(), partition)
	f.Detail, f.Cause = "its bytes are not what the codec of the handle reads", err
	return f
}

func (b *binding[K, V]) count(ctx context.Context) (total int64, err error) {
	n, err := b.client.Partitions(ctx, b.handle.StoreName())
	if err != nil {
		return 0, err
	}
	for p := range n {
		r, err := b.ask(ctx, &querypb.Count{About: b.about(ctx, p)})
		if err != nil {
			return 0, err
		}
		a := r.GetCount()
		if a == nil {
			return 0, b.unexpected(r)
		}
		total += a.Entries
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

// Get reads one key: it acquires the store and reads in one message. An absent key is not an error; found is false. The
// error is a *Failure.
func Get[K, V any](ctx context.Context, c Client, h Handle[K, V], key K, opts ...Option) (value V, found bool, err error) {
	b := binding[K, V]{client: c, handle: h, opts: gather(opts)}
	return b.get(ctx, key)
}

// Count is the number of entries in all partitions. The error is a *Failure, of the first partition that fails.
func Count[K, V any](ctx context.Context, c Client, h Handle[K, V], opts ...Option) (int64, error) {
	b := binding[K, V]{client: c, handle: h, opts: gather(opts)}
	return b.count(ctx)
}

// GaveUp is the failure for an asker whose context ended before an answer came.
func GaveUp(ctx context.Context, store string, partition int32) *Failure {
	f := New(DeadlineExceeded, store, partition)
	f.Cause = context.Cause(ctx)
	return f
}

// Deadline is when the asker of a question stops waiting, as its About says; ok is false if it does not.
func Deadline(q Question) (at time.Time, ok bool) {
	ms := q.GetAbout().GetDeadlineMs()
	return time.UnixMilli(ms), ms != 0
}
