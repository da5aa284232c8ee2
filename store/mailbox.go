package store

import (
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/query/querypb"
)

// draining is a mailbox that answers what is left in it when its actor has stopped. The library drops those messages
// without a word, and their senders would wait for their time-outs.
type draining struct {
	actor.Mailbox
	rest *rest
}

// rest is what the actor and its mailbox share. One spawned actor has one.
type rest struct {
	// system is set when the actor has started, closed when it has stopped; the mailbox's goroutine sees both.
	system  atomic.Pointer[actor.ActorSystem]
	closed  atomic.Bool
	resumed bool
	refuse  func(question) *querypb.Reply
}

// RegisterHandlers implements actor.Mailbox.
func (m *draining) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(&drainInvoker{invoker, m}, dispatcher)
}

type drainInvoker struct {
	actor.MessageInvoker
	box *draining
}

// InvokeSystemMessage implements actor.MessageInvoker. An actor that is stopped after a failure leaves its mailbox suspended,
// and a suspended one hands out nothing, so it is resumed for the rest.
func (i *drainInvoker) InvokeSystemMessage(m any) {
	i.MessageInvoker.InvokeSystemMessage(m)
	if r := i.box.rest; r.closed.Load() && !r.resumed {
		r.resumed = true
		i.box.PostSystemMessage(&actor.ResumeMailbox{})
	}
}

// InvokeUserMessage implements actor.MessageInvoker.
func (i *drainInvoker) InvokeUserMessage(m any) {
	r := i.box.rest
	if !r.closed.Load() {
		i.MessageInvoker.InvokeUserMessage(m)
		return
	}
	_, message, sender := actor.UnwrapEnvelope(m)
	if q, ok := message.(question); ok && sender != nil {
		r.system.Load().Root.Send(sender, r.refuse(q))
	}
}
