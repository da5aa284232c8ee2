package millrace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
)

// run is Run's way through: prepare, start the tree, wait for a reason to end, end.
func (n *Node) run(ctx context.Context) error {
	defer n.release()
	n.status.become(lifecycle.NodeRebalancing, nil)
	starting, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-n.stopping:
			cancel()
		case <-starting.Done():
		}
	}()
	err := n.prepare(starting)
	cancel()
	if n.asked(ctx) {
		n.status.become(lifecycle.NodePendingShutdown, nil)
		n.status.become(lifecycle.NodeNotRunning, nil)
		return nil
	}
	if err != nil {
		return n.end(err)
	}
	tree, err := n.startTree()
	if err != nil {
		return n.end(err)
	}
	n.states.wg.Go(func() { n.tend(n.ctx) })
	var cause error
	select {
	case <-ctx.Done():
	case <-n.stopping:
	case cause = <-tree.failed:
	}
	return n.stopTree(tree, cause)
}

// asked says that the node was told to stop.
func (n *Node) asked(ctx context.Context) bool {
	select {
	case <-n.stopping:
		return true
	default:
		return ctx.Err() != nil
	}
}

// end is the way down after a failure.
func (n *Node) end(cause error) error {
	n.status.become(lifecycle.NodePendingError, cause)
	n.status.become(lifecycle.NodeError, cause)
	return cause
}

// stopTree ends the threads: with a last commit, and if the node has failed too, since healthy threads still have work to
// keep. A cancelled context is a shutdown with the configured time-out.
func (n *Node) stopTree(t *tree, cause error) error {
	if cause == nil {
		n.status.become(lifecycle.NodePendingShutdown, nil)
	} else {
		n.status.become(lifecycle.NodePendingError, cause)
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.opts.stopTimeout)
	defer cancel()
	t.stop()
	abandoned := t.wait(ctx)
	if abandoned != nil {
		abandoned = fmt.Errorf("%w for %v after %s: %w", ErrAbandoned, t.alive(), n.opts.stopTimeout, abandoned)
	}
	err := errors.Join(cause, t.close(ctx, n.opts.leave), abandoned)
	switch {
	case err == nil:
		n.status.become(lifecycle.NodeNotRunning, nil)
	case cause == nil:
		n.end(err)
	default:
		n.status.become(lifecycle.NodeError, nil)
	}
	return err
}

// release lets go of what prepare took.
func (n *Node) release() {
	n.cancel()
	n.states.wg.Wait()
	if n.restorer != nil {
		n.system.Root.Stop(n.restorer)
	}
	if n.changelog != nil {
		n.changelog.Close()
	}
	if n.admin != nil {
		n.admin.Close()
	}
	if n.dir != nil {
		if err := n.dir.Close(); err != nil {
			n.opts.logger.Warn("the state directory did not close cleanly", "err", err)
		}
	}
}

// supervisor is the strategy of the node actor for its threads.
func (n *Node) supervisor(t *tree) *actors.Supervisor {
	return &actors.Supervisor{
		Intensity: n.opts.restart,
		Decide: func(child string, cause error, attempt int) actors.Answer {
			if fatal(cause) || n.asked(n.ctx) {
				return actors.ShutdownNode
			}
			if n.opts.uncaught != nil {
				return n.opts.uncaught(newFailure(cause, attempt))
			}
			return actors.ReplaceThread
		},
		Publish: func(o actors.Outcome) { n.onFailure(t, o) },
	}
}

func (n *Node) onFailure(t *tree, o actors.Outcome) {
	f := newFailure(o.Cause, o.Attempt)
	status := lifecycle.ThreadStatus{Name: f.Thread, State: lifecycle.ThreadRebalancing, Epoch: f.Epoch + 1, Cause: f.Cause, Since: time.Now(), Retry: o.Retry}
	if o.GaveUp {
		status.State, status.Epoch = lifecycle.ThreadError, f.Epoch
	}
	n.opts.logger.Warn("a thread has failed", "thread", f.Thread, "epoch", f.Epoch, "attempt", f.Attempt, "retry", o.Retry, "gaveUp", o.GaveUp, "cause", f.Cause)
	t.watch.Became(status)
	if o.GaveUp {
		t.gaveUp(f.Thread, fmt.Errorf("millrace: %s has failed (attempt %d): %w", f.Thread, f.Attempt, f.Cause))
	}
}
