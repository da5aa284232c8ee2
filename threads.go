package millrace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/lifecycle"
)

// ErrNotLive is AddThread and RemoveThread on a node that is not REBALANCING or RUNNING.
var ErrNotLive = errors.New("millrace: the node does not run")

// UnknownThreadError is RemoveThread of a thread that the node does not have.
type UnknownThreadError struct {
	Thread string
	// Threads are those that it has.
	Threads []string
}

// Error names both.
func (e *UnknownThreadError) Error() string {
	return fmt.Sprintf("millrace: there is no thread %q: the node has %v", e.Thread, e.Threads)
}

// AddThread starts one more stream thread and returns its name. It joins the group by itself; Ready waits until it has its
// share. Errors: ErrNotLive, or that the producer or the group member cannot be made.
func (n *Node) AddThread() (name string, err error) {
	t := n.live()
	if t == nil {
		return "", ErrNotLive
	}
	s, err := t.newSlot()
	if err != nil {
		return "", err
	}
	spawned := spawnThread{s, make(chan struct{})}
	n.system.Root.Send(t.pid, spawned)
	select {
	case <-spawned.done:
	case <-n.stopped:
		return "", ErrNotLive
	}
	s.group.Start()
	return s.Name, nil
}

// RemoveThread ends a stream thread: a last commit, its stores closed, its member out of the group, so that the other
// threads and nodes take its tasks over. It returns when that is done or ctx ends; in the latter case the thread goes on
// ending, and the error wraps ErrAbandoned. A thread that waits for its restart ends at once; one whose last commit fails
// ends too, and who takes its tasks over does that interval again. A node without threads is REBALANCING until it gets one.
//
// Errors besides: ErrNotLive, *UnknownThreadError.
func (n *Node) RemoveThread(ctx context.Context, name string) error {
	t := n.live()
	if t == nil {
		return ErrNotLive
	}
	if !slices.Contains(t.names(), name) {
		return &UnknownThreadError{name, t.names()}
	}
	t.mu.Lock()
	pid := t.threads[name]
	t.mu.Unlock()
	if pid == nil { // it was given up, and waits for its replacement
		pid = t.childOf(name)
		t.supervisor.End(pid.GetId())
	} else {
		t.askToStop(pid)
	}
	if err := t.wait(ctx, name); err != nil {
		return fmt.Errorf("%w for %s to end: %w", ErrAbandoned, name, err)
	}
	s, open := t.retire(name)
	if s == nil { // somebody else has removed it, or the node has ended
		return nil
	}
	t.supervisor.Forget(pid.GetId())
	n.status.forget(name)
	if !open {
		return nil
	}
	return s.close(ctx, true)
}

// live is the tree of a node that runs.
func (n *Node) live() *tree {
	if s := n.State(); s != lifecycle.NodeRebalancing && s != lifecycle.NodeRunning {
		return nil
	}
	if t := n.tree.Load(); t != nil && t.pid != nil {
		return t
	}
	return nil
}

// retire takes a slot out and keeps what its producer has counted; open says that it is to be closed yet.
func (t *tree) retire(name string) (s *slot, open bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.slots, func(s *slot) bool { return s.Name == name })
	if i < 0 || t.closed {
		return nil, false
	}
	s = t.slots[i]
	t.slots = slices.Delete(slices.Clone(t.slots), i, i+1)
	t.keep(s)
	return s, !s.abandoned
}
