package actors

import (
	"context"
	"errors"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// ErrNoReply is what Ask returns, with the context's cause, when nothing answered in time.
var ErrNoReply = errors.New("actors: no reply")

// ErrStopped is what Ask returns when there is no such actor.
var ErrStopped = errors.New("actors: the actor has stopped")

// asker is the process that takes the answers of every Ask of one actor system. Each Ask has a RequestId of its own, which
// comes back with the PID that is answered to: so an answer needs no process, and one that comes late finds nobody.
//
// The mutex protects the fields below it: answers come on the goroutines of the actors that give them.
type asker struct {
	mu      sync.Mutex
	waiting map[uint32]*waiter
	last    uint32
}

// waiter is one Ask. It is used again; its channel is empty whenever it is not in asker.waiting and nobody is about to
// receive from it.
type waiter struct{ value chan any }

var waiters = sync.Pool{New: func() any { return &waiter{make(chan any, 1)} }}

var _ actor.Process = (*asker)(nil)

// SendUserMessage implements actor.Process: the first message for a RequestId is its answer.
func (a *asker) SendUserMessage(to *actor.PID, message any) {
	if w := a.forget(to.GetRequestId()); w != nil {
		_, m, _ := actor.UnwrapEnvelope(message)
		w.value <- m
	}
}

// SendSystemMessage implements actor.Process.
func (a *asker) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (a *asker) Stop(*actor.PID) {}

// expect gives w a RequestId.
func (a *asker) expect(w *waiter) uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.last++; a.last == 0 || a.waiting[a.last] != nil; a.last++ {
	}
	a.waiting[a.last] = w
	return a.last
}

// forget takes the waiter out; nil means that it is not waiting, or that somebody else has taken it out.
func (a *asker) forget(id uint32) *waiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.waiting[id]
	delete(a.waiting, id)
	return w
}

const askerID = "millrace/ask"

// askerOf finds the system's asker or makes it.
func askerOf(system *actor.ActorSystem) *asker {
	if p, ok := system.ProcessRegistry.GetLocal(askerID); ok {
		return p.(*asker)
	}
	a := &asker{waiting: map[uint32]*waiter{}}
	if _, fresh := system.ProcessRegistry.Add(a, askerID); fresh {
		return a
	}
	return askerOf(system)
}

// Ask sends m and waits for the answer. It ends with ErrStopped if there is no such actor and with ErrNoReply, joined with
// the context's cause, if ctx ends first.
//
// The library's future is not used: it writes its result without its lock when a time-out and an answer meet, and costs a
// process for each question.
func Ask(ctx context.Context, system *actor.ActorSystem, pid *actor.PID, m any) (any, error) {
	if pid == nil {
		return nil, ErrStopped
	}
	if ctx.Err() != nil {
		return nil, errors.Join(ErrNoReply, context.Cause(ctx))
	}
	a, w := askerOf(system), waiters.Get().(*waiter)
	id := a.expect(w)
	// Root.RequestWithCustomSender does this in two pieces of memory.
	q := &struct {
		sender   actor.PID
		envelope actor.MessageEnvelope
	}{}
	q.sender.Address, q.sender.Id, q.sender.RequestId = system.Address(), askerID, id
	q.envelope.Message, q.envelope.Sender = m, &q.sender
	system.Root.Send(pid, &q.envelope)
	var v any
	select {
	case v = <-w.value:
	case <-ctx.Done():
		if a.forget(id) != nil {
			waiters.Put(w)
			return nil, errors.Join(ErrNoReply, context.Cause(ctx))
		}
		v = <-w.value // the answer was faster: it is on its way into the channel
	}
	waiters.Put(w)
	if _, dead := v.(*actor.DeadLetterResponse); dead {
		return nil, ErrStopped
	}
	return v, nil
}
