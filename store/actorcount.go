package store

import (
	"errors"
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
func (a *storeActor) count(root *actor.RootContext, sender *actor.PID, q *querypb.Count) error {
	if !a.counting.busy.CompareAndSwap(false, true) {
		return query.New(query.Overloaded, a.spec.Name, a.state.spec.Partition)
	}
	busy := a.counting
	now := time.Now()
	until := now.Add(query.CountTime)
	if at, ok := query.Deadline(q, now); ok && at.Before(until) {
		until = at
	}
	c := counter{state: a.state, view: a.state.view.Load(), store: a.store, until: until, approximate: q.Approximate, estimateAt: now.Add(query.ApproximateTime)}
	go func() {
		err := caught("count", c.run)
		busy.busy.Store(false)
		if sender == nil {
			return
		}
		reply, position := a.reply(), query.ToPositions(c.view.position)
		reply.Answer, reply.Position = &querypb.Reply_Count{Count: &querypb.CountReply{Entries: c.entries, Approximate: c.estimated}}, position
		if err != nil {
			reply = a.failure(a.classify(err), position)
		}
		reply.Epoch = q.GetAbout().GetEpoch()
		root.Send(sender, reply)
	}()
	return nil
}

// counter counts the entries of a store. It touches nothing of the actor that changes.
type counter struct {
	state *TaskState
	// view is the one whose entries it counts; before that it is the present one.
	view        *view
	store       int
	until       time.Time
	approximate bool
	// estimateAt is when an approximate count stops reading and begins to guess.
	estimateAt time.Time
	entries    int64
	estimated  bool
}

// run counts exactly, or estimates once it has read for long enough.
func (c *counter) run() error {
	var outcome error
	spec, live, looked := &c.state.spec.Stores[c.store], int64(0), 0
	everything := func(from int64) span { live = from; return span{} }
	v, err := c.state.walk(c.store, everything, func(key, _ []byte, _ int64) bool {
		if !spec.expired(key, live) {
			c.entries++
		}
		if looked++; looked%1024 != 0 {
			return true
		}
		now := time.Now()
		if now.After(c.until) {
			outcome = query.New(query.DeadlineExceeded, c.state.spec.Stores[c.store].Name, c.state.spec.Partition)
			return false
		}
		if c.approximate && now.After(c.estimateAt) && c.estimate(key) {
			return false
		}
		return true
	})
	if err == nil {
		c.view = v
	}
	return errors.Join(err, outcome)
}

// estimate scales what was counted up to a key by the disk space of what is behind it. It gives up while too little of
// either is on disk: then counting goes on.
func (c *counter) estimate(key []byte) bool {
	number := c.state.numbers[c.store]
	lower, upper := prefixes(number)
	at := appendKey(nil, number, key)
	read, err := c.state.engine.db.EstimateDiskUsage(lower, at)
	if err != nil || read < 64<<10 {
		c.estimateAt = time.Now().Add(query.ApproximateTime)
		return false
	}
	rest, err := c.state.engine.db.EstimateDiskUsage(at, upper)
	if err != nil {
		return false
	}
	c.entries += int64(float64(c.entries) * float64(rest) / float64(read))
	c.estimated = true
	return true
}
