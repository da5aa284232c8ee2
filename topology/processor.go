package topology

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/record"
)

// Processor is hand-written code with state. Every method is called on the task's goroutine, one at a time.
type Processor[KI, VI, KO, VO any] interface {
	// Init comes first, once. The processor opens its stores, schedules its punctuations and keeps ctx.
	Init(ctx *Context[KO, VO]) error
	// Process takes one record. What it forwards goes through the children before Forward returns.
	Process(r record.Record[KI, VI]) error
	// Close comes last, once, if Init was called; stores cannot be used any more.
	Close() error
}

// Void is the output of a processor that forwards nothing.
type Void struct{}

// Context is what a processor may do to the rest of the task.
type Context[KO, VO any] struct {
	in      *Instance
	node    *node
	forward handler[KO, VO]
	byName  map[string]handler[KO, VO]
}

// Process sends the stream through processors that supply makes, one per task, called name. They may open stores.
func Process[KI, VI, KO, VO any](s Stream[KI, VI], name string, supply func() Processor[KI, VI, KO, VO], stores ...Store) Stream[KO, VO] {
	n := s.b.add(name, "process", effectKind, s.n)
	need(s, "process", supply == nil)
	s.b.use(n, stores...)
	n.make = func(in *Instance, n *node) any {
		p := supply()
		ctx := &Context[KO, VO]{in: in, node: n, forward: outs[KO, VO](in, n), byName: map[string]handler[KO, VO]{}}
		for _, c := range n.children {
			ctx.byName[c.name] = in.enter(c).(handler[KO, VO])
		}
		in.parts[n.index].init = func() error { return wrap(n.name, p.Init(ctx)) }
		in.parts[n.index].close = func() error { return wrap(n.name, p.Close()) }
		return handler[KI, VI](func(r record.Record[KI, VI]) error {
			if err := p.Process(r); err != nil {
				return wrap(n.name, err)
			}
			return nil
		})
	}
	return Stream[KO, VO]{s.b, n}
}

// Consume is Process for processors that forward nothing.
func Consume[K, V any](s Stream[K, V], name string, supply func() Processor[K, V, Void, Void], stores ...Store) {
	Process(s, name, supply, stores...)
}

// Forward sends r to every child. Return its error.
func (c *Context[KO, VO]) Forward(r record.Record[KO, VO]) error { return c.forward(r) }

// ForwardTo sends r to the child called name; there must be one. Return its error, as that of Forward.
func (c *Context[KO, VO]) ForwardTo(name string, r record.Record[KO, VO]) error {
	f := c.byName[name]
	if f == nil {
		return fmt.Errorf("%q has no child called %q", c.node.name, name)
	}
	return f(r)
}

// Schedule calls f every interval milliseconds of stream time or wall clock, until cancel is called. Stream time is
// aligned to 0 and fires as soon as there is data, but, when it is scheduled in Init, not again for the stream time up
// to which the task has committed; wall clock fires first one interval from now. Missed intervals are not made up for. An interval that is not above 0 is an error.
func (c *Context[KO, VO]) Schedule(intervalMS int64, t PunctuationType, f func(timestampMS int64) error) (cancel func(), err error) {
	if intervalMS <= 0 || f == nil {
		return nil, fmt.Errorf("a punctuation needs a function and an interval above 0 ms, not %d", intervalMS)
	}
	return c.in.schedule(c.node.name, intervalMS, t, f), nil
}

// StreamTime is the highest timestamp taken up, in milliseconds since the Unix epoch; below 0 before the first.
func (c *Context[KO, VO]) StreamTime() int64 { return c.in.host.StreamTime() }

// WallClock is the time of the step, in milliseconds since the Unix epoch.
func (c *Context[KO, VO]) WallClock() int64 { return c.in.host.WallClock() }

// Current is where the record in process came from; ok is false in a punctuation or a flush.
func (c *Context[KO, VO]) Current() (source record.TopicPartition, offset int64, ok bool) {
	return c.in.host.Current()
}

// Context is for calls that take one. It has the span of the batch in process in it if the node traces, and is never
// cancelled. It is to be asked for at each record and not to be kept; in a punctuation or a flush it has no span.
func (c *Context[KO, VO]) Context() context.Context { return c.in.host.Context() }

// TaskID names the task.
func (c *Context[KO, VO]) TaskID() record.TaskID { return c.in.host.TaskID() }

// RequestCommit asks for a commit as soon as the current record is done.
func (c *Context[KO, VO]) RequestCommit() { c.in.host.RequestCommit() }

func (c *Context[KO, VO]) openStore(name string) (StateStore, error) {
	if !slices.Contains(c.node.stores, name) {
		return nil, fmt.Errorf("store %q is not connected to processor %q; name it in the call of Process", name, c.node.name)
	}
	return c.in.store(name)
}

func (c *Context[KO, VO]) openGlobal(name string) (GlobalState, error) {
	if !slices.Contains(c.node.stores, name) {
		return nil, fmt.Errorf("global store %q is not connected to processor %q; name it in the call of Process", name, c.node.name)
	}
	return c.in.global(name)
}

func (c *Context[KO, VO]) host() Host { return c.in.host }
