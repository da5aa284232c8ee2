package millrace

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/assign"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/thread"
	"github.com/millrace-io/millrace/topology"
)

// tree is a running node's actors and the slots that its threads borrow.
//
// The mutex protects what follows it: thread actors and the supervisor end threads, and callers add and remove them.
type tree struct {
	node   *Node
	pid    *actor.PID
	watch  *threadWatcher
	failed chan error
	// supervisor is the strategy for the threads.
	supervisor *actors.Supervisor

	mu      sync.Mutex
	slots   []*slot
	threads map[string]*actor.PID // those that have not ended
	changed chan struct{}         // closed and replaced when one ends
	retired TransactionCounts     // of threads that were removed
	closed  bool                  // no thread may be added any more
}

// slot is a thread.Slot with the things behind its ports, which the node closes.
type slot struct {
	*thread.Slot
	group    *kafka.Group
	fetcher  *kafka.Fetcher
	producer *kafka.Producer
	states   *threadStates
	// before is the epoch of the incarnation before the slot's first; abandoned says that the loop that has the slot is
	// given up. The tree's mutex protects it.
	before    uint64
	abandoned bool
}

// startTree makes the slots and spawns the node actor, which spawns the threads.
func (n *Node) startTree() (*tree, error) {
	t := &tree{node: n, failed: make(chan error, 1), threads: map[string]*actor.PID{}, changed: make(chan struct{})}
	t.watch = &threadWatcher{node: n, failed: t.fail}
	for range n.opts.threads {
		if _, err := t.newSlot(); err != nil {
			return nil, errors.Join(err, t.close(context.Background(), false))
		}
	}
	t.supervisor = n.supervisor(t)
	gauge := &actors.Gauge{}
	n.status.board.gauge(n.status.board.node(), gauge)
	props := actor.PropsFromProducer(func() actor.Actor { return &nodeActor{tree: t} }, append(actors.Gauged(gauge, unanswered), actor.WithSupervisor(t.supervisor))...)
	pid, err := n.system.Root.SpawnNamed(props, n.app+"-"+n.system.ProcessRegistry.NextId())
	if err != nil {
		return nil, errors.Join(err, t.close(context.Background(), false))
	}
	t.pid = pid
	n.tree.Store(t)
	for _, s := range t.slots {
		s.group.Start()
	}
	return t, nil
}

// newSlot makes what a thread lives in, under the first name that is free.
func (t *tree) newSlot() (*slot, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrNotLive
	}
	i := 0
	for slices.ContainsFunc(t.slots, func(s *slot) bool { return s.Name == threadName(i) }) {
		i++
	}
	s, err := t.node.newSlot(threadName(i))
	if err != nil {
		return nil, err
	}
	t.slots = append(t.slots, s)
	t.watch.Became(lifecycle.ThreadStatus{Name: s.Name, State: lifecycle.ThreadCreated, Epoch: 1})
	return s, nil
}

// live says that the tree is not being stopped.
func (t *tree) live() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.closed
}

// all is the slots of now.
func (t *tree) all() []*slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.slots)
}

func (t *tree) names() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.slots {
		names = append(names, s.Name)
	}
	return names
}

// unanswered is for actors that nobody asks.
func unanswered(any) any { return nil }

// nodeActor is the parent of the threads and the only place that decides about their failures, by its strategy.
type nodeActor struct{ tree *tree }

// Receive implements actor.Actor.
func (a *nodeActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		for _, s := range a.tree.slots {
			a.spawn(ctx, s)
		}
	case spawnThread:
		a.spawn(ctx, m.slot)
		close(m.done)
	}
}

// spawnThread asks the node actor for one more thread.
type spawnThread struct {
	slot *slot
	done chan struct{}
}

// unique stands between a thread's name and what makes its actor's name unique.
const unique = "~"

// spawn starts a thread. Its actor's name is unique: one that was removed under the same name may still be stopping.
func (a *nodeActor) spawn(ctx actor.Context, s *slot) {
	name := s.Name
	if _, taken := ctx.ActorSystem().ProcessRegistry.Get(actor.NewPID(ctx.ActorSystem().Address(), ctx.Self().Id+"/"+name)); taken {
		name += unique + ctx.ActorSystem().ProcessRegistry.NextId()
	}
	pid, err := ctx.SpawnNamed(a.tree.threadProps(s), name)
	if err != nil {
		panic(err)
	}
	a.tree.mu.Lock()
	a.tree.threads[s.Name] = pid
	a.tree.mu.Unlock()
}

func (t *tree) threadProps(s *slot) *actor.Props {
	n := t.node
	s.states = n.states.of(s.Slot)
	states, gauge := s.states, &actors.Gauge{}
	n.status.board.gauge(n.status.board.thread(s.Name), gauge)
	return thread.Props(thread.Spec{
		Config: thread.Config{
			Slot: s.Slot, Positions: &positions{n, s.Slot}, States: states, Watcher: t.watch,
			TaskOf:  func(tp record.TopicPartition) (record.TaskID, bool) { return n.plan.Load().TaskOf(tp) },
			Sources: func(id record.TaskID) []record.TopicPartition { return n.plan.Load().Sources(id) },

			NewTask: n.newTask, Work: n.meters.work(s.Name), TaskWork: n.meters.ofTasks(), Tracer: n.tracer.ofThreads(),
			CommitInterval: n.opts.commitInterval, UncommittedBytes: 64 << 20, BufferedBytes: 12 << 20, Budget: 1000, Quarantine: n.opts.quarantine, Log: n.opts.logger, Fault: n.opts.fault,
		},
		Stores: states, Before: s.before,
		Ended: func(name string) { t.end(name) },
	}, actors.Gauged(gauge, unanswered)...)
}

// newTask builds a task on its restored state.
func (n *Node) newTask(id record.TaskID, state task.State, producer task.Producer) (*task.Task, error) {
	p := n.plan.Load()
	cfg := p.TaskConfig(id)
	cfg.State, cfg.Producer, cfg.Global, cfg.Fault = state, producer, n.globals.state, n.opts.fault
	cfg.CacheBytes = n.opts.cacheBytes / int64(max(1, len(p.Tasks())))
	n.meters.measureTask(&cfg)
	cfg.Tracer = n.tracer.ofTasks()
	return task.New(cfg)
}

func threadName(i int) string { return "thread-" + strconv.Itoa(i+1) }

// transactionalID is a thread's, or empty at least once. The process id makes it this state directory's and nobody else's.
func (n *Node) transactionalID(thread string) string {
	if !n.exactlyOnce() {
		return ""
	}
	return n.app + "-" + n.dir.ProcessID().String() + "-" + thread
}

func (n *Node) newSlot(name string) (*slot, error) {
	s := &slot{Slot: thread.NewSlot(name)}
	s.TransactionalID = n.transactionalID(name)
	s.Member = broker.Membership{Group: n.app, InstanceID: n.dir.ProcessID().String() + "-" + name}
	var err error
	s.producer, err = kafka.NewProducer(kafka.ProducerConfig{
		Config: n.kafkaConfig(name), Compression: n.opts.compression, Linger: n.opts.linger, TransactionalID: s.TransactionalID,
		TransactionTimeout: n.opts.transaction, MaxRecordBytes: n.opts.recordBytes,
	}, s.Inbox.Put)
	n.producers.Add(1)
	if err != nil {
		return nil, err
	}
	if s.fetcher, err = kafka.NewFetcher(kafka.FetcherConfig{Config: n.kafkaConfig(name), ReadCommitted: n.exactlyOnce(), MaxWait: n.opts.fetchWait, PartitionBytes: n.opts.fetchBytes}, s.Inbox.Put); err != nil {
		return nil, err
	}
	s.group, err = kafka.NewGroup(kafka.GroupConfig{
		Config: n.kafkaConfig(name), Group: n.app, InstanceID: s.Member.InstanceID, Topics: n.plan.Load().SourceTopics(),
		SessionTimeout: n.opts.session, HeartbeatInterval: n.opts.heartbeat, MetadataRefresh: n.opts.metadata, Assignor: &assignor{node: n, transactionalID: s.TransactionalID},
	}, func(e broker.Event) {
		n.tree.Load().hear(e)
		s.Inbox.Put(e)
	})
	if err != nil {
		return nil, err
	}
	s.Group, s.Fetcher, s.Producer = s.group, s.fetcher, breakable(s.producer, s.Slot, n.opts.fault)
	return s, nil
}

// end takes a thread off the list.
func (t *tree) end(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.threads, name)
	close(t.changed)
	t.changed = make(chan struct{})
}

// ended publishes the end of a thread that has no actor to do it. One that waits for its restart is shown with the epoch of
// the incarnation that is to come, so that the end of the one that has failed would be old news.
func (t *tree) ended(s lifecycle.ThreadStatus) {
	s.Epoch = max(s.Epoch, t.node.status.epochOf(s.Name))
	for _, s.State = range []lifecycle.Thread{lifecycle.ThreadPendingShutdown, lifecycle.ThreadNotRunning} {
		t.watch.Became(s)
	}
}

// endAll publishes the ends of stream threads that never got an actor, or were not given one again, before the node ended.
func (t *tree) endAll() {
	alive := t.alive()
	for _, s := range t.node.Threads() {
		if s.State < lifecycle.ThreadPendingShutdown && !isGlobal(s.Name) && !slices.Contains(alive, s.Name) {
			t.ended(lifecycle.ThreadStatus{Name: s.Name, Epoch: s.Epoch, Cause: s.Cause, Since: time.Now()})
		}
	}
}

// gaveUp is called when supervision does not restart a thread.
func (t *tree) gaveUp(name string, cause error) {
	t.end(name)
	t.fail(cause)
}

// fail ends the node; the first cause counts.
func (t *tree) fail(cause error) {
	select {
	case t.failed <- cause:
	default:
	}
}

func (t *tree) alive() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.threads))
}

func (t *tree) stop() {
	t.mu.Lock()
	t.closed = true
	pids := slices.Collect(maps.Values(t.threads))
	t.mu.Unlock()
	t.askToStop(pids...)
	for _, name := range t.names() {
		t.supervisor.End(t.childOf(name).GetId()) // also of a thread that has no actor now
	}
}

// askToStop has threads end. One that has failed and waits for its restart ends at once: there is nothing to wait for.
func (t *tree) askToStop(pids ...*actor.PID) {
	for _, pid := range pids {
		t.node.system.Root.Send(pid, &thread.Stop{})
		t.supervisor.End(pid.GetId())
	}
}

// wait waits until the named threads have ended, or all of them.
func (t *tree) wait(ctx context.Context, names ...string) error {
	for {
		t.mu.Lock()
		left, changed := len(t.threads), t.changed
		if len(names) > 0 {
			left = 0
			for _, name := range names {
				if t.threads[name] != nil {
					left++
				}
			}
		}
		t.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// close lets go of the slots and the node actor.
func (t *tree) close(ctx context.Context, leave bool) error {
	var errs []error
	if t.pid != nil {
		t.node.system.Root.Stop(t.pid)
	}
	t.mu.Lock()
	t.closed = true
	slots := slices.DeleteFunc(slices.Clone(t.slots), func(s *slot) bool { return s.abandoned })
	t.mu.Unlock()
	for _, s := range slots {
		errs = append(errs, s.close(ctx, leave))
	}
	return errors.Join(errs...)
}

func (s *slot) close(ctx context.Context, leave bool) error {
	err := errors.Join(s.group.Close(ctx, leave), s.producer.Close(ctx))
	s.fetcher.Close()
	return err
}

// threadWatcher publishes what the loops of the node's threads do.
type threadWatcher struct {
	node *Node
	// failed ends the node with a cause that no restart can help with.
	failed func(error)
}

var (
	_ thread.Watcher           = (*threadWatcher)(nil)
	_ thread.QuarantineWatcher = (*threadWatcher)(nil)
)

// Became implements thread.Watcher.
func (w *threadWatcher) Became(s lifecycle.ThreadStatus) {
	if s.Epoch < w.node.status.epochOf(s.Name) {
		return // an incarnation that was given up
	}
	w.node.router.Thread(s)
	w.node.status.thread(s)
	w.node.opts.logger.Info("thread", "name", s.Name, "state", s.State.String(), "epoch", s.Epoch, "cause", s.Cause)
}

// Running implements thread.Watcher.
func (w *threadWatcher) Running(id record.TaskID, at broker.Offsets) {
	reached := record.Position{}
	for tp, o := range at {
		w.node.applied.set(tp, o.At)
		reached[tp] = o.At
	}
	w.node.states.reached(id, reached)
	w.node.states.running(id)
	w.node.owned.set(id, true)
}

// Quarantined implements thread.QuarantineWatcher.
func (w *threadWatcher) Quarantined(id record.TaskID, q *thread.Quarantine) {
	if held := w.node.states.holder(id); held != nil {
		b := w.node.status.board
		b.quarantined(b.task(held.Name, id), newQuarantine(q))
	}
}

// Gone implements thread.Watcher: the leases of the task's stores end before anything else happens to it.
func (w *threadWatcher) Gone(id record.TaskID) {
	w.node.owned.set(id, false)
	for _, st := range w.node.plan.Load().Stores(id) {
		w.node.router.Revoked(st.Name, id.Partition, "")
	}
}

// Assignment implements thread.Watcher: the owners of all tasks become the owners of their stores' partitions.
func (w *threadWatcher) Assignment(member string, data []byte) (more bool, live []string) {
	owners, err := assign.DecodeOwners(data)
	if err != nil {
		w.node.opts.logger.Warn("the assignment cannot be read; owners of other partitions are not known", "err", err)
		return false, w.transactionalIDs(nil)
	}
	if err := w.node.grow(owners); err != nil {
		w.node.opts.logger.Error("the application cannot go on", "err", err)
		w.failed(err)
		return false, w.transactionalIDs(data)
	}
	byStore := map[string]map[int32]string{}
	for _, o := range owners {
		more = more || o.Intended == member
		for _, st := range w.node.plan.Load().Stores(o.Task) {
			if byStore[st.Name] == nil {
				byStore[st.Name] = map[int32]string{}
			}
			byStore[st.Name][o.Task.Partition] = o.Endpoint
		}
	}
	w.node.router.Owners(byStore)
	return more, w.transactionalIDs(data)
}

// transactionalIDs are those of the live members, and those of this node's own threads: one that has not joined yet uses
// its id all the same, and ends by itself what its last life has left open.
func (w *threadWatcher) transactionalIDs(data []byte) (live []string) {
	if !w.node.exactlyOnce() {
		return nil
	}
	for _, name := range w.node.tree.Load().names() {
		live = append(live, w.node.transactionalID(name))
	}
	others, err := assign.TransactionalIDs(data)
	if err != nil {
		w.node.opts.logger.Warn("the assignment does not tell who is alive", "err", err)
	}
	return append(live, others...)
}

// positions resolves where to start by each source's reset policy.
type positions struct {
	node *Node
	slot *thread.Slot
}

// ResetError is a source with reset policy Fail that has no position.
type ResetError struct {
	Source record.TopicPartition
	Node   string
}

// Error names the partition and what to do.
func (e *ResetError) Error() string {
	return "millrace: source " + strconv.Quote(e.Node) + " has no usable committed offset for " + e.Source.String() + " and its reset policy is fail: commit one, or choose earliest or latest"
}

// Resolve implements thread.Positions.
func (p *positions) Resolve(token uint64, tps []record.TopicPartition) {
	p.node.states.wg.Add(1)
	go func() {
		defer p.node.states.wg.Done()
		at, err := p.node.resolve(tps)
		if p.node.ctx.Err() == nil {
			p.slot.Inbox.Put(thread.PositionsResolved{Token: token, At: at, Err: err})
		}
	}()
}

func (n *Node) resolve(tps []record.TopicPartition) (map[record.TopicPartition]int64, error) {
	ends, err := n.admin.Ends(n.ctx, tps, n.exactlyOnce())
	if err != nil {
		return nil, err
	}
	at := map[record.TopicPartition]int64{}
	for _, tp := range tps {
		spec := n.plan.Load().SourceSpec(tp.Topic)
		switch spec.Reset {
		case topology.Earliest:
			at[tp] = ends[tp].Start
		case topology.Latest:
			late, err := n.addedLater(tp)
			if err != nil {
				return nil, err
			}
			at[tp] = ends[tp].HighWatermark
			if late {
				at[tp] = ends[tp].Start
			}
		default:
			return nil, &ResetError{tp, spec.Name}
		}
	}
	return at, nil
}

// addedLater says that the group has positions in other partitions of the topic: this one was added since, and what was
// written to it before the group noticed must not be skipped (case H5).
func (n *Node) addedLater(tp record.TopicPartition) (bool, error) {
	infos, err := n.admin.Topics(n.ctx, tp.Topic)
	if err != nil {
		return false, err
	}
	var all []record.TopicPartition
	for i := range infos[tp.Topic].Partitions {
		all = append(all, record.TopicPartition{Topic: tp.Topic, Partition: i})
	}
	offsets, err := n.admin.CommittedOffsets(n.ctx, n.app, all)
	for _, o := range offsets {
		if o.At != broker.None {
			return true, err
		}
	}
	return false, err
}
