package millrace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/internal/plan"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/page"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/query/remote"
	"github.com/millrace-io/millrace/query/router"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/topology"
)

// Node is one process's part of an application: its stream threads, its stores, and the door to their queries. Its
// methods may be called from any goroutine, callbacks of the node included.
type Node struct {
	app      string
	opts     options
	topology *topology.Topology
	system   *actor.ActorSystem
	router   *router.Router
	status   *status
	states   *states
	globals  *globals
	meters   *meters
	tracer   *tracer
	ran      atomic.Bool
	stopOnce sync.Once
	// stopping is closed when Shutdown is asked for; stopped when Run has let go of everything.
	stopping chan struct{}
	stopped  chan struct{}
	result   error

	// What follows is set by Run before the first thread starts and not changed afterwards, but for plan, which is also
	// read by callers that ask before that.
	plan      atomic.Pointer[plan.Plan]
	ctx       context.Context
	cancel    context.CancelFunc
	dir       *store.Directory
	admin     *kafka.Admin
	changelog *kafka.Changelog
	restorer  *actor.PID
	clusterID string
	topicIDs  map[string]string

	application application

	owned   owned
	applied applied
	// producers counts those that were created; tree is nil until there is one.
	producers atomic.Int64
	tree      atomic.Pointer[tree]
	// listener is the address for other processes; nil without WithRemote.
	listener *remote.Listener
}

// New checks the application id, the options and the topology, and prepares the actors that answer queries. It reaches
// no broker and starts nothing, but for the listening of WithRemote. Its error joins every *OptionError.
func New(appID string, t *topology.Topology, opts ...Option) (*Node, error) {
	o, err := chosen(appID, t, opts)
	if err != nil {
		return nil, err
	}
	n := &Node{app: appID, opts: o, topology: t.Bind(appID), system: o.system, topicIDs: map[string]string{}, application: application{heard: make(chan struct{})},
		stopping: make(chan struct{}), stopped: make(chan struct{})}
	if n.system == nil {
		n.system = actors.NewSystem(o.logger)
	}
	n.meters, n.tracer = newMeters(n), newTracer(n)
	if err := n.bind(); err != nil {
		return nil, err
	}
	n.router = router.New(n.system, appID, router.Options{Endpoint: n.opts.endpoint, Counts: n.meters.ofQuestions()})
	n.router.Declare(storeInfos(n.topology))
	n.status = newStatus(appID, n.router.Node)
	n.router.Node(lifecycle.NodeCreated)
	n.states = newStates(n)
	n.globals = newGlobals(n)
	n.ctx, n.cancel = context.WithCancel(context.Background())
	if err := errors.Join(n.meters.begin(), n.serve()); err != nil {
		n.unbind()
		return nil, err
	}
	return n, nil
}

func storeInfos(t *topology.Topology) (infos []router.StoreInfo) {
	for _, s := range t.SubTopologies {
		for _, st := range s.Stores {
			infos = append(infos, router.StoreInfo{Name: st.Name, Kind: st.Kind, KeyCodec: st.KeyCodec, ValueCodec: st.ValueCodec})
		}
	}
	for _, g := range t.Globals {
		infos = append(infos, router.StoreInfo{Name: g.Name, Kind: g.Kind, KeyCodec: g.KeyCodec, ValueCodec: g.ValueCodec, Global: true})
	}
	return infos
}

// Run joins the group and processes until ctx is cancelled, Shutdown is called, or the node fails. A cancelled ctx is a
// Shutdown with the configured time-out. It returns nil after a clean stop; ErrAbandoned (in its chain) if the time-out
// passed first; ErrAlreadyRun the second time; else the cause that ended the node.
func (n *Node) Run(ctx context.Context) error {
	if !n.ran.CompareAndSwap(false, true) {
		return ErrAlreadyRun
	}
	n.result = n.run(ctx)
	n.unbind()
	close(n.stopped)
	return n.result
}

// Ready waits until the node is RUNNING: every thread has joined, every store of its tasks is restored,
// and every global store has read its topic. It fails with
// the node's cause if the node ends first, and with the context's.
func (n *Node) Ready(ctx context.Context) error {
	err := n.status.await(ctx, func(s lifecycle.Node) bool {
		return s != lifecycle.NodeCreated && s != lifecycle.NodeRebalancing
	})
	if err != nil {
		return err
	}
	state, _, cause := n.status.snapshot()
	if state != lifecycle.NodeRunning {
		return errors.Join(fmt.Errorf("millrace: the node is %s", state), cause)
	}
	return nil
}

// Shutdown ends the node: a last commit, every store closed, and the group left unless WithLeaveGroup(false). It waits
// until that is done or ctx ends; in the latter case the node goes on stopping, and the error wraps ErrAbandoned. Called
// again, or after the end, it waits for the same result. Before Run it makes a later Run return at once.
func (n *Node) Shutdown(ctx context.Context, opts ...ShutdownOption) error {
	n.stopOnce.Do(func() {
		for _, o := range opts {
			o(&n.opts)
		}
		close(n.stopping)
	})
	if n.ran.CompareAndSwap(false, true) {
		n.status.become(lifecycle.NodePendingShutdown, nil)
		n.status.become(lifecycle.NodeNotRunning, nil)
		n.cancel()
		n.unbind()
		close(n.stopped)
		return nil
	}
	select {
	case <-n.stopped:
		return n.result
	case <-ctx.Done():
		return fmt.Errorf("%w for the node to stop: %w", ErrAbandoned, context.Cause(ctx))
	}
}

// ShutdownOption changes one thing about an end.
type ShutdownOption func(*options)

// Leave overrules WithLeaveGroup for this end.
func Leave(leave bool) ShutdownOption { return func(o *options) { o.leave = leave } }

// Within overrules WithShutdownTimeout for this end.
func Within(d time.Duration) ShutdownOption { return func(o *options) { o.stopTimeout = d } }

// State is the node's published state.
func (n *Node) State() lifecycle.Node { return n.status.state() }

// Threads are the published states of the node's threads, by number: stream threads, and one global-<store> for each global
// store.
func (n *Node) Threads() []lifecycle.ThreadStatus {
	_, threads, _ := n.status.snapshot()
	return threads
}

// ActorSystem is the system that the node's actors live in.
func (n *Node) ActorSystem() *actor.ActorSystem { return n.system }

// Ask implements query.Client.
func (n *Node) Ask(ctx context.Context, q query.Question) (*querypb.Reply, error) {
	return n.router.Ask(ctx, q)
}

// Partitions implements query.Client.
func (n *Node) Partitions(ctx context.Context, store string) (int32, error) {
	return n.router.Partitions(ctx, store)
}

// Handler serves /livez, /readyz, /startupz, /metrics (WithMeterProvider), the stores, and what an operator needs (the tree, tasks in quarantine and orders about
// them) over HTTP; see package httpapi for its answers. httpapi.Authenticate in front of it tells callers apart; without that it is
// for the node's own machine. At / it has a live page of the node for a browser; see package page.
func (n *Node) Handler() http.Handler {
	var stores []httpapi.Store
	for _, s := range n.topology.SubTopologies {
		for i := range s.Stores {
			stores = append(stores, asText(&s.Stores[i]))
		}
	}
	for i := range n.topology.Globals {
		stores = append(stores, asText(&n.topology.Globals[i].StoreSpec))
	}
	o := operator{n, &pace{}}
	return page.Handler(o, httpapi.Handler(o, stores))
}

func asText(st *topology.StoreSpec) httpapi.Store {
	return httpapi.Store{Name: st.Name, Kind: st.Kind, KeyCodec: st.KeyCodec, Ordered: st.KeyOrdered,
		WindowSize: st.WindowSize, ParseKey: st.ParseKey, FormatKey: st.FormatKey, FormatValue: st.FormatValue}
}

// Owned are the tasks that run on this node, in order.
func (n *Node) Owned() []record.TaskID { return n.owned.list() }

// OwnsAll says that every task of the application runs on this node.
func (n *Node) OwnsAll() bool {
	p := n.plan.Load()
	return p != nil && slices.Equal(p.Tasks(), n.owned.list())
}

// applied is up to where the stores of this node's tasks have taken up their sources. Offsets are committed before the
// interval reaches the stores, so who wants to read what was committed waits for this.
//
// The mutex protects the map, which the tasks' jobs write and Drain reads.
type applied struct {
	mu sync.Mutex
	at map[record.TopicPartition]int64
}

func (a *applied) set(tp record.TopicPartition, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at == nil {
		a.at = map[record.TopicPartition]int64{}
	}
	a.at[tp] = at
}

func (a *applied) get(tp record.TopicPartition) (at int64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok = a.at[tp]
	return at, ok
}

// owned is the set of tasks that run on this node.
//
// The mutex protects the set, which the threads write and callers read.
type owned struct {
	mu  sync.Mutex
	ids map[record.TaskID]bool
}

func (o *owned) set(id record.TaskID, on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil {
		o.ids = map[record.TaskID]bool{}
	}
	if on {
		o.ids[id] = true
	} else {
		delete(o.ids, id)
	}
}

func (o *owned) has(id record.TaskID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ids[id]
}

func (o *owned) list() []record.TaskID {
	o.mu.Lock()
	defer o.mu.Unlock()
	var ids []record.TaskID
	for id := range o.ids {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, record.TaskID.Compare)
	return ids
}
