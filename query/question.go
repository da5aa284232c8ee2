package query

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record/codec"
)

// Question is any message of querypb that a store or a node answers.
type Question interface {
	proto.Message
	GetAbout() *querypb.About
}

// Client reaches the stores of one application. The embedded node is one; Nodes makes one of several.
type Client interface {
	// Ask sends q to the gate of the store partition that its About names and waits until ctx ends; ListStores, Locate and
	// ListRestores go to the node. The reply holds a value; everything else is an error that is a *Failure,
	// DeadlineExceeded included. q must not be changed afterwards.
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

// GaveUp is the failure for an asker whose context ended before an answer came.
func GaveUp(ctx context.Context, store string, partition int32) *Failure {
	f := New(DeadlineExceeded, store, partition)
	f.Cause = context.Cause(ctx)
	return f
}

// Deadline is when the asker of a question that arrives now stops waiting, as its About says; ok is false if it does not.
func Deadline(q Question, now time.Time) (at time.Time, ok bool) {
	about := q.GetAbout()
	if ms := about.GetDeadlineMs(); ms != 0 {
		at, ok = time.UnixMilli(ms), true
	}
	if ms := about.GetTimeoutMs(); ms != 0 {
		if by := now.Add(time.Duration(ms) * time.Millisecond); !ok || by.Before(at) {
			at, ok = by, true
		}
	}
	return at, ok
}
