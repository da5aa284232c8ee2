package millrace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/internal/plan"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/topology"
)

// globals are a node's global stores. Each has an actor of its own, which is a thread of the node under the name
// global-<store>: with states, epochs and supervision like a stream thread's, but in no group.
type globals struct {
	node   *Node
	stores []*globalStore
	// tree takes what supervision says; it has no slots.
	tree   *tree
	parent *actor.PID
	// stopping is closed when nobody may wait for a store any more.
	stopping chan struct{}
	once     sync.Once
}

func newGlobals(n *Node) *globals {
	g := &globals{node: n, stopping: make(chan struct{})}
	g.tree = &tree{node: n, failed: make(chan error, 1), threads: map[string]*actor.PID{}, changed: make(chan struct{})}
	g.tree.watch = &threadWatcher{node: n, failed: g.tree.fail}
	g.tree.supervisor = n.supervisor(g.tree)
	for _, spec := range n.topology.Globals {
		s := &globalStore{globals: g, spec: spec, changed: make(chan struct{}), skipped: map[string]int64{}}
		s.records = plan.GlobalRecords{Topology: n.topology, Spec: &s.spec, Failed: func(source record.TopicPartition, offset int64, cause error, stack []byte) error {
			return &GlobalRecordError{Store: s.spec.Name, Source: source, Offset: offset, Cause: cause, Stack: stack}
		}}
		g.stores = append(g.stores, s)
	}
	return g
}

const globalThread = "global-"

// isGlobal says that a thread is a global store's.
func isGlobal(thread string) bool { return strings.HasPrefix(thread, globalThread) }

// start runs the global stores, and waits until all have read their topics: a stream thread that ran before would join with
// half a table. Its error is ctx's, or the cause with which supervision has given one up.
func (g *globals) start(ctx context.Context) error {
	n := g.node
	var names []string
	for _, s := range g.stores {
		names = append(names, s.spec.Name)
	}
	if removed, err := n.dir.CleanGlobals(names...); err != nil || len(removed) > 0 {
		n.opts.logger.Info("state of global stores that the topology no longer has was removed", "stores", removed, "err", err)
	}
	if len(g.stores) == 0 {
		return nil
	}
	props := actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			g.spawn(ctx)
		}
	}, append(actors.Hardened(unanswered), actor.WithSupervisor(g.tree.supervisor))...)
	var err error
	if g.parent, err = n.system.Root.SpawnNamed(props, n.app+"-global-"+n.system.ProcessRegistry.NextId()); err != nil {
		return err
	}
	for _, s := range g.stores {
		if err := s.bootstrapped(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (g *globals) spawn(ctx actor.Context) {
	for _, s := range g.stores {
		gauge := &actors.Gauge{}
		pid, err := ctx.SpawnNamed(store.NewGlobalProps(s.storeSpec(), s.child(), actors.Gauged(gauge, unanswered)...), s.thread())
		if err != nil {
			panic(err)
		}
		g.node.status.board.gauge(g.node.status.board.thread(s.thread()), gauge)
		g.tree.mu.Lock()
		g.tree.threads[s.thread()] = pid
		g.tree.mu.Unlock()
	}
}

// abort ends the waits of processors, so that the threads can end.
func (g *globals) abort() { g.once.Do(func() { close(g.stopping) }) }

// stop ends the actors and closes their stores, when no thread reads them any more. It may be called again.
func (g *globals) stop(ctx context.Context) error {
	g.abort()
	if g.parent == nil {
		return nil
	}
	g.tree.mu.Lock()
	g.tree.closed = true
	pids := maps.Clone(g.tree.threads)
	g.tree.mu.Unlock()
	for _, pid := range pids {
		g.tree.supervisor.End(pid.GetId())
	}
	if err := actors.StopAndWait(ctx, g.node.system, g.parent); err != nil {
		return fmt.Errorf("%w for the global stores to close: %w", ErrAbandoned, err)
	}
	g.parent = nil
	return nil
}

// drain waits until the stores have what was in their topics when it was called.
func (g *globals) drain(ctx context.Context) error {
	ticker := time.NewTicker(drainEvery)
	defer ticker.Stop()
	for _, s := range g.stores {
		_, partitions, err := s.Lookup(ctx)
		if err != nil {
			return err
		}
		ends, err := s.Ends(ctx, partitions)
		if err != nil {
			return err
		}
		for !s.at(ends) {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// state is what processors read of a global store; nil if there is none of that name.
func (g *globals) state(name string) topology.GlobalState {
	for _, s := range g.stores {
		if s.spec.Name == name {
			return s
		}
	}
	return nil
}

// globalStore is one global store of a node: its topic, its watcher, and how its processors read it.
//
// The mutex protects the fields below it: the follower's goroutine publishes, tasks of all threads read.
type globalStore struct {
	globals *globals
	spec    topology.GlobalSpec
	// records decides what is taken of the topic, count is how many it was asked about.
	records plan.GlobalRecords
	count   atomic.Int64

	mu      sync.Mutex
	serving *store.TaskState
	changed chan struct{} // closed and replaced when serving changes
	skipped map[string]int64
}

var (
	_ store.GlobalTopic    = (*globalStore)(nil)
	_ store.GlobalWatcher  = (*globalStore)(nil)
	_ topology.GlobalState = (*globalStore)(nil)
)

func (s *globalStore) thread() string { return globalThread + s.spec.Name }

// storeSpec is the store as its actor wants it.
func (s *globalStore) storeSpec() store.GlobalSpec {
	n := s.globals.node
	spec := plan.GlobalSpec(&s.spec)
	spec.Counts = n.meters.counts(storePartition{s.spec.Name, globalTask})
	return store.GlobalSpec{
		Dir: n.dir, ClusterID: n.clusterID, Topic: s, Take: s.take, Refresh: n.opts.metadata, Watcher: s,
		Store: spec,
	}
}

// child are the options of the actor that answers questions.
func (s *globalStore) child() []actor.PropsOption {
	closed := query.New(query.StateStoreMigrated, s.spec.Name, 0)
	closed.Cause = query.ErrStateStoreClosed
	return actors.Hardened(func(any) any { return query.ToReply(closed) })
}

// Lookup implements store.GlobalTopic.
func (s *globalStore) Lookup(ctx context.Context) (id string, partitions int32, err error) {
	infos, err := s.globals.node.admin.Topics(ctx, s.spec.Topic)
	info := infos[s.spec.Topic]
	return info.ID, info.Partitions, err
}

// Ends implements store.GlobalTopic. Exactly once it is the last stable offset that is waited for and not the high
// watermark, as in Kafka Streams: who writes to the topic is somebody else, whose open transaction must not keep this node
// from starting.
func (s *globalStore) Ends(ctx context.Context, partitions int32) (map[record.TopicPartition]store.TopicRange, error) {
	n := s.globals.node
	var tps []record.TopicPartition
	for p := range partitions {
		tps = append(tps, record.TopicPartition{Topic: s.spec.Topic, Partition: p})
	}
	stable, err := n.admin.Ends(ctx, tps, n.exactlyOnce())
	if err != nil {
		return nil, err
	}
	whole, err := n.admin.Ends(ctx, tps, false)
	out := map[record.TopicPartition]store.TopicRange{}
	for tp, r := range whole {
		out[tp] = store.TopicRange{LogRange: store.LogRange(r), End: stable[tp].HighWatermark}
	}
	return out, err
}

// globalCredit is what all partitions of one global store may have read ahead, roughly.
const globalCredit = 16 << 20

// Open implements store.GlobalTopic.
func (s *globalStore) Open(partitions int32, deliver func(broker.Event)) (store.GlobalReader, error) {
	n := s.globals.node
	credit := max(64<<10, min(4<<20, globalCredit/int(partitions)))
	return kafka.NewFetcher(kafka.FetcherConfig{Config: n.kafkaConfig(s.thread()), ReadCommitted: n.exactlyOnce(), Credit: credit, PartitionBytes: min(1<<20, credit)}, deliver)
}

// take decides about a record, and counts what is left out.
func (s *globalStore) take(tp record.TopicPartition, r *record.Raw) (bool, error) {
	s.count.Add(1)
	reason, letter, err := s.records.Take(tp, r)
	if reason != "" {
		s.skip(reason)
	}
	if letter != nil {
		// Every node reads every record, and at each rebuild again; and a global store writes nothing.
		s.globals.node.opts.logger.Warn("a record of a global store cannot be read; it is left out, since a global store writes no dead letters",
			"store", s.spec.Name, "partition", tp, "offset", r.Offset, "err", letter)
	}
	return reason == "" && err == nil, err
}

func (s *globalStore) skip(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipped[reason]++
}

// GlobalRecordError is a record that the codecs of a global store cannot read. It is what the topology's deserialization
// handler gets for it.
type GlobalRecordError struct {
	Store  string
	Source record.TopicPartition
	Offset int64
	// Cause is a *topology.DeserializationError, or a *task.Panic of a codec; Stack is where that was.
	Cause error
	Stack []byte
}

// Error names the store and the record.
func (e *GlobalRecordError) Error() string {
	return fmt.Sprintf("millrace: global store %q: record at offset %d of %s: %v", e.Store, e.Offset, e.Source, e.Cause)
}

// Unwrap gives the cause.
func (e *GlobalRecordError) Unwrap() error { return e.Cause }

// GlobalStatus is what a node has done for one of its global stores since Run.
type GlobalStatus struct {
	Store, Topic string
	// Records were read, those that were left out included.
	Records int64
	// Skipped counts what was left out, by reason: "null key", "deserialization".
	Skipped map[string]int64
	// Position is the next offset of each partition of the topic; nil while the store is not served.
	Position record.Position
}

// GlobalStores are the node's global stores, in the order of their declaration. Their states are those of the threads
// global-<store>.
func (n *Node) GlobalStores() (all []GlobalStatus) {
	for _, s := range n.globals.stores {
		state, _ := s.now()
		out := GlobalStatus{Store: s.spec.Name, Topic: s.spec.Topic, Records: s.count.Load()}
		if state != nil {
			out.Position = maps.Clone(state.Position())
		}
		s.mu.Lock()
		out.Skipped = maps.Clone(s.skipped)
		s.mu.Unlock()
		all = append(all, out)
	}
	return all
}

// newGlobalFailure completes the failure of a global store's thread.
func newGlobalFailure(f *Failure, cause error) {
	if g := (*store.GlobalError)(nil); errors.As(cause, &g) {
		f.Thread, f.Epoch = globalThread+g.Store, g.Epoch
		if cause == error(g) {
			f.Cause = g.Cause
		}
	}
	if r := (*GlobalRecordError)(nil); errors.As(cause, &r) {
		f.Source, f.Offset = r.Source, r.Offset
	}
}
