package store

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
)

// waitStep is how often a store looks whether a position that somebody waits for is reached. The writer publishes positions
// without telling anybody, because it does so at each commit of each task and next to nobody waits.
const waitStep = 5 * time.Millisecond

// waitMargin is how long before the end of its asker's time, at most, a question is answered that waits in vain: the answer
// says what was reached, and an asker that has left would never learn it.
const waitMargin = 50 * time.Millisecond

// waiting are the questions that ask for a position which is not reached yet. It belongs to the actor.
type waiting struct {
	list []waiter
	// set says that a wake is on its way.
	set bool
}

type waiter struct {
	q      question
	sender *actor.PID
	until  time.Time
}

// wake is what the actor tells itself.
type wake struct{}

// behind says that the question asks for a position which is not reached. Partitions of another number than the store's are
// another task's; a global store has all of its topic's.
func (a *storeActor) behind(q question) bool {
	for _, at := range q.GetAbout().GetAtLeast() {
		if a.state.spec.Global != "" && at.GetTopic() != a.spec.Changelog {
			continue
		}
		if at.GetPartition() != a.state.spec.Partition && a.state.spec.Global == "" {
			continue
		}
		next, ok := a.state.view.Load().position[record.TopicPartition{Topic: at.GetTopic(), Partition: at.GetPartition()}]
		if !ok || next < at.GetNext() {
			return true
		}
	}
	return false
}

// wait keeps a question until its position is reached.
func (a *storeActor) wait(ctx actor.Context, sender *actor.PID, q question) error {
	if sender == nil {
		return nil
	}
	if len(a.waiting.list) >= query.MaxWaiters {
		return query.New(query.Overloaded, a.spec.Name, a.state.spec.Partition)
	}
	now := a.state.dir.opts.Now()
	left := query.MaxWait
	if at, ok := query.Deadline(q, now); ok {
		left = min(left, at.Sub(now))
	}
	until := now.Add(left - min(waitMargin, left/4))
	a.waiting.list = append(a.waiting.list, waiter{q, sender, until})
	a.alarm(ctx)
	return nil
}

// alarm makes sure that a wake comes while somebody waits.
func (a *storeActor) alarm(ctx actor.Context) {
	if a.waiting.set || len(a.waiting.list) == 0 {
		return
	}
	a.waiting.set = true
	registry, self := ctx.ActorSystem().ProcessRegistry, ctx.Self()
	time.AfterFunc(waitStep, func() {
		// Not Send: to an actor that has stopped meanwhile it would be a dead letter.
		if p, ok := registry.GetLocal(self.Id); ok {
			p.SendUserMessage(self, wake{})
		}
	})
}

// wake answers everybody whose position is reached, whose time is over, or whose store has ended.
func (a *storeActor) wake(ctx actor.Context) {
	list := a.waiting.list
	a.waiting = waiting{}
	now := a.state.dir.opts.Now()
	for _, w := range list {
		switch {
		case a.over():
			a.send(ctx, w.sender, w.q, a.failure(a.classify(a.ending()), a.reached()))
		case !a.behind(w.q):
			a.take(ctx, w.sender, w.q)
		case !now.Before(w.until):
			a.send(ctx, w.sender, w.q, a.failure(a.late(), a.reached()))
		default:
			a.waiting.list = append(a.waiting.list, w)
		}
	}
	a.alarm(ctx)
}

// over says that the store will reach nothing more.
func (a *storeActor) over() bool { return a.stopped || a.ending() != nil }

// ending is why.
func (a *storeActor) ending() error {
	if err := a.state.Err(); err != nil {
		return err
	}
	if a.stopped || a.state.engine.lease.ending() {
		return ErrStateStoreClosed
	}
	return nil
}

func (a *storeActor) late() *query.Failure {
	f := query.New(query.DeadlineExceeded, a.spec.Name, a.state.spec.Partition)
	f.Reached = a.state.view.Load().position
	f.Detail = "the position that was asked for is not reached"
	return f
}
