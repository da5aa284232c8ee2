package router

import (
	"context"
	"errors"
	"strconv"
	"sync"

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
	// Outstanding is how many questions may wait at one gate [10,000]; more are answered with Overloaded.
	Outstanding int
}

// StoreInfo is a store of the topology.
type StoreInfo struct{ Name, Kind, KeyCodec, ValueCodec string }

// Router keeps what was published and the gates.
//
// The mutex protects all fields but the gates' own. Threads publish from their goroutines and rely on the publication being
// visible when the call returns, and questions are answered on their senders' goroutines: an actor in between would make
// both asynchronous.
type Router struct {
	system *actor.ActorSystem
	app    string
	opts   Options

	mu         sync.RWMutex
	node       lifecycle.Node
	threads    map[string]lifecycle.ThreadStatus
	stores     map[string]StoreInfo
	partitions map[string]int32
	owners     map[string]map[int32]string
	gates      map[address]*gate
}

type address struct {
	store     string
	partition int32
}

// New returns the router of an application on a system.
func New(system *actor.ActorSystem, app string, opts Options) *Router {
	if opts.Outstanding <= 0 {
		opts.Outstanding = 10_000
	}
	return &Router{system: system, app: app, opts: opts, threads: map[string]lifecycle.ThreadStatus{}, stores: map[string]StoreInfo{},
		partitions: map[string]int32{}, owners: map[string]map[int32]string{}, gates: map[address]*gate{}}
}

// Declare names the topology's stores.
func (r *Router) Declare(stores []StoreInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range stores {
		r.stores[s.Name] = s
	}
}

// SetPartitions says how many partitions a store has.
func (r *Router) SetPartitions(store string, n int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partitions[store] = n
}

// PID is the gate of a store partition, made when it is first asked for. There is one for names and partitions that do not
// exist too: it says so.
func (r *Router) PID(store string, partition int32) *actor.PID { return r.gate(store, partition).pid }

func (r *Router) gate(store string, partition int32) *gate {
	at := address{store, partition}
	r.mu.RLock()
	g := r.gates[at]
	r.mu.RUnlock()
	if g != nil {
		return g
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := r.gates[at]; g != nil {
		return g
	}
	g = &gate{router: r, at: at, outstanding: map[*pending]struct{}{}}
	id := r.app + "/query/" + store + "/" + strconv.Itoa(int(partition))
	pid, fresh := r.system.ProcessRegistry.Add(g, id)
	if !fresh { // an earlier node of this application: its address goes on, with this node behind it
		r.system.ProcessRegistry.Remove(pid)
		pid, _ = r.system.ProcessRegistry.Add(g, id)
	}
	g.pid = pid
	r.gates[at] = g
	return g
}

// Node publishes the node's state. Once the node has begun to stop, everything outstanding fails.
func (r *Router) Node(s lifecycle.Node) {
	r.mu.Lock()
	r.node = s
	var gates []*gate
	if s != lifecycle.NodeCreated && s != lifecycle.NodeRebalancing && s != lifecycle.NodeRunning {
		for _, g := range r.gates {
			gates = append(gates, g)
		}
	}
	r.mu.Unlock()
	for _, g := range gates {
		g.failOutstanding()
	}
}

// Thread publishes a thread's state.
func (r *Router) Thread(s lifecycle.ThreadStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.threads[s.Name] = s
}

// Opening publishes that a store partition is assigned to a thread's incarnation and being opened.
func (r *Router) Opening(store string, partition int32, thread string, epoch uint64) {
	r.gate(store, partition).publish(func(l *lease) {
		*l = lease{state: query.LeaseOpening, thread: thread, epoch: l.epoch + 1}
	})
}

// Restoring publishes how far a restore is.
func (r *Router) Restoring(store string, partition int32, p lifecycle.Progress) {
	r.gate(store, partition).publish(func(l *lease) {
		if l.state == query.LeaseOpening || l.state == query.LeaseRestoring {
			l.state, l.progress = query.LeaseRestoring, &p
		}
	})
}

// Serving publishes that questions go to pid.
func (r *Router) Serving(store string, partition int32, pid *actor.PID, _ uint64) {
	r.gate(store, partition).publish(func(l *lease) {
		if l.state == query.LeaseOpening || l.state == query.LeaseRestoring {
			l.state, l.target, l.progress = query.LeaseServing, pid, nil
		}
	})
}

// Revoked publishes that the lease has ended: what is outstanding fails at once. to is the new owner's endpoint, if known.
func (r *Router) Revoked(store string, partition int32, to string) {
	if to != "" {
		r.mu.Lock()
		r.setOwner(store, partition, to)
		r.mu.Unlock()
	}
	r.gate(store, partition).publish(func(l *lease) {
		*l = lease{state: query.LeaseRevoked, thread: l.thread, epoch: l.epoch}
	})
}

// Replaying publishes that a store that was served catches up with its changelog before it answers again.
func (r *Router) Replaying(store string, partition int32) {
	r.gate(store, partition).publish(func(l *lease) {
		*l = lease{state: query.LeaseRestoring, thread: l.thread, epoch: l.epoch + 1}
	})
}

// Failed publishes that a store's engine has failed.
func (r *Router) Failed(store string, partition int32, err error) {
	r.gate(store, partition).publish(func(l *lease) {
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
	defer r.mu.Unlock()
	for store, partitions := range owners {
		for p, endpoint := range partitions {
			r.setOwner(store, p, endpoint)
		}
	}
}

// Partitions implements query.Client.
func (r *Router) Partitions(_ context.Context, store string) (int32, error) {
	r.mu.RLock()
	_, known := r.stores[store]
	n := r.partitions[store]
	node := r.node
	r.mu.RUnlock()
	if known && n > 0 {
		return n, nil
	}
	kind, _ := query.Decide(query.Situation{Node: node, Declared: known})
	f := query.New(kind, store, query.NoPartition)
	f.NodeState = node.String()
	return 0, f
}

// Ask implements query.Client. Its error is always a *query.Failure.
func (r *Router) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	about := q.GetAbout()
	store, partition := about.GetStore(), about.GetPartition()
	answer, err := actors.Ask(ctx, r.system, r.PID(store, partition), q)
	if err != nil {
		kind := query.StoreFailure
		if errors.Is(err, actors.ErrNoReply) {
			kind = query.DeadlineExceeded
		}
		f := query.New(kind, store, partition)
		f.Cause = err
		return nil, f
	}
	reply, ok := answer.(*querypb.Reply)
	if !ok {
		return nil, query.New(query.StoreFailure, store, partition)
	}
	if err := query.FromReply(reply); err != nil {
		return nil, err
	}
	return reply, nil
}
