package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/internal/plan"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query/router"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/thread"
)

// process is one life of a node: a slot with a real loop, a member, a producer and stores.
type process struct {
	world *world
	node  *node
	name  string
	dead  bool

	slot       *thread.Slot
	loop       *thread.Loop
	epoch      uint64
	membership *membership
	producer   *producer
	fetcher    *fetcher
	states     *states
	dir        *store.Directory
	tasks      *plan.Plan
	router     *router.Router
	status     *lifecycle.Machine[lifecycle.Node]
	thread     lifecycle.ThreadStatus
	serving    map[record.TaskID][]*desk

	links map[link]time.Duration
	// servers are where this process believes that leaders and coordinators are.
	servers map[any]*server
	// stepAt is when the loop turns next; 0 if nothing is planned.
	stepAt time.Duration
	fails  int
}

const (
	threadName     = "thread-1"
	commitInterval = 100 * time.Millisecond
)

// system is the actor system of all gates and store actors. What runs in it runs on the caller's goroutine.
var system = newSystem()

// runs numbers processes over all seeds of this operating system's process: gates are for ever.
var runs int

func newProcess(n *node) *process {
	runs++
	n.world.lives++
	p := &process{world: n.world, node: n, name: n.name, links: map[link]time.Duration{}, servers: map[any]*server{}, serving: map[record.TaskID][]*desk{}}
	p.dir = n.disk.open(p)
	partitions := int32(n.world.plan.Partitions)
	p.tasks = plan.New(appID, build(n), map[string]int32{inputTopic: partitions, wordsTopic: partitions})
	p.slot = thread.NewSlot(threadName)
	if p.world.plan.ExactlyOnce {
		p.slot.TransactionalID = appID + "-" + n.processID + "-" + threadName
	}
	p.slot.Member = broker.Membership{Group: appID, InstanceID: p.instance()}
	p.membership, p.producer, p.fetcher, p.states = newMembership(p), newProducer(p), newFetcher(p), newStates(p)
	p.slot.Group, p.slot.Producer, p.slot.Fetcher = p.membership, p.producer, p.fetcher
	p.router = router.New(system, fmt.Sprintf("%s-%d", n.name, runs), router.Options{Endpoint: n.name, Wait: time.Hour, Outstanding: waitingMax})
	p.router.Declare([]router.StoreInfo{{Name: countsStore, Kind: counts.StoreKind(), KeyCodec: counts.KeyCodec().Name(), ValueCodec: counts.ValueCodec().Name()}})
	p.router.SetPartitions(countsStore, int32(n.world.plan.Partitions))
	p.status = lifecycle.NewMachine(&lifecycle.NodeTable, n.name)
	p.router.Node(p.status.State())
	return p
}

func (p *process) instance() string  { return p.node.processID + "-" + threadName }
func (p *process) exactlyOnce() bool { return p.world.plan.ExactlyOnce }

// clock is this machine's.
func (p *process) clock() time.Time { return epochStart.Add(p.world.now + p.node.skew) }

// wallClock is what the stores read: it also jumps back.
func (p *process) wallClock() time.Time { return p.clock().Add(p.node.wall) }

func (p *process) start() {
	p.world.say("%s starts", p.name)
	p.become(lifecycle.NodeRebalancing)
	p.producer.turn(p.producer.machine.Tick)
	p.begin()
	p.membership.start()
}

func (p *process) become(s lifecycle.Node) {
	if p.status.State() != s {
		p.status.Become(s)
		p.router.Node(s)
	}
}

// begin starts the next incarnation of the thread.
func (p *process) begin() {
	p.epoch++
	if p.epoch > 1 {
		p.world.tally.Restarts++
	}
	p.world.say("%s: incarnation %d", p.name, p.epoch)
	p.loop = thread.NewLoop(thread.Config{
		Slot: p.slot, Epoch: p.epoch, Positions: (*positions)(p), States: p.states, Watcher: (*watcher)(p), TaskOf: p.tasks.TaskOf, Sources: p.tasks.Sources,
		NewTask: p.newTask, CommitInterval: commitInterval, UncommittedBytes: 1 << 20, BufferedBytes: 1 << 20, Budget: 25, Log: quiet,
		Quarantine: thread.QuarantinePolicy{First: 100 * time.Millisecond, Cap: 10 * time.Second},
	})
	p.loop.Start(p.clock())
	p.wake(0)
}

var quiet = slog.New(slog.DiscardHandler)

func (p *process) newTask(id record.TaskID, state task.State, out task.Producer) (*task.Task, error) {
	cfg := p.tasks.TaskConfig(id)
	cfg.State, cfg.Producer, cfg.CacheBytes = state, out, 1<<20
	return task.New(cfg)
}

// deliver lets something happen in the process: at once, when it is awake again, or never.
func (p *process) deliver(do func()) {
	switch {
	case p.dead:
	case p.node.asleep > p.world.now:
		p.node.slept = append(p.node.slept, func() { p.deliver(do) })
	default:
		do()
	}
}

// put delivers an event to the loop.
func (p *process) put(e broker.Event) {
	if p.dead {
		return
	}
	if p.world.transcript != nil {
		p.world.say("%s <- %s", p.name, described(e))
	}
	p.slot.Inbox.Put(e)
	p.wake(p.world.between(20*time.Microsecond, 300*time.Microsecond))
}

// wake has the loop turn after a while, if it would not do so sooner.
func (p *process) wake(after time.Duration) {
	at := p.world.now + after
	if p.stepAt > p.world.now && p.stepAt <= at {
		return
	}
	p.stepAt = at
	p.world.queue.put(at, func() {
		p.deliver(func() {
			if p.loop != nil && p.stepAt <= p.world.now {
				p.stepAt = 0
				p.step()
			}
		})
	})
}

func (p *process) step() {
	p.world.tally.Steps++
	now := p.clock()
	next, err := p.loop.Step(now)
	switch {
	case p.dead:
	case err == nil:
		p.wake(max(next.Sub(now), 50*time.Microsecond))
	case errors.Is(err, thread.ErrDone):
		p.loop = nil
		p.become(lifecycle.NodeNotRunning)
		p.membership.leave()
		p.world.after(20*time.Millisecond, func() { p.deliver(p.node.ended) })
	default:
		p.fail(err)
	}
}

// fail is what supervision does: the incarnation ends, and the next one begins after a back-off.
func (p *process) fail(err error) {
	p.world.say("%s: the incarnation fails: %v", p.name, plain(err))
	if !p.explained(err) {
		p.world.fail("%s: the thread fails for no reason that was given: %v", p.name, err)
	}
	p.loop.Fail(p.clock(), err)
	p.loop = nil
	if s := p.thread.State; s != lifecycle.ThreadRebalancing && s != lifecycle.ThreadError {
		p.world.fail("%s: the incarnation has failed, and is published as %s", p.name, s)
	}
	if p.dead {
		return
	}
	p.fails++
	if p.node.leaving { // one that fails on its way down is ERROR, and the node ends as it is
		p.become(lifecycle.NodePendingError)
		p.become(lifecycle.NodeError)
		p.membership.leave()
		p.world.after(20*time.Millisecond, func() { p.deliver(p.node.ended) })
		return
	}
	p.world.after(p.world.between(20*time.Millisecond, time.Second), func() { p.deliver(p.begin) })
}

// explained says that a fault is behind an error.
func (p *process) explained(err error) bool {
	var engine *store.EngineError
	var dir *store.DirectoryError
	return errors.Is(err, errUser) || p.world.tally.disk() > 0 && (errors.As(err, &engine) || errors.As(err, &dir))
}

// plain is an error's text without what differs from run to run.
func plain(err error) string {
	if errors.Is(err, errUser) {
		return errUser.Error()
	}
	var engine *store.EngineError
	if errors.As(err, &engine) {
		return "the engine of a state"
	}
	return err.Error()
}

func (p *process) stop() {
	p.become(lifecycle.NodePendingShutdown)
	p.deliver(func() {
		if p.loop != nil {
			p.loop.Stop()
			p.wake(0)
			return
		}
		p.world.after(time.Second, p.stopAgain)
	})
}

// stopAgain is for a stop that came between two incarnations.
func (p *process) stopAgain() {
	if p.loop == nil && !p.dead {
		p.world.after(100*time.Millisecond, p.stopAgain)
		return
	}
	p.deliver(func() {
		p.loop.Stop()
		p.wake(0)
	})
}

// bury lets go of what a dead process has open: its goroutines end, and nothing of it reaches the disk that counts.
func (p *process) bury() {
	p.dead = true
	for id := range p.serving {
		p.retire(id)
	}
	for i := range int32(p.world.plan.Partitions) {
		p.router.Revoked(countsStore, i, "")
	}
	p.states.bury()
	if err := p.dir.Close(); err != nil && p.world.transcript != nil {
		p.world.say("%s: the old directory does not close", p.name)
	}
	for _, c := range p.world.clients {
		c.gone(p)
	}
}

// backoff is the pause before an attempt.
func (p *process) backoff(attempt int) time.Duration {
	ceiling := min(10*time.Millisecond<<min(attempt, 10), time.Second)
	return ceiling/2 + p.world.between(0, ceiling/2)
}

// where is the server that something is believed to be on.
func (p *process) where(of any, really *server) *server {
	if s := p.servers[of]; s != nil {
		return s
	}
	p.servers[of] = really
	return really
}

func (p *process) forget(of any) { delete(p.servers, of) }

// positions are the earliest offsets.
type positions process

// Resolve implements thread.Positions.
func (r *positions) Resolve(token uint64, tps []record.TopicPartition) {
	p := (*process)(r)
	at := map[record.TopicPartition]int64{}
	for _, tp := range tps {
		at[tp] = 0
	}
	p.world.after(p.world.between(networkLow, 2*networkHigh), func() {
		p.deliver(func() { p.put(thread.PositionsResolved{Token: token, At: at}) })
	})
}

func newSystem() *actor.ActorSystem {
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
}
