package query

import (
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
)

// ToProto gives a failure its wire form. The cause stays here, but for ErrStateStoreClosed and ErrEmptyStateStore: its
// text may hold paths and addresses of this host.
func ToProto(f *Failure) *querypb.Failure {
	p := &querypb.Failure{
		Kind: querypb.Kind(f.Kind), Store: f.Store, NodeState: f.NodeState, ThreadState: f.ThreadState, Epoch: f.Epoch,
		Retry: querypb.Retry(f.retry()), RetryAfterMs: milliseconds(f.RetryAfter),
		Owner: f.Owner, LastKey: f.LastKey, Detail: f.Detail, LeftMs: milliseconds(f.Left), Reached: ToPositions(f.Reached),
	}
	if f.Partition != NoPartition {
		p.Partition = &f.Partition
	}
	if g := f.Progress; g != nil {
		p.Progress = ToProgress(*g)
	}
	switch {
	case errors.Is(f.Cause, ErrStateStoreClosed):
		p.Wraps = querypb.Wraps_WRAPS_STATE_STORE_CLOSED
	case errors.Is(f.Cause, ErrEmptyStateStore):
		p.Wraps = querypb.Wraps_WRAPS_EMPTY_STATE_STORE
	}
	return p
}

// FromProto is the inverse of ToProto. A kind of a newer release is kept as a number; a retry class of one is left to the
// kind.
func FromProto(p *querypb.Failure) *Failure {
	f := &Failure{
		Kind: Kind(min(uint32(p.GetKind()), 255)), Store: p.GetStore(), Partition: NoPartition, NodeState: p.GetNodeState(), ThreadState: p.GetThreadState(),
		Epoch: p.GetEpoch(), Retry: RetryClass(min(uint32(p.GetRetry()), uint32(Never)+1) % (uint32(Never) + 1)), RetryAfter: duration(p.GetRetryAfterMs()),
		Owner: p.GetOwner(), LastKey: p.GetLastKey(), Detail: p.GetDetail(), Left: duration(p.GetLeftMs()),
		Reached: FromPositions(p.GetReached()),
	}
	if p != nil && p.Partition != nil {
		f.Partition = *p.Partition
	}
	if g := p.GetProgress(); g != nil {
		f.Progress = FromProgress(g)
	}
	switch p.GetWraps() {
	case querypb.Wraps_WRAPS_STATE_STORE_CLOSED:
		f.Cause = ErrStateStoreClosed
	case querypb.Wraps_WRAPS_EMPTY_STATE_STORE:
		f.Cause = ErrEmptyStateStore
	}
	return f
}

// milliseconds rounds up, so that a short wait does not become none.
func milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// duration is never negative, and as long as fits.
func duration(ms int64) time.Duration {
	return time.Duration(max(0, min(ms, int64(math.MaxInt64/time.Millisecond)))) * time.Millisecond
}

// ToProgress and FromProgress are the wire form of a restore's progress.
func ToProgress(g lifecycle.Progress) *querypb.Progress {
	p := &querypb.Progress{Restored: g.Restored, Remaining: g.Remaining}
	if !g.Started.IsZero() {
		p.StartedMs = g.Started.UnixMilli()
	}
	return p
}

// FromProgress is nil for nil.
func FromProgress(p *querypb.Progress) *lifecycle.Progress {
	if p == nil {
		return nil
	}
	g := &lifecycle.Progress{Restored: p.Restored, Remaining: p.Remaining}
	if p.StartedMs != 0 {
		g.Started = time.UnixMilli(p.StartedMs)
	}
	return g
}

// ToPositions is the wire form of a position, in order.
func ToPositions(p record.Position) (out []*querypb.Position) {
	for _, tp := range slices.SortedFunc(maps.Keys(p), record.TopicPartition.Compare) {
		out = append(out, &querypb.Position{Topic: tp.Topic, Partition: tp.Partition, Next: p[tp]})
	}
	return out
}

// FromPositions is nil for an empty list. Of two entries for one partition the later offset counts.
func FromPositions(list []*querypb.Position) record.Position {
	if len(list) == 0 {
		return nil
	}
	p := make(record.Position, len(list))
	for _, at := range list {
		record.MergePosition(p, record.Position{{Topic: at.GetTopic(), Partition: at.GetPartition()}: at.GetNext()})
	}
	return p
}

// ToReply makes the reply that carries a failure.
func ToReply(f *Failure) *querypb.Reply {
	return &querypb.Reply{Answer: &querypb.Reply_Failure{Failure: ToProto(f)}}
}

// FromReply is nil for a reply with a value, and its *Failure otherwise. An answer that is none (an empty Reply, or one of
// a newer release) is a StoreFailure.
func FromReply(r *querypb.Reply) error {
	switch a := r.GetAnswer().(type) {
	case nil:
		return New(StoreFailure, r.GetStore(), r.GetPartition())
	case *querypb.Reply_Failure:
		return FromProto(a.Failure)
	}
	return nil
}
