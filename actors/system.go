package actors

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// NewSystem returns an actor system that logs its warnings and errors through l, and nothing elsewhere. One costs a few
// megabytes: share it.
func NewSystem(l *slog.Logger) *actor.ActorSystem {
	return actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(levelled{l.Handler()}) }),
		// Each first dead letter of an interval starts a goroutine that lives as long; levelled drops the lines anyway.
		actor.WithDeadLetterThrottleInterval(time.Millisecond))
}

// levelled lets the library's warnings and errors through; its information is about every dead letter.
type levelled struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h levelled) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// WithAttrs and WithGroup keep the level: the embedded handler's would return a handler without it.
func (h levelled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelled{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h levelled) WithGroup(name string) slog.Handler { return levelled{h.Handler.WithGroup(name)} }

// Panic is what an actor, or a goroutine of one, panicked with.
type Panic struct {
	Value any
	Stack []byte
}

// Error gives the value; Stack says where it came from.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Unwrap gives the value if it was an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Guard is receiver middleware that gives panics their stack. An error that was thrown on purpose, to fail the actor, is
// passed on as it is.
func Guard(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, e *actor.MessageEnvelope) {
		defer func() {
			switch v := recover().(type) {
			case nil:
			case Deliberate:
				panic(v)
			case *Panic:
				panic(v)
			default:
				panic(&Panic{Value: v, Stack: debug.Stack()})
			}
		}()
		next(ctx, e)
	}
}

// Deliberate marks an error with which an actor fails itself, so that Guard does not take it for a bug.
type Deliberate interface {
	error
	Deliberate()
}
