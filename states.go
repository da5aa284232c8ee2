package millrace

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/internal/plan"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/thread"
	"github.com/millrace-io/millrace/topology"
)

// states opens, restores, writes and closes the tasks' state for all threads of a node, off their loops. One task's jobs
// run one after the other.
//
// The mutex protects the map of keepers. A task may move from one thread of the node to another, so the map belongs to
// neither; its work is done outside the lock.
type states struct {
	node    *Node
	mu      sync.Mutex
	keepers map[record.TaskID]*keeper
	wg      sync.WaitGroup
}

func newStates(n *Node) *states { return &states{node: n, keepers: map[record.TaskID]*keeper{}} }

// keeper runs the jobs of one task, in order, on a goroutine that lives while there are any.
//
// The mutex protects the fields: jobs are added by loops and taken by the goroutine.
type keeper struct {
	id      record.TaskID
	mu      sync.Mutex
	jobs    []func()
	working bool
	// held is the slot of the thread that has the state open; an Open of another one waits until it is closed.
	held    *thread.Slot
	waiting []func()
	state   *store.TaskState
	// write is the present incarnation's right to write to state. The order of jobs keeps a predecessor's writes before
	// it; the lease is what refuses them should that order ever be broken.
	write  *store.WriteLease
	cancel context.CancelFunc
	// watched is closed when nobody tells the loop of state any more. It belongs to the jobs.
	watched <-chan struct{}
}

func (s *states) keeper(id record.TaskID) *keeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keepers[id]
	if k == nil {
		k = &keeper{id: id, cancel: func() {}}
		s.keepers[id] = k
	}
	return k
}

func (s *states) submit(k *keeper, job func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.jobs = append(k.jobs, job)
	if !k.working {
		k.working = true
		s.wg.Add(1)
		go s.work(k)
	}
}

func (s *states) work(k *keeper) {
	defer s.wg.Done()
	for {
		k.mu.Lock()
		if len(k.jobs) == 0 {
			k.working = false
			k.mu.Unlock()
			return
		}
		job := k.jobs[0]
		k.jobs = k.jobs[1:]
		k.mu.Unlock()
		job()
	}
}

// set changes the state, which jobs own and Props reads.
func (k *keeper) set(state *store.TaskState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state = state
}

// of returns the port that one thread uses.
func (s *states) of(slot *thread.Slot) *threadStates { return &threadStates{states: s, slot: slot} }

type threadStates struct {
	*states
	slot *thread.Slot
	// dead says that the slot was abandoned: what its loop still asks for is not done.
	dead atomic.Bool
}

var _ thread.States = (*threadStates)(nil)
var _ thread.StoreActors = (*threadStates)(nil)

// Open implements thread.States.
func (t *threadStates) Open(id record.TaskID, epoch uint64) {
	if t.dead.Load() {
		return
	}
	k := t.keeper(id)
	t.publish(id, func(st topology.StoreSpec) { t.node.router.Opening(st.Name, id.Partition, t.slot.Name, epoch) })
	t.submit(k, func() { t.open(k, epoch) })
}

func (t *threadStates) open(k *keeper, epoch uint64) {
	k.mu.Lock()
	if k.held != nil && k.held != t.slot {
		k.waiting = append(k.waiting, func() { t.open(k, epoch) })
		k.mu.Unlock()
		return
	}
	k.held = t.slot
	ctx, cancel := context.WithCancel(t.node.ctx)
	k.cancel = cancel
	k.mu.Unlock()
	t.moveTask(k.id, lifecycle.TaskCreated, epoch)
	t.moveStores(k.id, lifecycle.StoreOpening, epoch, t.node.status.causeOf(t.slot.Name))
	if k.state == nil {
		state, err := t.openState(k.id)
		if err != nil {
			t.publish(k.id, func(st topology.StoreSpec) { t.node.router.Failed(st.Name, k.id.Partition, err) })
			t.moveStores(k.id, lifecycle.StoreClosing, epoch, err)
			t.slot.Inbox.Put(thread.StateFailed{Task: k.id, Epoch: epoch, Err: err})
			return
		}
		k.set(state)
		k.watched = t.watch(k.id, state, epoch)
	}
	write, err := k.state.Lease(epoch)
	if err != nil {
		t.slot.Inbox.Put(thread.StateFailed{Task: k.id, Epoch: epoch, Err: err})
		return
	}
	k.mu.Lock()
	k.write = write
	k.mu.Unlock()
	t.restore(ctx, k, epoch)
}

// reached tells a restored state where its task starts: readers must not see a position that is behind what the owner
// before has answered with.
func (s *states) reached(id record.TaskID, at record.Position) {
	k := s.keeper(id)
	k.mu.Lock()
	write := k.write
	k.mu.Unlock()
	if write == nil {
		return
	}
	if err := write.Reached(at); err != nil {
		s.node.opts.logger.Warn("a store's position stays behind until the next commit", "task", id, "err", err)
	}
}

// watch ends the incarnation when the engine fails for good, whoever has met the failure: the loop may write nothing for
// hours while readers do. The next incarnation opens another directory and restores. ended is closed when that is over.
func (t *threadStates) watch(id record.TaskID, state *store.TaskState, epoch uint64) (ended <-chan struct{}) {
	t.wg.Add(1)
	done := make(chan struct{})
	go func() {
		defer t.wg.Done()
		defer close(done)
		for {
			select {
			case <-state.SpaceChanged():
				t.waits(id, epoch, state.DiskFull())
				continue
			case <-state.Failed():
				t.publish(id, func(st topology.StoreSpec) { t.node.router.Failed(st.Name, id.Partition, state.Err()) })
				t.moveStores(id, lifecycle.StoreClosing, epoch, state.Err())
				t.slot.Inbox.Put(thread.StateFailed{Task: id, Epoch: epoch, Err: state.Err()})
			case <-state.Closed():
			case <-t.node.ctx.Done():
			}
			return
		}
	}()
	return done
}

// waits has the task stand still while its state waits for space, and publishes that. Its stores answer meanwhile.
func (t *threadStates) waits(id record.TaskID, epoch uint64, full error) {
	b := t.node.status.board
	t.publish(id, func(st topology.StoreSpec) {
		var cause error
		if full != nil {
			cause = fmt.Errorf("store %q partition %d: %w", st.Name, id.Partition, full)
		}
		b.diskFull(b.store(t.slot.Name, st.Name, id), cause)
	})
	b.diskFull(b.task(t.slot.Name, id), full)
	t.slot.Inbox.Put(thread.StateWaits{Task: id, Epoch: epoch, Err: full})
}

func (t *threadStates) openState(id record.TaskID) (*store.TaskState, error) {
	spec := t.node.taskSpec(id)
	state, report, err := t.node.dir.OpenTask(spec)
	if err != nil {
		return nil, err
	}
	if report.MovedAside() {
		t.node.meters.movedAside(id, spec)
		t.node.opts.logger.Warn("local state could not be used; it was moved aside and is rebuilt from its changelogs", "task", id, "report", report)
	}
	return state, nil
}

// restore has the restore actor bring every store of the task to the end of its changelog, and waits for it.
func (t *threadStates) restore(ctx context.Context, k *keeper, epoch uint64) {
	specs := t.node.plan.Load().Stores(k.id)
	t.moveTask(k.id, lifecycle.TaskRestoring, epoch)
	t.moveStores(k.id, lifecycle.StoreRestoring, epoch, nil)
	var stores []int
	for i, st := range specs {
		if st.Changelog {
			stores = append(stores, i)
		}
	}
	if len(stores) > 0 {
		began := time.Now()
		results, err := t.node.restore(ctx, k, epoch, specs, stores)
		t.node.meters.restored(k.id, namesOf(specs, stores), results, err, ctx.Err() != nil, time.Since(began))
		if ctx.Err() != nil {
			return // closed while it was restored
		}
		if err != nil {
			t.restoreFailed(k, epoch, specs[stores[max(len(results), 1)-1]].Name, err)
			return
		}
		for i, r := range results {
			t.node.opts.logger.Debug("restored", "store", specs[stores[i]].Name, "partition", k.id.Partition, "result", r)
		}
	}
	t.size(k)
	t.slot.Inbox.Put(thread.StateReady{Task: k.id, Epoch: epoch, State: plan.State{TaskState: k.state}})
}

func namesOf(specs []topology.StoreSpec, stores []int) (names []string) {
	for _, i := range stores {
		names = append(names, specs[i].Name)
	}
	return names
}

func (t *threadStates) restoreFailed(k *keeper, epoch uint64, name string, err error) {
	t.node.router.Failed(name, k.id.Partition, err)
	t.slot.Inbox.Put(thread.StateFailed{Task: k.id, Epoch: epoch, Err: fmt.Errorf("restore store %q: %w", name, err)})
}

// restore asks the restore actor, which runs a bounded number at a time, and tells it when ctx ends.
func (n *Node) restore(ctx context.Context, k *keeper, epoch uint64, specs []topology.StoreSpec, stores []int) ([]store.RestoreResult, error) {
	type outcome struct {
		results []store.RestoreResult
		err     error
	}
	done := make(chan outcome, 1)
	n.system.Root.Send(n.restorer, &store.StartRestore{
		State: k.state, Stores: stores, Epoch: epoch,
		Progress: func(i int, p lifecycle.Progress) { n.router.Restoring(specs[i].Name, k.id.Partition, p) },
		Done:     func(results []store.RestoreResult, err error) { done <- outcome{results, err} },
	})
	select {
	case o := <-done:
		return o.results, o.err
	case <-ctx.Done():
		n.system.Root.Send(n.restorer, &store.CancelRestore{State: k.state})
		o := <-done
		return o.results, o.err
	}
}

// Replay implements thread.States.
func (t *threadStates) Replay(id record.TaskID, epoch uint64) {
	if t.dead.Load() {
		return
	}
	k := t.keeper(id)
	t.publish(id, func(st topology.StoreSpec) { t.node.router.Opening(st.Name, id.Partition, t.slot.Name, epoch) })
	t.submit(k, func() {
		if k.state == nil || !t.holds(k) {
			return
		}
		ctx, cancel := context.WithCancel(t.node.ctx)
		k.mu.Lock()
		k.cancel = cancel
		k.mu.Unlock()
		t.restore(ctx, k, epoch)
	})
}

// Apply implements thread.States.
func (t *threadStates) Apply(id record.TaskID, epoch uint64, u *task.Unit, ends map[record.TopicPartition]int64) {
	k := t.keeper(id)
	t.submit(k, func() {
		err := errors.New("millrace: the state was closed")
		if k.state != nil && t.holds(k) {
			err = k.write.Apply(t.node.plan.Load().Unit(u, ends))
		}
		for tp, at := range u.Position {
			t.node.applied.set(tp, at)
		}
		t.slot.Inbox.Put(thread.UnitApplied{Task: id, Epoch: epoch, Unit: u, Err: err})
	})
}

// Close implements thread.States.
func (t *threadStates) Close(id record.TaskID, epoch uint64) {
	if t.dead.Load() {
		return
	}
	k := t.keeper(id)
	k.mu.Lock()
	k.cancel()
	k.mu.Unlock()
	t.moveTask(id, lifecycle.TaskSuspended, epoch)
	t.moveStores(id, lifecycle.StoreClosing, epoch, nil)
	t.submit(k, func() {
		var err error
		if !t.holds(k) {
			t.slot.Inbox.Put(thread.StateClosed{Task: id, Epoch: epoch})
			return
		}
		if k.state != nil {
			err = k.state.Close()
			<-k.watched // what it says after StateClosed would be taken for the next state's
			k.set(nil)
		}
		k.mu.Lock()
		k.write = nil
		k.held = nil
		k.jobs = append(k.jobs, k.waiting...)
		k.waiting = nil
		k.mu.Unlock()
		t.closed(id, epoch, err)
		t.slot.Inbox.Put(thread.StateClosed{Task: id, Epoch: epoch, Err: err})
	})
}

// holds says that the state is still this slot's. Jobs of one that was abandoned may come after its successor has it.
func (t *threadStates) holds(k *keeper) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held == t.slot
}

// Props implements thread.StoreActors.
func (t *threadStates) Props(id record.TaskID, _ uint64) map[string]*actor.Props {
	k := t.keeper(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	props := map[string]*actor.Props{}
	if k.state == nil || k.held != t.slot {
		return props
	}
	for i, st := range t.node.plan.Load().Stores(id) {
		closed := query.New(query.StateStoreMigrated, st.Name, id.Partition)
		closed.Cause = query.ErrStateStoreClosed
		gauge := &actors.Gauge{}
		t.node.status.board.gauge(t.node.status.board.store(t.slot.Name, st.Name, id), gauge)
		props[st.Name] = store.NewActorProps(k.state, i, actors.Gauged(gauge, func(any) any { return query.ToReply(closed) })...)
	}
	return props
}

// Serving implements thread.StoreActors.
func (t *threadStates) Serving(id record.TaskID, name string, pid *actor.PID, epoch uint64) {
	t.node.router.Serving(name, id.Partition, pid, epoch)
	t.node.status.board.moveStore(t.node.status.board.store(t.slot.Name, name, id), lifecycle.StoreActive, epoch, nil)
}

// closed publishes that nothing of a task is open.
func (t *threadStates) closed(id record.TaskID, epoch uint64, err error) {
	for _, s := range []lifecycle.Task{lifecycle.TaskSuspended, lifecycle.TaskClosed} {
		t.moveTask(id, s, epoch)
	}
	for _, s := range []lifecycle.Store{lifecycle.StoreClosing, lifecycle.StoreClosed} {
		t.moveStores(id, s, epoch, err)
	}
}

func (t *threadStates) moveTask(id record.TaskID, to lifecycle.Task, epoch uint64) {
	b := t.node.status.board
	b.moveTask(b.task(t.slot.Name, id), to, epoch)
}

// moveStores publishes the next state of all stores of a task.
func (t *threadStates) moveStores(id record.TaskID, to lifecycle.Store, epoch uint64, cause error) {
	b := t.node.status.board
	t.publish(id, func(st topology.StoreSpec) { b.moveStore(b.store(t.slot.Name, st.Name, id), to, epoch, cause) })
}

// running publishes that a task processes.
func (s *states) running(id record.TaskID) {
	held := s.holder(id)
	if held == nil {
		return
	}
	b := s.node.status.board
	b.moveTask(b.task(held.Name, id), lifecycle.TaskRunning, s.node.status.epochOf(held.Name))
}

func (t *threadStates) publish(id record.TaskID, f func(topology.StoreSpec)) {
	for _, st := range t.node.plan.Load().Stores(id) {
		f(st)
	}
}

// taskSpec is what a task's directory must hold.
func (n *Node) taskSpec(id record.TaskID) store.TaskSpec {
	spec := n.plan.Load().TaskSpec(id, n.clusterID, func(changelog string) string { return n.topicIDs[changelog] })
	n.meters.countIn(&spec)
	return spec
}
