package thread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
)

// Config is what a Loop needs. All of it but Epoch is the same for every incarnation of a slot.
type Config struct {
	Slot      *Slot
	Epoch     uint64
	Positions Positions
	States    States
	Watcher   Watcher
	// TaskOf names the task that a source partition belongs to; Sources is the reverse.
	TaskOf  func(record.TopicPartition) (record.TaskID, bool)
	Sources func(record.TaskID) []record.TopicPartition
	// NewTask builds a task on restored state.
	NewTask        func(id record.TaskID, state task.State, p task.Producer) (*task.Task, error)
	CommitInterval time.Duration
	// UncommittedBytes is the size of all overlays of the thread above which it commits early, and processes nothing
	// while the commit before that is still under way.
	UncommittedBytes int64
	// BufferedBytes is how much may wait for the producer's acknowledgements before processing pauses.
	BufferedBytes int64
	// Budget is how many records one step takes from one task before it looks at the next.
	Budget     int
	Log        *slog.Logger
	Quarantine QuarantinePolicy
	// Fault is where a test breaks the loop; nil otherwise.
	Fault fault.Hook
	// Work and TaskWork are where the loop counts what it does; nil is nowhere.
	Work     *Work
	TaskWork func(record.TaskID) *TaskWork
	// Tracer traces commits; nil traces nothing.
	Tracer Tracer
}

// Loop is one incarnation of a stream thread: poll, process, commit, as a state machine that is driven by Step. It
// starts no goroutine and reads no clock; one goroutine owns it.
type Loop struct {
	cfg     Config
	slot    *Slot
	machine *lifecycle.Machine[lifecycle.Thread]

	tasks   map[record.TaskID]*entry
	running []*entry

	// commit is the one that is under way; nil between commits.
	commit     *commit
	nextCommit time.Time
	commitNow  bool
	// stamp asks for a commit although nothing moved: tasks are new here, and their positions must name this producer, so
	// that a later owner knows whom to fence.
	stamp bool
	// rewinding says that the tasks go back to the last commit as soon as the producer, and the state, are there.
	rewinding bool
	// resolving is a commit whose outcome is being found out.
	resolving *commit
	// fences are the Producer.Fence calls that have not been answered: token to transactional id.
	fences map[uint64]string
	// peeks are answers that are not acted upon yet.
	peeks []peekAnswer
	// resets are the Positions.Resolve calls for partitions of running tasks whose position fell out of the log.
	resets map[uint64]*entry

	// alone is about records that are tried apart from everything else.
	alone isolation

	// budget is how many records a step takes from one task.
	budget int

	stopping bool
	events   []broker.Event
	now      time.Time
	cause    error
	// blocked is since when nothing may be processed; zero while something may.
	blocked time.Time
	// labels name the thread in profiles.
	labels context.Context
}

// entry is one assigned task on its way to running.
type entry struct {
	id    record.TaskID
	tps   []record.TopicPartition
	state task.State
	task  *task.Task
	// at is where its partitions start; complete when search is found.
	at     broker.Offsets
	search search
	// token is the request for committed offsets or positions that it waits for.
	token uint64
	// dead are the transactional ids that it waits for to be fenced.
	dead []string
	// serving is set once its stores answer.
	serving bool
	// waits is set while its state waits for space on the disk.
	waits bool
	// revoking is set while the group waits for the task to be given up.
	revoking bool
	// work is nil if nobody counts.
	work *TaskWork
	// labels name the thread and the task in profiles.
	labels context.Context
}

// NewLoop returns an incarnation in CREATED.
func NewLoop(cfg Config) *Loop {
	return &Loop{
		labels: pprof.WithLabels(context.Background(), pprof.Labels("thread", cfg.Slot.Name)),
		cfg:    cfg, slot: cfg.Slot, budget: cfg.Budget, machine: lifecycle.NewMachine(&lifecycle.ThreadTable, cfg.Slot.Name),
		tasks: map[record.TaskID]*entry{}, resets: map[uint64]*entry{}, fences: map[uint64]string{}, alone: isolation{orders: map[record.TaskID]Order{}},
	}
}

// Start moves to REBALANCING and takes over what the slot owns.
func (l *Loop) Start(now time.Time) {
	l.now, l.cause = now, l.slot.cause
	l.nextCommit = now.Add(l.cfg.CommitInterval)
	l.become(lifecycle.ThreadRebalancing)
	if l.slot.exactlyOnce() && l.slot.aborting == 0 {
		// A process that was killed has left a transaction open under this id. It holds up our own positions, and nothing
		// else would end it before the broker's time-out.
		l.slot.abort()
	}
	if l.slot.retake {
		l.slot.moving = true
		l.slot.Group.Rejoin("the producer was fenced")
	}
	if l.slot.joined {
		l.adopt(l.slot.assigned)
	}
	if r := l.slot.revoking; r != nil {
		l.revoke(*r)
	}
}

// State is the published state.
func (l *Loop) State() lifecycle.Thread { return l.machine.State() }

// SetBudget changes how many records a step takes from one task, at least one.
func (l *Loop) SetBudget(n int) { l.budget = max(1, n) }

// Stop asks for a clean end: a last commit, then every task closed. Step reports when it is done.
func (l *Loop) Stop() { l.stopping = true }

// ErrDone is what Step returns once a stopped loop has nothing open.
var ErrDone = errors.New("thread: stopped")

// Step takes in what has arrived, processes a bounded amount, and moves the commit on. It returns when it wants to be
// called again even if nothing arrives: now, if there is work left.
//
// Its error ends the incarnation: ErrDone after Stop, else the bare cause (a *task.ProcessError, a *broker.Error, an error
// of a store). Nothing may be called after it but Abandon.
func (l *Loop) Step(now time.Time) (next time.Time, err error) {
	l.now = now
	l.countBlocked()
	if err := l.fault(fault.ThreadPoll); err != nil {
		return now, err
	}
	l.events = l.slot.poll(l.events[:0])
	for i, e := range l.events {
		l.events[i] = nil // looked at, whatever comes of it
		if err := l.handle(e); err != nil {
			return now, err
		}
	}
	l.fenceTheDead()
	if err := l.maybeRewind(); err != nil {
		return now, err
	}
	if l.stopping {
		if done, err := l.stop(); err != nil || done {
			return now, errors.Join(err, doneIf(done && err == nil))
		}
	}
	if err := l.isolate(); err != nil {
		return now, err
	}
	busy, err := l.process()
	if err != nil {
		return now, err
	}
	if err := l.maybeCommit(); err != nil {
		return now, err
	}
	l.settle()
	if busy {
		return now, nil
	}
	return l.deadline(), nil
}

func (l *Loop) fault(p fault.Point) error {
	return l.cfg.Fault.At(fault.Site{Point: p, Thread: l.slot.Name})
}

func doneIf(done bool) error {
	if done {
		return ErrDone
	}
	return nil
}

// Abandon gives up everything after a failed Step, without a commit: what was not committed is processed again by the
// next incarnation. Stores are flushed as they close, so it has little to restore.
func (l *Loop) Abandon() {
	l.slot.leave(l.events)
	l.events = nil
	if l.commit != nil {
		l.commit.traced(cmp.Or(l.cause, errAbandoned))
	}
	for _, e := range l.everyTask() {
		l.giveUp(e)
	}
	l.slot.abort()
}

// Fail publishes that the incarnation has ended and abandons it. A thread that was going to run on is REBALANCING from
// here until its supervisor has restarted it or has given up; one that was stopping is ERROR.
func (l *Loop) Fail(now time.Time, cause error) {
	l.now, l.cause, l.slot.cause = now, cause, cause
	l.remember(cause)
	if l.machine.State() == lifecycle.ThreadPendingShutdown {
		l.become(lifecycle.ThreadError)
	} else {
		l.become(lifecycle.ThreadRebalancing)
	}
	l.Abandon()
}

func (l *Loop) become(s lifecycle.Thread) {
	if s == l.machine.State() && s != lifecycle.ThreadRebalancing {
		return
	}
	l.machine.Become(s)
	l.cfg.Watcher.Became(lifecycle.ThreadStatus{Name: l.slot.Name, State: s, Epoch: l.cfg.Epoch, Cause: l.cause, Since: l.now})
}

// handle takes in one event.
func (l *Loop) handle(e broker.Event) error {
	switch e := e.(type) {
	case broker.Fetched:
		l.onFetched(e)
	case broker.Flushed:
		return l.onFlushed(e)
	case broker.OffsetsCommitted:
		return l.onOffsetsCommitted(e)
	case broker.TransactionEnded:
		return l.onTransactionEnded(e)
	case broker.TransactionAborted:
		return l.onAborted(e)
	case broker.Fenced:
		return l.onFenced(e)
	case UnitApplied:
		return l.onApplied(e)
	case broker.Assigned:
		l.onAssigned(e)
	case broker.Revoking:
		l.slot.revoking = &e
		l.revoke(e)
	case broker.Lost:
		l.onLost(e)
	case broker.OffsetsFetched:
		return l.onOffsets(e)
	case PositionsResolved:
		return l.onPositions(e)
	case StateReady:
		return l.onStateReady(e)
	case StateFailed:
		return l.onStateFailed(e)
	case StateClosed:
		l.onStateClosed(e)
	case StoresServing:
		if t := l.ofState(e.Task, e.Epoch); t != nil {
			t.serving = true
		}
	case StateWaits:
		if t := l.ofState(e.Task, e.Epoch); t != nil {
			t.waits = e.Err != nil
		}
	case Order:
		l.onOrder(e)
	case broker.FetchFailed:
		return l.onFetchFailed(e)
	case broker.GroupFailed:
		return e.Err
	case broker.ConnectionChanged:
		l.cfg.Log.Info("connection", "thread", l.slot.Name, "role", e.Role, "up", e.Up, "err", e.Err)
	case broker.Rejoining:
		l.slot.rejoining = true
		l.cfg.Log.Debug("rejoining", "thread", l.slot.Name, "reason", e.Reason)
	default:
		return fmt.Errorf("thread: unknown event %T", e)
	}
	return nil
}

// settle moves between REBALANCING and RUNNING as the tasks do.
func (l *Loop) settle() {
	if l.stopping || !l.slot.joined {
		return
	}
	settled := l.slot.revoking == nil && !l.slot.moving && len(l.running) == len(l.tasks)
	for _, e := range l.running {
		settled = settled && e.serving
	}
	switch {
	case settled && l.machine.State() == lifecycle.ThreadRebalancing:
		l.become(lifecycle.ThreadRunning)
	case !settled && l.machine.State() == lifecycle.ThreadRunning:
		l.become(lifecycle.ThreadRebalancing)
	}
}

// deadline is when Step has something to do even if no event arrives.
func (l *Loop) deadline() time.Time {
	next := l.slot.Producer.Tick(l.now)
	if next.IsZero() || next.After(l.now.Add(time.Second)) {
		next = l.now.Add(time.Second)
	}
	if !l.busy() && l.nextCommit.Before(next) && l.needsCommit() {
		next = l.nextCommit
	}
	if len(l.slot.quarantine) > 0 {
		if at := l.nextTry(); !at.IsZero() && at.Before(next) && !l.busy() {
			next = maxTime(at, l.now)
		}
	}
	for _, e := range l.running {
		if e.waits {
			continue
		}
		if ready, at := e.task.Ready(l.now); !ready && !at.IsZero() && at.Before(next) {
			next = at
		}
		if at, ok := e.task.NextWallClock(); ok && at.Before(next) {
			next = at
		}
	}
	if l.full() && l.slot.Producer.Buffered() > l.cfg.BufferedBytes {
		next = l.now.Add(time.Millisecond)
	}
	return next
}
