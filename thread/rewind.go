package thread

import (
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
)

// commitFailed decides what a commit that did not succeed means for the thread.
func (l *Loop) commitFailed(err *broker.Error) error {
	l.cfg.Work.commitFailed(err.Class)
	// A group that has gone on to another generation refuses the one before it also from members that it kept. Which this
	// is, the answer to the pending join says.
	rebalanced := err.Code == broker.CodeIllegalGeneration && (l.commit.generation != l.slot.Member.Generation || l.slot.rejoining)
	if rebalanced {
		l.cfg.Log.Info("a commit met a rebalance and is done again", "thread", l.slot.Name, "err", err)
	} else {
		l.cfg.Log.Warn("commit failed", "thread", l.slot.Name, "err", err)
	}
	switch err.Class {
	case broker.CommitUnknown:
		if l.slot.exactlyOnce() {
			l.resolving = l.commit
		}
		l.abort(err)
	case broker.Abort, broker.Retry:
		l.abort(err)
	case broker.Migrated:
		l.abort(err)
		if l.slot.exactlyOnce() && !rebalanced {
			l.migrate()
		}
	default:
		return err
	}
	return nil
}

// migrate drops every task: the group has thrown this member out, or its producer was fenced. Somebody else may own them
// already. The member is told to join again, which brings either a Lost or an assignment.
func (l *Loop) migrate() {
	if l.machine.State() == lifecycle.ThreadRunning {
		l.become(lifecycle.ThreadRebalancing)
	}
	for _, e := range l.everyTask() {
		l.giveUp(e)
	}
	l.slot.moving = true
	l.slot.Group.Rejoin("a commit was refused")
}

// abort takes back everything since the last commit. At least once, outputs and changelog records that are out stay out,
// and each task replays its changelog's tail before it goes on: state that is ahead of its input is what a crash would
// have left as well. Exactly once, none of them counts, and the state on disk is what it has to be.
//
// A commit that is decided is not taken back; its units are applied first.
func (l *Loop) abort(cause error) {
	l.cause = cause
	l.putOff()
	if l.commit != nil && !l.commit.decided {
		l.commit.traced(cause)
		l.commit = nil
	}
	l.rewinding = true
	l.slot.abort()
}

// onAborted: the producer holds nothing any more, and what it had under way has ended one way or the other.
func (l *Loop) onAborted(a broker.TransactionAborted) error {
	if a.Token != l.slot.aborting {
		return nil
	}
	l.slot.aborting = 0
	if a.Err != nil {
		return l.abortFailed(a.Err)
	}
	if r := l.resolving; r != nil {
		l.resolve(r)
	}
	l.unhold()
	return nil
}

// abortFailed: somebody else uses this transactional id. That is a fence by a member that took this one for dead, and the id
// is taken back in the next generation. More of them than there are members to send one, without a commit in between, means that
// two live processes share the id, and neither could ever work.
func (l *Loop) abortFailed(err *broker.Error) error {
	if err.Class != broker.Migrated {
		return err
	}
	l.slot.retake = true
	if l.slot.fenced++; l.slot.fenced > l.slot.strangers() {
		return fmt.Errorf("thread: %s is used by two producers at once; each process needs a state directory of its own: %w", l.slot.TransactionalID, err)
	}
	l.cfg.Log.Warn("fenced; joining again", "thread", l.slot.Name, "err", err)
	l.cause, l.resolving = err, nil
	l.migrate()
	return nil
}

// retake takes the transactional id back, in a generation that has this member.
func (l *Loop) retake() {
	if l.slot.retake {
		l.slot.retake = false
		l.slot.abort()
		return
	}
	l.slot.fenced = 0
}

// resolve asks for the committed offsets of a commit whose outcome not even its coordinator could tell. The producer has
// begun another epoch, so the transaction is decided, and stable offsets say how by what stands beside them.
func (l *Loop) resolve(c *commit) {
	var tps []record.TopicPartition
	for id, u := range c.units {
		if l.tasks[id] == u.of {
			tps = append(tps, u.of.tps...)
		}
	}
	if len(tps) == 0 {
		l.resolving = nil
		return
	}
	c.token = l.slot.nextToken()
	l.slot.Group.CommittedOffsets(c.token, sorted(tps), true)
}

// resolved ends the search for a commit's outcome. Committed, its units are applied as usual and the tasks go back to it;
// else they go back to the one before.
func (l *Loop) resolved(o broker.OffsetsFetched) error {
	c := l.resolving
	if o.Err != nil {
		if o.Err.Class == broker.Migrated || o.Err.Class == broker.Abort {
			return nil // Lost, or another assignment, follows
		}
		return o.Err
	}
	l.resolving = nil
	done := false
	for _, at := range o.Offsets {
		m, _ := task.ParseMetadata(at.Metadata)
		done = done || (m.TransactionalID == l.slot.TransactionalID && m.Transaction == c.number)
	}
	l.cfg.Log.Info("found out how a commit ended", "thread", l.slot.Name, "committed", done)
	if done {
		l.commit = c
		return l.committed(c)
	}
	return nil
}

// maybeRewind takes the tasks back to the last commit once the producer is ready and the state has caught up with it.
func (l *Loop) maybeRewind() error {
	if !l.rewinding || l.slot.aborting != 0 || l.resolving != nil || l.commit != nil {
		return nil
	}
	l.rewinding = false
	if e := l.alone.only; e != nil {
		l.alone.only = nil
		if l.tasks[e.id] != e {
			return nil
		}
		return l.rewindAlone(e)
	}
	if !l.slot.exactlyOnce() && l.machine.State() == lifecycle.ThreadRunning {
		l.become(lifecycle.ThreadRebalancing)
	}
	l.nextCommit = l.now.Add(l.cfg.CommitInterval)
	for _, e := range slices.Clone(l.running) {
		if err := l.rewind(e); err != nil {
			return err
		}
	}
	return nil
}

func (l *Loop) rewind(e *entry) error {
	l.slot.Fetcher.Stop(e.tps...)
	e.at = e.task.Rewind()
	if !l.slot.exactlyOnce() {
		l.running = slices.DeleteFunc(l.running, func(o *entry) bool { return o == e })
		e.state, e.serving = nil, false
		l.cfg.Watcher.Gone(e.id)
		l.cfg.States.Replay(e.id, l.cfg.Epoch)
		return nil
	}
	return l.restart(e)
}

// rewindAlone takes back what one task has done alone: nothing of it is in a changelog yet, in either guarantee.
func (l *Loop) rewindAlone(e *entry) error {
	l.slot.Fetcher.Stop(e.tps...)
	e.at = e.task.Rewind()
	return l.restart(e)
}

// restart has a task go on from its last commit. The state holds what is committed and nothing else, so its readers go on.
func (l *Loop) restart(e *entry) error {
	e.task.Attach(e.state)
	if err := e.task.Start(l.now, e.at); err != nil {
		return err
	}
	l.hold(e, false)
	for _, tp := range sorted(e.tps) {
		l.slot.Fetcher.Start(tp, e.at[tp].At)
	}
	return nil
}
