package actors

import (
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Hardened are the options that close the library's holes around one actor:
//
//   - What is in the mailbox when the actor has stopped is answered; the library drops it without a dead letter.
//
//   - A message whose handler panics is answered, before the failure goes to the supervisor with the panic's stack.
//
//   - A handler that ends its goroutine (runtime.Goexit, as testing.T.FailNow does) is a failure like a panic; in the
//     library the mailbox stands still for ever.
//
//   - A question that meets MaxQueued messages is answered as well, on its sender's goroutine, and not queued. The
//     library's bounded mailboxes drop it without a word, or have the sender spin.
//
// answer gives the reply for a message that has a sender, or nil for none. It is called on any goroutine.
func Hardened(answer func(message any) any) []actor.PropsOption { return Gauged(&Gauge{}, answer) }

// Gauged is Hardened with a gauge on the mailbox.
func Gauged(g *Gauge, answer func(message any) any) []actor.PropsOption {
	return []actor.PropsOption{
		actor.WithMailbox(func() actor.Mailbox {
			m := &hardMailbox{Mailbox: actor.Unbounded()(), answer: answer}
			g.mailbox.Store(m)
			return m
		}),
		actor.WithDispatcher(healing{}),
		actor.WithReceiverMiddleware(Guard),
	}
}

// MaxQueued is how many messages may wait in a mailbox before questions are refused. What Millrace's actors tell each
// other has no sender and is always queued; there is one such message for each change of a task or thread.
const MaxQueued = 1 << 16

// Gauge says how many messages wait in the mailbox of the actor that it was given to. The zero value says 0.
type Gauge struct{ mailbox atomic.Pointer[hardMailbox] }

// Depth is the number of messages that were sent and not taken yet.
func (g *Gauge) Depth() int {
	if m := g.mailbox.Load(); m != nil {
		return m.UserMessageCount()
	}
	return 0
}

// hardMailbox is a mailbox that puts a hardInvoker in front of the actor.
type hardMailbox struct {
	actor.Mailbox
	answer func(any) any
	// system is set before the first message.
	system *actor.ActorSystem
}

// PostUserMessage implements actor.Mailbox.
func (m *hardMailbox) PostUserMessage(message any) {
	if m.UserMessageCount() < MaxQueued || !m.reply(message) {
		m.Mailbox.PostUserMessage(message)
	}
}

// reply answers a message that is not handled, if it has a sender and there is an answer.
func (m *hardMailbox) reply(message any) bool {
	_, question, sender := actor.UnwrapEnvelope(message)
	if sender == nil || m.system == nil {
		return false
	}
	r := m.answer(question)
	if r == nil {
		return false
	}
	m.system.Root.Send(sender, r)
	return true
}

// RegisterHandlers implements actor.Mailbox. The library calls it when the actor has its name and before its first message.
func (m *hardMailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	h := &hardInvoker{MessageInvoker: invoker, mailbox: m}
	if ctx, ok := invoker.(actor.Context); ok {
		h.system, h.self = ctx.ActorSystem(), ctx.Self()
		h.process, _ = h.system.ProcessRegistry.GetLocal(h.self.Id)
		m.system = h.system
	}
	m.Mailbox.RegisterHandlers(h, dispatcher)
}

// hardInvoker stands between a mailbox and its actor. It is used by one goroutine at a time, the mailbox's.
type hardInvoker struct {
	actor.MessageInvoker
	mailbox *hardMailbox
	system  *actor.ActorSystem
	self    *actor.PID
	process actor.Process
	stopped atomic.Bool
}

// InvokeSystemMessage implements actor.MessageInvoker. An actor has stopped when its name does not lead to it any more,
// which happens inside Stop or the Terminated of its last child. A mailbox that is suspended by a failure would keep the
// rest for ever, so it is resumed: what comes out is answered, not handled.
func (h *hardInvoker) InvokeSystemMessage(m any) {
	h.MessageInvoker.InvokeSystemMessage(m)
	switch m.(type) {
	case *actor.Stop, *actor.Terminated:
		if p, _ := h.system.ProcessRegistry.GetLocal(h.self.Id); p != h.process {
			h.stopped.Store(true)
			h.mailbox.PostSystemMessage(&actor.ResumeMailbox{})
		}
	}
}

// InvokeUserMessage implements actor.MessageInvoker.
func (h *hardInvoker) InvokeUserMessage(m any) {
	if h.stopped.Load() {
		h.mailbox.reply(m)
		return
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		h.mailbox.reply(m)
		if v := recover(); v != nil {
			panic(v) // the mailbox makes a failure of it
		}
		h.EscalateFailure(&Panic{Value: "the handler ended its goroutine (runtime.Goexit)"}, m)
	}()
	h.MessageInvoker.InvokeUserMessage(m)
	returned = true
}

// healing is a dispatcher that runs a mailbox again whose run has ended its goroutine.
type healing struct{}

// Schedule implements actor.Dispatcher.
func (d healing) Schedule(run func()) {
	go func() {
		returned := false
		defer func() {
			if !returned {
				d.Schedule(run)
			}
		}()
		run()
		returned = true
	}()
}

// Throughput implements actor.Dispatcher: how many messages are handled before other goroutines get a turn.
func (healing) Throughput() int { return 300 }
