package store

import (
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// counting keeps a store to one Count at a time.
type counting struct{ busy atomic.Bool }

// count answers beside the actor, because a count reads every entry and would keep every other question waiting. It ends
// early when the state closes: the scan then yields ErrStateStoreClosed.
func (a *storeActor) count(ctx actor.Context, q *querypb.Count) error {
	if !a.counting.busy.CompareAndSwap(false, true) {
		return query.New(query.Overloaded, a.spec.Name, a.state.spec.Partition)
	}
	root, sender := ctx.ActorSystem().Root, ctx.Sender()
	reply, busy := a.reply(), a.counting
	reply.Epoch = q.GetAbout().GetEpoch()
	until := time.Now().Add(countTime)
	if ms := q.GetAbout().GetDeadlineMs(); ms != 0 && time.UnixMilli(ms).Before(until) {
		until = time.UnixMilli(ms)
	}
	go func() {
		var n int64
		err := caught("count", func() (err error) {
			n, err = a.entries(until)
			return err
		})
		busy.busy.Store(false)
		reply.Answer = &querypb.Reply_Count{Count: &querypb.CountReply{Entries: n}}
		if err != nil {
			reply = a.failure(a.classify(err))
		}
		if sender != nil {
			root.Send(sender, reply)
		}
	}()
	return nil
}

// entries counts exactly. It touches nothing of the actor that changes.
func (a *storeActor) entries(until time.Time) (n int64, err error) {
	for _, err := range a.state.scan(a.store, span{}) {
		if err != nil {
			return 0, err
		}
		if n++; n%1024 == 0 && time.Now().After(until) {
			return 0, query.New(query.DeadlineExceeded, a.spec.Name, a.state.spec.Partition)
		}
	}
	return n, nil
}
