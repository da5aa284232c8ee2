package query

import (
	"errors"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query/querypb"
)

// ToProto gives a failure its wire form. The cause stays here, but for ErrStateStoreClosed and ErrEmptyStateStore: its
// text may hold paths and addresses of this host.
func ToProto(f *Failure) *querypb.Failure {
	p := &querypb.Failure{
		Kind: querypb.Kind(f.Kind), Store: f.Store, NodeState: f.NodeState, ThreadState: f.ThreadState, Epoch: f.Epoch,
		Retry: querypb.Retry(f.retry()), RetryAfterMs: int64((f.RetryAfter + time.Millisecond - 1) / time.Millisecond),
		Owner: f.Owner, LastKey: f.LastKey, Detail: f.Detail,
	}
	if f.Partition != NoPartition {
		p.Partition = &f.Partition
	}
	if g := f.Progress; g != nil {
		p.Progress = &querypb.Progress{Restored: g.Restored, Remaining: g.Remaining}
		if !g.Started.IsZero() {
			p.Progress.StartedMs = g.Started.UnixMilli()
		}
	}
	switch {
	case errors.Is(f.Cause, ErrStateStoreClosed):
		p.Wraps = querypb.Wraps_WRAPS_STATE_STORE_CLOSED
	case errors.Is(f.Cause, ErrEmptyStateStore):
		p.Wraps = querypb.Wraps_WRAPS_EMPTY_STATE_STORE
	}
	return p
}

// FromProto is the inverse of ToProto. Kinds and retries of a newer release are kept as numbers.
func FromProto(p *querypb.Failure) *Failure {
	f := &Failure{
		Kind: Kind(p.GetKind()), Store: p.GetStore(), Partition: NoPartition, NodeState: p.GetNodeState(), ThreadState: p.GetThreadState(),
		Epoch: p.GetEpoch(), Retry: Retry(p.GetRetry()), RetryAfter: time.Duration(p.GetRetryAfterMs()) * time.Millisecond,
		Owner: p.GetOwner(), LastKey: p.GetLastKey(), Detail: p.GetDetail(),
	}
	if p != nil && p.Partition != nil {
		f.Partition = *p.Partition
	}
	if g := p.GetProgress(); g != nil {
		f.Progress = &lifecycle.Progress{Restored: g.Restored, Remaining: g.Remaining}
		if g.StartedMs != 0 {
			f.Progress.Started = time.UnixMilli(g.StartedMs)
		}
	}
	switch p.GetWraps() {
	case querypb.Wraps_WRAPS_STATE_STORE_CLOSED:
		f.Cause = ErrStateStoreClosed
	case querypb.Wraps_WRAPS_EMPTY_STATE_STORE:
		f.Cause = ErrEmptyStateStore
	}
	return f
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
