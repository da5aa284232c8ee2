package actors

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// bell is the process that a termination is told to.
type bell struct{ rung chan struct{} }

// SendUserMessage implements actor.Process.
func (b *bell) SendUserMessage(*actor.PID, any) {}

// SendSystemMessage implements actor.Process.
func (b *bell) SendSystemMessage(_ *actor.PID, m any) {
	if _, ok := m.(*actor.Terminated); ok {
		select {
		case b.rung <- struct{}{}:
		default:
		}
	}
}

// Stop implements actor.Process.
func (b *bell) Stop(*actor.PID) {}

// StopAndWait stops an actor and waits until it and its children have ended, or ctx has; its only error is the context's
// cause. An actor that is gone has ended. The library's own wait gives up after 10 s.
func StopAndWait(ctx context.Context, system *actor.ActorSystem, pid *actor.PID) error {
	b := &bell{make(chan struct{}, 1)}
	self, _ := system.ProcessRegistry.Add(b, "bell-"+system.ProcessRegistry.NextId())
	defer system.ProcessRegistry.Remove(self)
	process, _ := system.ProcessRegistry.Get(pid)
	process.SendSystemMessage(pid, &actor.Watch{Watcher: self})
	system.Root.Stop(pid)
	select {
	case <-b.rung:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("actors: %s has not stopped: %w", pid.GetId(), context.Cause(ctx))
	}
}
