package query

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query/querypb"
)

// StoreInfo is a store of the topology.
type StoreInfo struct {
	// Kind is "key-value" and so on; the codecs are named as they name themselves.
	Name, Kind, KeyCodec, ValueCodec string
	// Partitions is 0 while the count is not known; 1 of a global store, whatever its topic has.
	Partitions int32
	// Global: every node has all of it.
	Global bool
}

// Location is what a node knows about who has one store partition.
type Location struct {
	Store     string
	Partition int32
	// Owner is the owner's host:port for queries; empty if it is not known or has none. Here: the node that was asked has
	// the partition, or is about to.
	Owner string
	Here  bool
	// State is what that node does with the partition, as Lease spells it; Thread is the state of its thread there.
	State, Thread string
	Epoch         uint64
	// Progress is how far the restore there is; nil if none is under way.
	Progress *lifecycle.Progress
}

// RestoreInfo is a restore that is under way.
type RestoreInfo struct {
	Store     string
	Partition int32
	Progress  lifecycle.Progress
	// Left is how long it is expected to take yet; 0 if that is not known.
	Left time.Duration
}

// Stores lists the stores of the topology, by name, in every state of the node. The error is a *Failure.
func Stores(ctx context.Context, c Client) ([]StoreInfo, error) {
	r, err := askNode(ctx, c, &querypb.ListStores{About: &querypb.About{DeadlineMs: deadlineMs(ctx)}})
	if err != nil {
		return nil, err
	}
	var out []StoreInfo
	for _, s := range r.GetStores().GetStores() {
		out = append(out, StoreInfo{s.GetName(), s.GetKind(), s.GetKeyCodec(), s.GetValueCodec(), s.GetPartitions(), s.GetGlobal()})
	}
	return out, nil
}

// Locate says who has the key's partition. The error is a *Failure: MetadataUnavailable while the node has no view of the
// group, and those of a node that has not started or has stopped.
func Locate[K, V any](ctx context.Context, c Client, h Handle[K, V], key K, opts ...Option) (Location, error) {
	b := bind(c, h, opts)
	encoded, err := b.encode(ctx, key)
	if err != nil {
		return Location{}, err
	}
	about := &querypb.About{Store: h.StoreName(), Kind: h.StoreKind(), KeyCodec: h.KeyCodec().Name(), Partition: b.opts.partition, DeadlineMs: deadlineMs(ctx)}
	all, err := locations(ctx, c, &querypb.Locate{About: about, Key: encoded})
	if err != nil {
		return Location{}, err
	}
	if len(all) != 1 {
		return Location{}, b.unexpected(&querypb.Reply{Partition: NoPartition})
	}
	return all[0], nil
}

// Locations says who has each partition of a store, in their order. Its failures are those of Locate, but that an owner
// that is not known is left empty.
func Locations(ctx context.Context, c Client, store string) ([]Location, error) {
	return locations(ctx, c, &querypb.Locate{About: &querypb.About{Store: store, DeadlineMs: deadlineMs(ctx)}})
}

func locations(ctx context.Context, c Client, q *querypb.Locate) (out []Location, err error) {
	r, err := askNode(ctx, c, q)
	if err != nil {
		return nil, err
	}
	for _, l := range r.GetLocations().GetLocations() {
		out = append(out, Location{Store: q.About.Store, Partition: l.GetPartition(), Owner: l.GetOwner(), Here: l.GetHere(), State: l.GetState(),
			Thread: l.GetThreadState(), Epoch: l.GetEpoch(), Progress: FromProgress(l.GetProgress())})
	}
	return out, nil
}

// Restores lists the restores that are under way on a node, of one store or, if store is empty, of all. The error is a
// *Failure.
func Restores(ctx context.Context, c Client, store string) (out []RestoreInfo, err error) {
	r, err := askNode(ctx, c, &querypb.ListRestores{About: &querypb.About{Store: store, DeadlineMs: deadlineMs(ctx)}})
	if err != nil {
		return nil, err
	}
	for _, s := range r.GetRestores().GetRestores() {
		info := RestoreInfo{Store: s.GetStore(), Partition: s.GetPartition(), Left: time.Duration(s.GetLeftMs()) * time.Millisecond}
		if p := FromProgress(s.GetProgress()); p != nil {
			info.Progress = *p
		}
		out = append(out, info)
	}
	return out, nil
}

func askNode(ctx context.Context, c Client, q Question) (*querypb.Reply, error) {
	r, err := c.Ask(ctx, q)
	if err == nil {
		err = FromReply(r)
	}
	return r, err
}

func deadlineMs(ctx context.Context) int64 {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline.UnixMilli()
	}
	return 0
}

// OfNode says whether a question is answered by the node and not by a store.
func OfNode(q Question) bool {
	switch q.(type) {
	case *querypb.ListStores, *querypb.Locate, *querypb.ListRestores:
		return true
	}
	return false
}
