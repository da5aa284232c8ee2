package router

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// Options are the router's settings. Zero values mean the defaults in brackets.
type Options struct {
	// Endpoint is this node's own host:port for queries.
	Endpoint string
	// Outstanding is how many questions may wait at one gate [query.MaxOutstanding]; more are answered with Overloaded.
	Outstanding int
	// Counts count the questions to the stores that are named; the one without a name counts those to stores that do not
	// exist. Without it nothing is counted.
	Counts map[string]*Counts
	// Wait is how long a question may wait at a gate if it names no earlier deadline [query.MaxWait].
	Wait time.Duration
}

// StoreInfo is a store of the topology.
type StoreInfo struct {
	Name, Kind, KeyCodec, ValueCodec string
	// Global: every node has all of it, as its partition 0 of 1, and no other node is asked in its place.
	Global bool
}

// Router keeps what one node has published, and publishes it to the gates.
//
// The mutex protects the fields below it. Threads publish from their goroutines and rely on the publication being visible
// when the call returns, and questions are answered on their senders' goroutines: an actor in between would make both
// asynchronous.
type Router struct {
	system    *actor.ActorSystem
	directory *directory
	opts      Options
	paused    atomic.Bool
	// stuck counts the threads that are flagged, so that answers look for theirs only if there is one.
	stuck atomic.Int64

	mu         sync.RWMutex
	node       lifecycle.Node
	threads    map[string]lifecycle.ThreadStatus
	stores     map[string]StoreInfo
	partitions map[string]int32
	owners     map[string]map[int32]string
}

type address struct {
	store     string
	partition int32
}

// New returns the router of an application on a system. It takes over the gates of an earlier router of the same
// application on the same system: questions to their PIDs are answered by the new one from now on, those that wait fail
// by its state, and what the earlier one publishes is ignored.
func New(system *actor.ActorSystem, app string, opts Options) *Router {
	if opts.Outstanding <= 0 {
		opts.Outstanding = query.MaxOutstanding
	}
	if opts.Wait <= 0 {
		opts.Wait = query.MaxWait
	}
	r := &Router{system: system, opts: opts, threads: map[string]lifecycle.ThreadStatus{}, stores: map[string]StoreInfo{},
		partitions: map[string]int32{}, owners: map[string]map[int32]string{}}
	r.directory = directoryOf(system, app)
	r.directory.takeOver(r)
	return r
}

// Declare names the topology's stores.
func (r *Router) Declare(stores []StoreInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range stores {
		r.stores[s.Name] = s
		if s.Global {
			r.partitions[s.Name] = 1
		}
	}
}

// SetPartitions says how many partitions a store has.
func (r *Router) SetPartitions(store string, n int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partitions[store] = n
}

// PID is the gate of a store partition, made when it is first asked for. There is one for names and partitions that do not
// exist too: it says so. It stays when the node stops, and serves the next one.
func (r *Router) PID(store string, partition int32) *actor.PID {
	return r.directory.gate(address{store, partition}).pid
}

// NodePID answers the questions that are about the node and not one store partition: querypb's ListStores, Locate and
// ListRestores. A gate answers them too.
func (r *Router) NodePID() *actor.PID { return r.directory.pid }

// Dropped counts the questions without a sender, and the answers to askers that had stopped waiting.
func (r *Router) Dropped() int64 { return r.directory.dropped.Load() }

// Outstanding is how many questions wait for store actors, at all gates.
func (r *Router) Outstanding() (n int) {
	for _, g := range r.directory.all() {
		g.mu.Lock()
		n += len(g.outstanding)
		g.mu.Unlock()
	}
	return n
}

func (r *Router) publish(store string, partition int32, change func(*lease)) {
	r.directory.gate(address{store, partition}).publish(r, change)
}

// Node publishes the node's state. What is outstanding fails when its own lease ends; but in an end state no lease ends
// any more, so everything fails then.
func (r *Router) Node(s lifecycle.Node) {
	r.mu.Lock()
	r.node = s
	r.mu.Unlock()
	r.directory.published.Add(1)
	switch s {
	case lifecycle.NodeNotRunning, lifecycle.NodePendingError, lifecycle.NodeError:
		if r.directory.current.Load() == r {
			for _, g := range r.directory.all() {
				g.failOutstanding(r)
			}
		}
	}
}

// Thread publishes a thread's state.
func (r *Router) Thread(s lifecycle.ThreadStatus) {
	r.mu.Lock()
	r.threads[s.Name] = s
	r.countStuck()
	r.mu.Unlock()
	r.directory.published.Add(1)
}

// Stuck flags the answers of a thread's stores: it stands still, so they are as it has left them.
func (r *Router) Stuck(thread string, stuck bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.threads[thread]; ok {
		s.Stuck = stuck
		r.threads[thread] = s
		r.countStuck()
	}
}

func (r *Router) countStuck() {
	n := int64(0)
	for _, s := range r.threads {
		if s.Stuck {
			n++
		}
	}
	r.stuck.Store(n)
}

func (r *Router) isStuck(thread string) bool {
	if r.stuck.Load() == 0 {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.threads[thread].Stuck
}

// Opening publishes that a store partition is assigned to a thread's incarnation and being opened.
func (r *Router) Opening(store string, partition int32, thread string, epoch uint64) {
	r.publish(store, partition, func(l *lease) {
		*l = lease{state: query.LeaseOpening, thread: thread, epoch: l.epoch + 1}
	})
}

// Restoring publishes how far a restore is.
func (r *Router) Restoring(store string, partition int32, p lifecycle.Progress) {
	r.publish(store, partition, func(l *lease) {
		if l.state == query.LeaseOpening || l.state == query.LeaseRestoring {
			l.state, l.progress = query.LeaseRestoring, &p
		}
	})
}

// Serving publishes that questions go to pid. It counts only while the partition is being opened or restored: one that
// was revoked meanwhile stays revoked. The gate watches pid, and fails what is outstanding if it ends.
func (r *Router) Serving(store string, partition int32, pid *actor.PID, _ uint64) {
	serving := false
	r.publish(store, partition, func(l *lease) {
		if l.state == query.LeaseOpening || l.state == query.LeaseRestoring {
			l.state, l.target, l.progress, serving = query.LeaseServing, pid, nil, true
		}
	})
	if serving {
		r.watch(store, partition, pid)
	}
}

func (r *Router) watch(store string, partition int32, pid *actor.PID) {
	process, _ := r.system.ProcessRegistry.Get(pid)
	process.SendSystemMessage(pid, &actor.Watch{Watcher: r.PID(store, partition)})
}

// Revoked publishes that the lease has ended: what is outstanding fails at once. to is the new owner's endpoint, if known.
func (r *Router) Revoked(store string, partition int32, to string) {
	if to != "" {
		r.mu.Lock()
		r.setOwner(store, partition, to)
		r.mu.Unlock()
	}
	r.publish(store, partition, func(l *lease) {
		*l = lease{state: query.LeaseRevoked, thread: l.thread, epoch: l.epoch}
	})
}

// GivenUp says that the node's member has left the group with the partition: whoever gets it now, it is not asked for here.
func (r *Router) GivenUp(store string, partition int32) {
	r.publish(store, partition, func(l *lease) {
		l.state, l.target, l.progress, l.err = query.LeaseGivenUp, nil, nil, nil
	})
}

// Failed publishes that a store's engine has failed.
func (r *Router) Failed(store string, partition int32, err error) {
	r.publish(store, partition, func(l *lease) {
		l.state, l.target, l.err = query.LeaseFailed, nil, err
	})
}

func (r *Router) setOwner(store string, partition int32, endpoint string) {
	if r.owners[store] == nil {
		r.owners[store] = map[int32]string{}
	}
	r.owners[store][partition] = endpoint
}

// Owners publishes the endpoints of the partitions' owners in the group.
func (r *Router) Owners(owners map[string]map[int32]string) {
	r.mu.Lock()
	for store, partitions := range owners {
		for p, endpoint := range partitions {
			r.setOwner(store, p, endpoint)
		}
	}
	r.mu.Unlock()
	r.directory.published.Add(1)
}

// Pause publishes that the node does not process, or does again. Its stores answer all the same, and their replies say so.
func (r *Router) Pause(paused bool) { r.paused.Store(paused) }

// Standby publishes that pid follows the store's changelog for another node and is so many offsets behind. It answers
// those who allow for that. The gate watches pid as Serving does.
func (r *Router) Standby(store string, partition int32, thread string, pid *actor.PID, lag int64) {
	fresh := false
	r.publish(store, partition, func(l *lease) {
		if fresh = l.state != query.LeaseStandby || !l.target.Equal(pid); fresh {
			*l = lease{state: query.LeaseStandby, thread: thread, epoch: l.epoch + 1, target: pid}
		}
		l.lag = lag
	})
	if fresh {
		r.watch(store, partition, pid)
	}
}

// Partitions implements query.Client.
func (r *Router) Partitions(_ context.Context, store string) (int32, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, known := r.stores[store]
	if n := r.partitions[store]; known && n > 0 {
		return n, nil
	}
	kind, _ := query.Decide(query.Situation{Node: r.node, Declared: known})
	f := query.New(kind, store, query.NoPartition)
	f.NodeState = r.node.String()
	if !known { // no question follows that would be counted
		f.Detail = r.known()
		r.count(store, query.ToReply(f))
	}
	return 0, f
}

// Ask implements query.Client. Its error is always a *query.Failure.
func (r *Router) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	switch q.(type) {
	case *querypb.Range, *querypb.Open:
		query.WatchOf(ctx).Arm(&r.directory.published)
	}
	reply, gate := r.local(q)
	if reply == nil {
		var err error
		if reply, err = r.send(ctx, gate, q); err != nil {
			return nil, err
		}
	}
	if err := query.FromReply(reply); err != nil {
		return nil, err
	}
	return reply, nil
}

// local answers what needs no store actor: questions about the node, and those to store partitions of which nothing was
// ever published. There is no gate for the latter, and asking makes none: names and numbers of callers cost no memory. For
// anything else it gives the gate to ask.
func (r *Router) local(q query.Question) (*querypb.Reply, *gate) {
	if query.OfNode(q) {
		return r.catalogue(q, nil), nil
	}
	at := address{q.GetAbout().GetStore(), q.GetAbout().GetPartition()}
	if g := r.directory.existing(at); g != nil {
		return nil, g
	}
	_, _, f := r.directory.newGate(at).admit(r, q, nil)
	if g := r.directory.existing(at); g != nil { // made meanwhile, so what was said may be of a moment too early
		return nil, g
	}
	reply := query.ToReply(f)
	r.count(at.store, reply)
	return reply, nil // nothing without a gate is ever served
}

// send asks the gate and waits.
func (r *Router) send(ctx context.Context, to *gate, q query.Question) (*querypb.Reply, error) {
	store, partition := to.at.store, to.at.partition
	answer, err := actors.Ask(ctx, r.system, to.pid, q)
	if errors.Is(err, actors.ErrNoReply) {
		return nil, query.GaveUp(ctx, store, partition)
	}
	if reply, ok := answer.(*querypb.Reply); ok && err == nil {
		return reply, nil
	}
	f := query.New(query.StoreFailure, store, partition)
	f.Cause = err
	return nil, f
}
