package millrace

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	if err == nil {
		err = n.globals.start(starting)
	}
	cancel()
	if n.asked(ctx) {
		n.status.become(lifecycle.NodePendingShutdown, nil)
		n.stopGlobals()
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
	n.states.wg.Go(func() { n.watchThreads(n.ctx, tree) })
	var cause error
	select {
	case <-ctx.Done():
	case <-n.stopping:
	case cause = <-tree.failed:
	case cause = <-n.globals.tree.failed:
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
	n.globals.abort()
	n.awaitSpread(ctx)
	abandoned := t.wait(ctx)
	if abandoned != nil {
		abandoned = fmt.Errorf("%w for %v after %s: %w", ErrAbandoned, t.alive(), n.opts.stopTimeout, abandoned)
	}
	err := errors.Join(cause, t.close(ctx, n.opts.leave || n.application.request.Load() != nil), n.globals.stop(ctx), abandoned)
	t.endAll()
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
	n.stopGlobals()
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

// stopGlobals ends the global stores of a node whose threads have not started, or are gone.
func (n *Node) stopGlobals() {
	ctx, cancel := context.WithTimeout(context.Background(), n.opts.stopTimeout)
	defer cancel()
	if err := n.globals.stop(ctx); err != nil {
		n.opts.logger.Warn("the global stores did not close in time", "err", err)
	}
}

// supervisor is the strategy of the node actor for its threads.
func (n *Node) supervisor(t *tree) *actors.Supervisor {
	return &actors.Supervisor{
		Key: func(child string) string {
			name, _, _ := strings.Cut(child, unique)
			return name
		},
		Intensity: n.opts.restart,
		Decide: func(child string, cause error, attempt int) actors.Answer {
			if fatal(cause) || n.asked(n.ctx) {
				return ShutdownNode
			}
			if n.opts.uncaught != nil {
				return n.opts.uncaught(newFailure(cause, attempt))
			}
			return ReplaceThread
		},
		Publish: func(o actors.Outcome) { n.onFailure(t, o) },
	}
}

// onFailure publishes what becomes of a thread that has failed, before that happens.
func (n *Node) onFailure(t *tree, o actors.Outcome) {
	f := newFailure(o.Cause, o.Attempt)
	n.meters.failed(f)
	told := []any{"thread", f.Thread, "epoch", f.Epoch, "attempt", f.Attempt, "answer", o.Answer, "gaveUp", o.GaveUp, "ended", o.Ended, "cause", f.Cause}
	if !o.Retry.IsZero() { // it does not start again
		told = append(told, "retry", o.Retry)
	}
	n.opts.logger.Warn("a thread has failed", told...)
	status := lifecycle.ThreadStatus{Name: f.Thread, Epoch: f.Epoch, Cause: f.Cause, Since: time.Now()}
	switch {
	case o.Ended && !o.GaveUp:
		// It holds nothing any more: what it had not committed was given up when it failed, and is processed again.
		t.ended(status)
		t.end(f.Thread)
	case o.Ended && t.live(): // it was being removed; who takes its tasks over does again what it could not commit
		t.end(f.Thread)
	case o.GaveUp:
		status.State = lifecycle.ThreadError
		t.watch.Became(status)
		t.gaveUp(f.Thread, n.gaveUp(t, o, f))
	default:
		status.State, status.Epoch, status.Retry = lifecycle.ThreadRebalancing, f.Epoch+1, o.Retry
		t.watch.Became(status)
	}
}

// gaveUp is the cause with which the node ends.
func (n *Node) gaveUp(t *tree, o actors.Outcome, f Failure) error {
	err := fmt.Errorf("millrace: %s has failed (attempt %d): %w", f.Thread, f.Attempt, f.Cause)
	if o.Answer == ShutdownApplication {
		return n.askApplication(t, Failure{Thread: f.Thread, Cause: err})
	}
	return err
}
