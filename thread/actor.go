package thread

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
)

// StoreActors makes the store actors of a task; the thread actor spawns them as its children.
type StoreActors interface {
	// Props gives one actor for each store of the task, by store name. It is empty for a task without stores.
	Props(id record.TaskID, epoch uint64) map[string]*actor.Props
	// Serving publishes that questions for a store partition may be sent to pid.
	Serving(id record.TaskID, store string, pid *actor.PID, epoch uint64)
}

// Spec is what a thread actor is made of.
type Spec struct {
	Config Config
	Stores StoreActors
	// Ended is called once, from the actor, when the thread has stopped cleanly.
	Ended func(name string)
	// Before is the epoch of the last incarnation of an actor that this one replaces; 0 if there was none.
	Before uint64
}

// Stop is the message that ends a thread cleanly: a last commit, every store closed, NOT_RUNNING. The group membership
// is the slot's and is not touched.
type Stop struct{}

// messages that the loop's goroutine sends to its actor
type (
	loopEnded struct {
		epoch uint64
		err   error
	}
	taskRunning struct {
		epoch uint64
		id    record.TaskID
	}
	taskGone struct {
		epoch uint64
		id    record.TaskID
	}
)

// Failure is what a thread actor panics with when its loop has failed: its supervisor sees it as the reason. Cause is
// bare; Stack is where a panic came from and empty for an error.
type Failure struct {
	Thread string
	Epoch  uint64
	Cause  error
	Stack  []byte
}

// Error names the thread and gives the cause.
func (f *Failure) Error() string { return f.Thread + ": " + f.Cause.Error() }

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Deliberate implements actors.Deliberate.
func (f *Failure) Deliberate() {}

// Actor is one incarnation of a stream thread. Its goroutine runs the Loop; its mailbox takes what needs an actor: the
// store actors that are its children, a stop, and the end of the loop, which it turns into a supervised failure.
//
// The loop is not run inside Receive: a batch there would hold up every question to its children's parent, and a poll
// would starve the siblings on the dispatcher.
type Actor struct {
	spec  Spec
	epoch uint64
	self  *actor.PID
	root  *actor.RootContext
	stop  chan struct{}
	// over ends the loop without the last commit that stop gives it; ended is closed when it has ended.
	over  chan struct{}
	ended chan struct{}
	// children are the store actors by task.
	children map[record.TaskID][]*actor.PID
	stopping bool
	// abandoned says that nobody waits for the loop any more, or listens to it.
	abandoned atomic.Bool
}

// Props makes thread actors. Each restart of the same actor is a new incarnation with the next epoch.
func Props(spec Spec, opts ...actor.PropsOption) *actor.Props {
	epoch := spec.Before
	return actor.PropsFromProducer(func() actor.Actor {
		epoch++
		return &Actor{spec: spec, epoch: epoch, children: map[record.TaskID][]*actor.PID{}}
	}, opts...)
}

// Receive handles one message.
func (a *Actor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.start(ctx)
	case *Stop:
		a.askToStop()
	case Abandon:
		a.abandoned.Store(true)
		ctx.Stop(ctx.Self())
	case taskRunning:
		a.serve(ctx, m)
	case taskGone:
		if m.epoch == a.epoch {
			a.retire(ctx, m.id)
		}
	case loopEnded:
		a.loopEnded(ctx, m)
	case *actor.Stopping, *actor.Restarting:
		a.join()
	}
}

func (a *Actor) start(ctx actor.Context) {
	a.self, a.root = ctx.Self(), ctx.ActorSystem().Root
	a.stop, a.over, a.ended = make(chan struct{}), make(chan struct{}), make(chan struct{})
	cfg := a.spec.Config
	cfg.Epoch = a.epoch
	cfg.Watcher = &teller{Watcher: cfg.Watcher, actor: a}
	loop := NewLoop(cfg)
	go pprof.Do(loop.labels, pprof.Labels(), func(context.Context) { a.run(loop, cfg.Slot) })
}

func (a *Actor) askToStop() {
	if !a.stopping {
		a.stopping = true
		close(a.stop)
	}
}

// join waits for the loop's goroutine. It has ended already when the actor restarts. When the actor is stopped from outside,
// the time for a last commit is over: a loop that waited on for one would wait for a producer that is closed, for ever.
func (a *Actor) join() {
	if a.stop == nil || a.abandoned.Load() {
		return
	}
	close(a.over)
	<-a.ended
}

func (a *Actor) loopEnded(ctx actor.Context, m loopEnded) {
	if m.epoch != a.epoch {
		return
	}
	if errors.Is(m.err, ErrDone) {
		if a.spec.Ended != nil {
			a.spec.Ended(a.spec.Config.Slot.Name)
		}
		ctx.Stop(ctx.Self())
		return
	}
	panic(m.err)
}

// serve spawns the store actors of a task that has started to run, or publishes them again after a replay.
func (a *Actor) serve(ctx actor.Context, m taskRunning) {
	if m.epoch != a.epoch || a.stopping {
		return
	}
	a.retire(ctx, m.id)
	for store, props := range a.spec.Stores.Props(m.id, a.epoch) {
		pid, err := ctx.SpawnNamed(props, storeActorName(store, m.id, ctx.ActorSystem()))
		if err != nil {
			panic(err)
		}
		a.children[m.id] = append(a.children[m.id], pid)
		a.spec.Stores.Serving(m.id, store, pid, a.epoch)
	}
	a.spec.Config.Slot.Inbox.Put(StoresServing{m.id, a.epoch})
}

// storeActorName is unique over incarnations of the task: a predecessor of the same name may still be stopping, and the
// library frees a name only at the end of that.
func storeActorName(store string, id record.TaskID, sys *actor.ActorSystem) string {
	return "store-" + store + "-" + id.String() + "-" + sys.ProcessRegistry.NextId()
}

func (a *Actor) retire(ctx actor.Context, id record.TaskID) {
	for _, pid := range a.children[id] {
		ctx.Stop(pid)
	}
	delete(a.children, id)
}

// run is the loop's goroutine.
func (a *Actor) run(loop *Loop, slot *Slot) {
	defer close(a.ended)
	err := a.drive(loop, slot)
	if a.abandoned.Load() {
		return
	}
	if !errors.Is(err, ErrDone) {
		slot.Pulse.begin(time.Now()) // it closes processors, which is user code
		defer slot.Pulse.end()
		loop.Fail(time.Now(), err)
		err = a.failure(err)
	}
	a.root.Send(a.self, loopEnded{a.epoch, err})
}

func (a *Actor) failure(err error) error {
	f := &Failure{Thread: a.spec.Config.Slot.Name, Epoch: a.epoch, Cause: err}
	if p := (*actors.Panic)(nil); errors.As(err, &p) {
		f.Stack = p.Stack
	}
	return f
}

// drive steps the loop until it ends. A panic of our own code (user code's is caught in the task) ends it as an error.
func (a *Actor) drive(loop *Loop, slot *Slot) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &actors.Panic{Value: v, Stack: debug.Stack()}
		}
	}()
	now := time.Now()
	slot.Pulse.begin(now)
	defer slot.Pulse.end()
	loop.Start(now)
	speed := pace{loop.cfg.Budget, loop.cfg.Budget}
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := a.stop
	for {
		now = time.Now()
		slot.Pulse.begin(now)
		next, err := loop.Step(now)
		slot.Pulse.end()
		if a.abandoned.Load() {
			return errAbandoned
		}
		if err != nil {
			return err
		}
		after := time.Now()
		speed.took(after.Sub(now))
		loop.cfg.Work.stepped(after.Sub(now))
		loop.SetBudget(speed.now)
		wait := next.Sub(after)
		if wait <= 0 {
			// Readers share the cores with this loop; without a yield each of them waits for a time slice.
			runtime.Gosched()
			wait = 0
		}
		if wait == 0 {
			select {
			case <-a.over:
				return errStopped
			case <-stop:
				stop = nil
				loop.Stop()
			default:
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-slot.Inbox.Wake():
		case <-timer.C:
		case <-a.over:
			return errStopped
		case <-stop:
			stop = nil
			loop.Stop()
		}
	}
}

// errStopped ends a loop whose actor was stopped before its last commit was done.
var errStopped = errors.New("thread: stopped before its last commit was done")

// errAbandoned ends a loop that has come back after it was given up.
var errAbandoned = errors.New("thread: abandoned")

// teller tells the actor what its loop does, beside the watcher of the node.
type teller struct {
	Watcher
	actor *Actor
}

// Became implements Watcher.
func (t *teller) Became(s lifecycle.ThreadStatus) {
	if !t.actor.abandoned.Load() {
		t.Watcher.Became(s)
	}
}

// Assignment implements Watcher.
func (t *teller) Assignment(member string, data []byte) (more bool, live []string) {
	if t.actor.abandoned.Load() {
		return false, nil
	}
	return t.Watcher.Assignment(member, data)
}

// Running implements Watcher.
func (t *teller) Running(id record.TaskID, at broker.Offsets) {
	if t.actor.abandoned.Load() {
		return
	}
	t.Watcher.Running(id, at)
	t.actor.root.Send(t.actor.self, taskRunning{t.actor.epoch, id})
}

// Quarantined implements QuarantineWatcher.
func (t *teller) Quarantined(id record.TaskID, q *Quarantine) {
	if w, ok := t.Watcher.(QuarantineWatcher); ok && !t.actor.abandoned.Load() {
		w.Quarantined(id, q)
	}
}

// Gone implements Watcher.
func (t *teller) Gone(id record.TaskID) {
	if t.actor.abandoned.Load() {
		return
	}
	t.Watcher.Gone(id)
	t.actor.root.Send(t.actor.self, taskGone{t.actor.epoch, id})
}
