package millrace

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
)

// StateChange is one transition of the node or of one of its threads.
type StateChange struct {
	Time time.Time
	// Thread is the thread's name; empty for the node itself.
	Thread string
	// Old and New are the states' names, as lifecycle spells them.
	Old, New string
	// Epoch is the thread's incarnation; 0 for the node.
	Epoch uint64
	// Cause is why a restart or an ERROR happened; nil otherwise.
	Cause error
	// Missed is how many changes before this one a slow reader of Watch did not get.
	Missed int
}

// status is the published state of a node: what queries, health checks and watchers see.
//
// The mutex protects all of it. Threads publish from their own goroutines and rely on the publication being visible
// before their next step; a message to an actor would become visible some time later.
type status struct {
	mu       sync.Mutex
	node     *lifecycle.Machine[lifecycle.Node]
	threads  map[string]lifecycle.ThreadStatus
	cause    error
	watchers map[*watcher]struct{}
	// changed is closed and replaced at each change.
	changed chan struct{}
	// published is called with the lock held, so that gates see changes in the order in which they happened.
	published func(lifecycle.Node)
}

func newStatus(app string, published func(lifecycle.Node)) *status {
	return &status{
		node: lifecycle.NewMachine(&lifecycle.NodeTable, app), threads: map[string]lifecycle.ThreadStatus{},
		watchers: map[*watcher]struct{}{}, changed: make(chan struct{}), published: published,
	}
}

func (s *status) state() lifecycle.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node.State()
}

// become moves the node; it reports whether the move was legal and happened.
func (s *status) become(to lifecycle.Node, cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.becomeLocked(to, cause)
}

func (s *status) becomeLocked(to lifecycle.Node, cause error) bool {
	if !s.node.Can(to) {
		return false
	}
	old := s.node.State()
	s.node.Become(to)
	if cause != nil {
		s.cause = cause
	}
	s.published(to)
	s.tell(StateChange{Time: time.Now(), Old: old.String(), New: to.String(), Cause: cause})
	return true
}

// thread records what a thread published and derives the node's state from all of them.
func (s *status) thread(t lifecycle.ThreadStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.threads[t.Name]
	s.threads[t.Name] = t
	s.tell(StateChange{Time: t.Since, Thread: t.Name, Old: old.State.String(), New: t.State.String(), Epoch: t.Epoch, Cause: t.Cause})
	s.derive()
}

// forget takes a thread out that was removed; the node is what the others make it.
func (s *status) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.threads, name)
	s.derive()
}

// derive moves a node that runs to what its threads' states make it.
func (s *status) derive() {
	if n := s.node.State(); n == lifecycle.NodeRebalancing || n == lifecycle.NodeRunning {
		states := make([]lifecycle.Thread, 0, len(s.threads))
		for _, t := range s.threads {
			states = append(states, t.State)
		}
		if want := lifecycle.DeriveNode(states); want != n && want != lifecycle.NodePendingError {
			s.becomeLocked(want, nil)
		}
	}
}

func (s *status) snapshot() (lifecycle.Node, []lifecycle.ThreadStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	threads := slices.SortedFunc(maps.Values(s.threads), func(a, b lifecycle.ThreadStatus) int {
		if len(a.Name) != len(b.Name) {
			return len(a.Name) - len(b.Name)
		}
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return s.node.State(), threads, s.cause
}

// await waits until the node's state satisfies ok.
func (s *status) await(ctx context.Context, ok func(lifecycle.Node) bool) error {
	for {
		s.mu.Lock()
		state, changed := s.node.State(), s.changed
		s.mu.Unlock()
		if ok(state) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watcher is one reader of Watch. Its channel is bounded: a reader that is too slow loses changes and is told how many.
type watcher struct {
	changes chan StateChange
	missed  int
}

const watchBuffer = 64

func (s *status) tell(c StateChange) {
	close(s.changed)
	s.changed = make(chan struct{})
	for w := range s.watchers {
		c.Missed = w.missed
		select {
		case w.changes <- c:
			w.missed = 0
		default:
			w.missed++
		}
	}
}

// watch yields changes from now on until ctx ends or the reader stops.
func (s *status) watch(ctx context.Context) iter.Seq[StateChange] {
	return func(yield func(StateChange) bool) {
		w := &watcher{changes: make(chan StateChange, watchBuffer)}
		s.mu.Lock()
		s.watchers[w] = struct{}{}
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			delete(s.watchers, w)
			s.mu.Unlock()
		}()
		for {
			select {
			case c := <-w.changes:
				if !yield(c) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}
