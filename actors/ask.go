package actors

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// ErrNoReply is what Ask returns, with the context's cause, when nothing answered in time.
var ErrNoReply = errors.New("actors: no reply")

// ErrStopped is what Ask returns when there is no such actor.
var ErrStopped = errors.New("actors: the actor has stopped")

// reply is the process that takes one answer.
type reply struct {
	done  atomic.Bool
	value chan any
}

// SendUserMessage implements actor.Process: the first message is the answer, later ones are dropped.
func (r *reply) SendUserMessage(_ *actor.PID, message any) {
	if r.done.CompareAndSwap(false, true) {
		_, m, _ := actor.UnwrapEnvelope(message)
		r.value <- m
	}
}

// SendSystemMessage implements actor.Process.
func (r *reply) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (r *reply) Stop(*actor.PID) {}

// Ask sends m and waits for the answer. It ends with ErrStopped if there is no such actor and with ErrNoReply if ctx ends
// first.
//
// The library's future is not used: it writes its result without its lock when a time-out and an answer meet.
func Ask(ctx context.Context, system *actor.ActorSystem, pid *actor.PID, m any) (any, error) {
	r := &reply{value: make(chan any, 1)}
	id := system.ProcessRegistry.NextId()
	self, _ := system.ProcessRegistry.Add(r, "ask-"+id)
	defer system.ProcessRegistry.Remove(self)
	system.Root.RequestWithCustomSender(pid, m, self)
	select {
	case v := <-r.value:
		if _, dead := v.(*actor.DeadLetterResponse); dead {
			return nil, ErrStopped
		}
		return v, nil
	case <-ctx.Done():
		r.done.Store(true)
		return nil, errors.Join(ErrNoReply, context.Cause(ctx))
	}
}
