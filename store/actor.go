package store

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// storeActor answers the questions to one store partition with committed state: it reads the engine beside the loop that
// writes it, through the lease. It has no state of its own but caches, so a restart costs nothing.
type storeActor struct {
	state *TaskState
	store int
	spec  *StoreSpec
	// seen and position are the last view that was answered with and its wire form; no answer goes back behind it.
	seen     *view
	position []*querypb.Position
	counting *counting
	waiting  waiting
	stopped  bool
	rest     *rest
	// scratch is where packed pages are put together, one at a time.
	scratch []byte
}

// NewActorProps makes the actor of one store of a task; spawn it once. It answers querypb.Open, Get, GetMany, Range and
// Count, each with a *querypb.Reply that carries the store's position, a failure too. No question that reaches it is left without an answer: while
// it stops, and for what is in its mailbox then, the answer is StateStoreMigrated. Closing the state is the owner's business,
// before or after.
func NewActorProps(t *TaskState, store int, opts ...actor.PropsOption) *actor.Props {
	r := &rest{}
	produce := func() actor.Actor {
		return &storeActor{state: t, store: store, spec: &t.spec.Stores[store], counting: &counting{}, rest: r}
	}
	r.refuse = produce().(*storeActor).refuse
	unbounded := actor.Unbounded()
	own := []actor.PropsOption{actor.WithMailbox(func() actor.Mailbox { return &draining{unbounded(), r} })}
	opts = append(append(own, opts...), actor.WithDispatcher(&steady{ended: r.closed.Load}))
	return actor.PropsFromProducer(produce, opts...)
}

// refuse is the answer to a question that comes too late.
func (a *storeActor) refuse(q question) *querypb.Reply {
	reply := query.ToReply(a.classify(ErrStateStoreClosed)) // on any goroutine, so without the actor's own position
	reply.Epoch = q.GetAbout().GetEpoch()
	return reply
}

// question is what Open, Get, GetMany, Range and Count have in common.
type question = query.Question

// Receive implements actor.Actor.
func (a *storeActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.rest.system.Store(ctx.ActorSystem())
	case *actor.Stopping, *actor.Restarting:
		a.stopped = true
		a.wake(ctx) // everybody who waits is refused
	case *actor.Stopped:
		a.rest.closed.Store(true)
	case wake:
		a.wake(ctx)
	case question:
		a.take(ctx, ctx.Sender(), m)
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		if ctx.Sender() != nil {
			ctx.Respond(a.failure(query.Invalid(a.spec.Name, a.state.spec.Partition, fmt.Sprintf("%T is not a question", m)), a.reached()))
		}
	}
}

// take answers one question, now or when the position that it asks for is reached. A panic on the way is an answer too.
func (a *storeActor) take(ctx actor.Context, sender *actor.PID, q question) {
	var reply *querypb.Reply
	err := caught("query", func() (err error) {
		if err := a.state.breakable(fault.QueryReceive, a.store); err != nil {
			return err
		}
		if err := a.check(q); err != nil {
			return err
		}
		if a.behind(q) {
			return a.wait(ctx, sender, q)
		}
		if count, ok := q.(*querypb.Count); ok {
			return a.count(ctx.ActorSystem().Root, sender, count)
		}
		reply, err = a.answer(q)
		return err
	})
	if err != nil {
		reply = a.failure(a.classify(err), a.reached())
	}
	if reply != nil {
		a.send(ctx, sender, q, reply)
	}
}

func (a *storeActor) send(ctx actor.Context, sender *actor.PID, q question, reply *querypb.Reply) {
	if err := a.state.breakable(fault.QueryReply, a.store); err != nil {
		reply = a.failure(a.classify(err), a.reached())
	}
	if sender != nil {
		reply.Epoch = q.GetAbout().GetEpoch()
		// Not ctx.Send: it keeps the process it finds in the PID, which is for this answer only.
		process, _ := ctx.ActorSystem().ProcessRegistry.Get(sender)
		process.SendUserMessage(sender, reply)
	}
}

// answer reads what is asked for. The reply's position is that of what was read.
func (a *storeActor) answer(q question) (*querypb.Reply, error) {
	var reply *querypb.Reply
	var v *view
	var err error
	if get, ok := q.(*querypb.Get); ok {
		reply, v, err = a.get(get)
	} else {
		reply = a.reply()
		v, err = a.read(q, reply)
	}
	if err != nil {
		return nil, err
	}
	reply.Position = a.wire(v)
	return reply, nil
}

// get is read for one key, with the whole reply in one piece of memory.
func (a *storeActor) get(q *querypb.Get) (*querypb.Reply, *view, error) {
	whole := &struct {
		reply  querypb.Reply
		answer querypb.Reply_Value
		value  querypb.Value
	}{}
	whole.answer.Value, whole.reply.Answer = &whole.value, &whole.answer
	whole.reply.Store, whole.reply.Partition = a.spec.Name, a.state.spec.Partition
	v, err := a.state.getOne(a.store, q.Key, &whole.value)
	return &whole.reply, v, err
}

// read puts the answer into the reply, and gives the view that it is of.
func (a *storeActor) read(q question, reply *querypb.Reply) (v *view, err error) {
	switch q := q.(type) {
	case *querypb.Open:
		if err := a.state.enter(a.store); err != nil {
			return nil, err
		}
		a.state.engine.lease.release()
		reply.Answer = &querypb.Reply_Lease{Lease: &querypb.Lease{Kind: a.spec.Kind, KeyCodec: a.spec.KeyCodec, ValueCodec: a.spec.ValueCodec}}
		return a.latest(), nil
	case *querypb.GetMany:
		var values []*querypb.Value
		values, v, err = a.state.getMany(a.store, q.Keys, query.MaxValuesBytes)
		reply.Answer = &querypb.Reply_Values{Values: &querypb.Values{Values: values}}
	case *querypb.Range:
		var page *querypb.Page
		page, v, err = a.page(q)
		reply.Answer = &querypb.Reply_Page{Page: page}
	default:
		return nil, a.invalid(fmt.Sprintf("%T is not a question that a store answers", q))
	}
	return v, err
}

// check refuses what must not be answered: a question to another store, with other codecs, or too late.
func (a *storeActor) check(q question) error {
	name, partition, about := a.spec.Name, a.state.spec.Partition, q.GetAbout()
	if m := query.Mistake(q); m != "" {
		return a.invalid(m)
	}
	if about == nil {
		return a.checkWindows(q)
	}
	if (about.Store != "" && about.Store != name) || (about.Partition != nil && *about.Partition != partition) {
		return a.invalid(fmt.Sprintf("it is for store %q partition %d", about.Store, about.GetPartition()))
	}
	for _, c := range [...]struct{ what, asked, have string }{{"kind", about.Kind, a.spec.Kind},
		{"key codec", about.KeyCodec, a.spec.KeyCodec}, {"value codec", about.ValueCodec, a.spec.ValueCodec}} {
		if c.asked != "" && c.asked != c.have {
			f := query.New(query.StateStoreTypeMismatch, name, partition)
			f.Detail = fmt.Sprintf("its %s is %q, the question's is %q", c.what, c.have, c.asked)
			return f
		}
	}
	if about.DeadlineMs != 0 && a.state.dir.opts.Now().UnixMilli() > about.DeadlineMs {
		return query.New(query.DeadlineExceeded, name, partition)
	}
	return a.checkWindows(q)
}

func (a *storeActor) invalid(detail string) error {
	return query.Invalid(a.spec.Name, a.state.spec.Partition, detail)
}

// classify is the one place that gives this room's errors their kind of failure.
func (a *storeActor) classify(err error) *query.Failure {
	var f *query.Failure
	if errors.As(err, &f) {
		return f
	}
	kind := query.StoreFailure
	if errors.Is(err, ErrStateStoreClosed) {
		kind = query.StateStoreMigrated
	}
	f = query.New(kind, a.spec.Name, a.state.spec.Partition)
	f.Cause = err
	if e := (*EngineError)(nil); errors.As(err, &e) && e.Dead {
		f.Retry = query.Here // its incarnation ends, and the next one opens the state anew
	}
	return f
}

// failure makes the reply of a failure as of a position.
func (a *storeActor) failure(f *query.Failure, position []*querypb.Position) *querypb.Reply {
	if f.Kind == query.StoreFailure {
		a.state.dir.opts.Logger.Error("a query failed", "store", a.spec.Name, "partition", a.state.spec.Partition, "error", f.Cause)
	}
	reply := query.ToReply(f)
	reply.Store, reply.Partition, reply.Position = a.spec.Name, a.state.spec.Partition, position
	return reply
}

// reply begins a reply.
func (a *storeActor) reply() *querypb.Reply {
	return &querypb.Reply{Store: a.spec.Name, Partition: a.state.spec.Partition}
}

// latest is the last view that is known. A read can be of one that is about to be published.
func (a *storeActor) latest() *view {
	if v := a.state.view.Load(); a.seen == nil || v.commit >= a.seen.commit {
		return v
	}
	return a.seen
}

// reached is the wire form of the last position that is known.
func (a *storeActor) reached() []*querypb.Position { return a.wire(a.latest()) }

// wire is the wire form of a view's position. It is made once for each.
func (a *storeActor) wire(v *view) []*querypb.Position {
	if v != a.seen {
		a.seen, a.position = v, query.ToPositions(v.position)
	}
	return a.position
}
