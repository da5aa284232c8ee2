package millrace

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query/remote"
	"github.com/millrace-io/millrace/query/router"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/thread"
)

// scrape is what the rows are read from: the node at one moment. It is gathered without a disk or a broker.
type scrape struct {
	state     lifecycle.Node
	threads   []threadFigures
	tasks     []taskFigures
	stores    []storeFigures
	globals   []GlobalStatus
	questions []questionFigures
	moves     map[entered]int64
	refusals  map[string]int64
	dropped   int64
	producers int64
}

type threadFigures struct {
	lifecycle.ThreadStatus
	thread.Totals
	restarts uint64
	failures map[string]int64
	// stream says that it is a stream thread; what follows is nothing of others.
	stream       bool
	transactions TransactionCounts
	errors       []uint64 // by broker.Class
	buffered     int64
	blocked      time.Duration
}

type taskFigures struct {
	thread.TaskTotals
	id          string
	quarantined bool
}

type storeFigures struct {
	storePartition
	gets, scans, puts, bytes, disk int64
	full                           bool
	restores                       map[string]int64
	restored, discarded, remaining int64
	restoring                      time.Duration
}

type questionFigures struct {
	*router.Counts
	store   string
	waiting int
}

func (m *meters) scrape() *scrape {
	n := m.node
	s := &scrape{state: n.State(), globals: n.GlobalStores(), moves: n.status.board.moved(), refusals: n.RemoteRefusals(),
		dropped: n.router.Dropped(), producers: n.producers.Load()}
	if s.refusals == nil {
		s.refusals = new(remote.Refusals).Counts()
	}
	restarts, quarantined, full := map[string]uint64{}, map[string]bool{}, map[string]bool{}
	for _, th := range n.Tree().Children {
		restarts[lastOf(th.Path)] = th.Restarts
		for _, a := range th.Children {
			if a.Quarantine != nil {
				quarantined[strings.TrimPrefix(lastOf(a.Path), "task-")] = true
			}
			full[lastOf(a.Path)] = full[lastOf(a.Path)] || a.DiskFull
		}
	}
	var slots []*slot
	if t := n.tree.Load(); t != nil {
		slots = t.all()
	}
	owned, restores := n.owned.list(), n.router.Restores()
	waiting := n.router.Waiting()
	for store := range m.questions {
		s.questions = append(s.questions, questionFigures{m.questions[store], store, waiting[store]})
	}
	threads := n.Threads()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, st := range threads {
		s.threads = append(s.threads, m.threadFigures(st, restarts[st.Name], slots))
	}
	for _, id := range owned {
		if w := m.tasks[id]; w != nil {
			s.tasks = append(s.tasks, taskFigures{w.Totals(), id.String(), quarantined[id.String()]})
		}
	}
	s.stores = m.storeFigures(owned, restores)
	for i := range s.stores {
		s.stores[i].full = full[s.stores[i].place()]
	}
	return s
}

// threadFigures gathers one thread. The mutex is held.
func (m *meters) threadFigures(st lifecycle.ThreadStatus, restarts uint64, slots []*slot) threadFigures {
	t := m.thread(st.Name)
	f := threadFigures{ThreadStatus: st, Totals: t.work.Totals(), restarts: restarts, failures: maps.Clone(t.failures), stream: !isGlobal(st.Name),
		transactions: t.retired, errors: slices.Clone(t.errors[:]), blocked: t.blocked}
	i := slices.IndexFunc(slots, func(s *slot) bool { return s.Name == st.Name })
	if i < 0 {
		return f
	}
	c := slots[i].producer.Counts()
	f.transactions.add(c)
	f.addErrors(c)
	f.blocked += slots[i].Blocked()
	f.buffered = slots[i].producer.Buffered()
	return f
}

func (f *threadFigures) addErrors(c kafka.Counts) {
	for i, n := range c.Errors {
		f.errors[i] += n
	}
}

// storeFigures gathers the store partitions that are here or on their way. The mutex is held.
func (m *meters) storeFigures(owned []record.TaskID, restores []router.Restore) (all []storeFigures) {
	remaining := map[storePartition]int64{}
	for _, r := range restores {
		remaining[m.node.partitionOf(r)] = r.Progress.Remaining
	}
	here := maps.Clone(remaining)
	if p := m.node.plan.Load(); p != nil {
		for _, id := range owned {
			for _, st := range p.Stores(id) {
				here[storePartition{st.Name, id.String()}] = 0
			}
		}
	}
	for _, g := range m.node.globals.stores {
		here[storePartition{g.spec.Name, globalTask}] = 0
	}
	for at := range here {
		s := m.store(at)
		all = append(all, storeFigures{storePartition: at, gets: s.counts.Gets(), scans: s.counts.Scans(), puts: s.counts.Puts(), bytes: s.counts.Bytes(), disk: s.disk,
			restores: maps.Clone(s.restores), restored: s.restored, discarded: s.discarded, restoring: s.restoring, remaining: remaining[at]})
	}
	slices.SortFunc(all, func(a, b storeFigures) int {
		return cmp.Or(cmp.Compare(a.store, b.store), cmp.Compare(a.task, b.task))
	})
	return all
}

// place is the last part of the store's path in the tree.
func (at storePartition) place() string {
	if at.task == globalTask {
		return "store-" + at.store
	}
	return "store-" + at.store + "-" + at.task
}

// partitionOf names the store partition that is being restored as its task does.
func (n *Node) partitionOf(r router.Restore) storePartition {
	if p := n.plan.Load(); p != nil {
		for _, sub := range p.Topology.SubTopologies {
			id := record.TaskID{SubTopology: sub.ID, Partition: r.Partition}
			for _, st := range sub.Stores {
				if st.Name == r.Store {
					return storePartition{r.Store, id.String()}
				}
			}
		}
	}
	return storePartition{r.Store, globalTask}
}

// entered is a state that something of a kind has moved to.
type entered struct{ kind, state string }

// moved is how often each state was entered.
func (b *board) moved() map[entered]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.moves)
}

// kindsOfStates are the states of each kind of thing that has some.
var kindsOfStates = []struct {
	kind   string
	states []string
}{
	{KindNode, lifecycle.NodeTable.Names()},
	{KindThread, lifecycle.ThreadTable.Names()},
	{KindTask, lifecycle.TaskTable.Names()},
	{KindStore, lifecycle.StoreTable.Names()},
}

// measure has every open state's disk usage noted, each by its keeper.
func (s *states) measure() {
	if s.node.meters == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keepers {
		s.submit(k, func() { s.size(k) })
	}
}

// size notes what a task's stores take on disk. It is a job of the keeper.
func (s *states) size(k *keeper) {
	if s.node.meters == nil || k.state == nil {
		return
	}
	for i, st := range s.node.plan.Load().Stores(k.id) {
		s.node.meters.sized(storePartition{st.Name, k.id.String()}, k.state, i)
	}
}

// measure notes what the global stores take on disk.
func (g *globals) measure() {
	for _, s := range g.stores {
		if state, _ := s.now(); state != nil && g.node.meters != nil {
			g.node.meters.sized(storePartition{s.spec.Name, globalTask}, state, 0)
		}
	}
}

// countIn has a task's stores count in the node's meters.
func (m *meters) countIn(spec *store.TaskSpec) {
	if m == nil {
		return
	}
	for i := range spec.Stores {
		spec.Stores[i].Counts = m.counts(storePartition{spec.Stores[i].Name, spec.ID.String()})
	}
}

// skips are the reasons for which global stores leave records out.
var skips = []string{"null key", "deserialization"}
