package millrace

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/millrace-io/millrace/lifecycle"
)

// status is the published state of a node: what queries, health checks and watchers see.
//
// The mutex protects all of it. Threads publish from their own goroutines and rely on the publication being visible
// before their next step; a message to an actor would become visible some time later.
type status struct {
	mu      sync.Mutex
	node    *lifecycle.Machine[lifecycle.Node]
	threads map[string]lifecycle.ThreadStatus
	cause   error
	// started says that the node has been RUNNING once.
	started bool
	board   *board
	// changed is closed and replaced at each change.
	changed chan struct{}
	// published is called with the lock held, so that gates see changes in the order in which they happened.
	published func(lifecycle.Node)
}

func newStatus(app string, published func(lifecycle.Node)) *status {
	s := &status{
		node: lifecycle.NewMachine(&lifecycle.NodeTable, app), threads: map[string]lifecycle.ThreadStatus{},
		board: newBoard(app), changed: make(chan struct{}), published: published,
	}
	s.board.set(s.board.node(), change{kind: KindNode, state: s.node.State().String()})
	s.board.set(s.board.node()+"/query", change{kind: KindQuery})
	return s
}

func (s *status) isStuck(thread string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.threads[thread].Stuck
}

// setStuck changes a thread's flag and nothing else of it.
func (s *status) setStuck(thread string, stuck bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.threads[thread]; ok {
		t.Stuck = stuck
		s.publish(t)
	}
}

// epochOf is a thread's incarnation.
func (s *status) epochOf(thread string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.threads[thread].Epoch
}

// causeOf is why a thread's last incarnation ended.
func (s *status) causeOf(thread string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.threads[thread].Cause
}

func (s *status) state() lifecycle.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node.State()
}

// hasStarted says that the node has been RUNNING once.
func (s *status) hasStarted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
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
	s.node.Become(to)
	s.started = s.started || to == lifecycle.NodeRunning
	if cause != nil {
		s.cause = cause
	}
	s.published(to)
	s.board.set(s.board.node(), change{kind: KindNode, state: to.String(), cause: s.cause})
	s.tell()
	return true
}

// thread records what a thread published and derives the node's state from all of them.
func (s *status) thread(t lifecycle.ThreadStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish(t)
	s.derive()
}

func (s *status) publish(t lifecycle.ThreadStatus) {
	s.threads[t.Name] = t
	s.board.set(s.board.thread(t.Name), change{kind: KindThread, state: t.State.String(), at: t.Since, epoch: t.Epoch, cause: t.Cause, retry: t.Retry, stuck: t.Stuck})
	s.tell()
}

// forget takes a thread out that was removed; the node is what the others make it.
func (s *status) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.threads, name)
	s.board.forget(s.board.thread(name))
	s.derive()
}

// derive moves a node that runs to what its threads' states make it.
func (s *status) derive() {
	if n := s.node.State(); n == lifecycle.NodeRebalancing || n == lifecycle.NodeRunning {
		states := make([]lifecycle.Thread, 0, len(s.threads))
		want := lifecycle.NodeRebalancing // of global stores alone: nothing is processed yet, or not any more
		for _, t := range s.threads {
			states = append(states, t.State)
			if !isGlobal(t.Name) {
				want = lifecycle.NodeRunning
			}
		}
		if want == lifecycle.NodeRunning {
			want = lifecycle.DeriveNode(states)
		}
		if want != n && want != lifecycle.NodePendingError {
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

// tell wakes those who wait for a change.
func (s *status) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}
