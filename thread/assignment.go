package thread

import (
	"fmt"
	"maps"
	"runtime/pprof"
	"slices"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
)

// ready says that the task processes.
func (e *entry) ready() bool { return e.task != nil && e.task.State() == lifecycle.TaskRunning }

func (l *Loop) onAssigned(a broker.Assigned) {
	l.slot.assigned = slices.Clone(a.Partitions)
	l.slot.Member.Generation, l.slot.Member.MemberID = a.Generation, a.MemberID
	l.slot.joined, l.slot.rejoining = true, false
	l.slot.moving, l.slot.live = l.cfg.Watcher.Assignment(a.MemberID, a.UserData)
	l.retake()
	if l.slot.moving && l.machine.State() == lifecycle.ThreadRunning {
		l.become(lifecycle.ThreadRebalancing)
	}
	l.adopt(a.Partitions)
	l.unhold()
}

// adopt opens every task of the assignment that is not there yet.
func (l *Loop) adopt(tps []record.TopicPartition) {
	if l.stopping {
		return
	}
	var added []*entry
	for _, tp := range tps {
		id, ok := l.cfg.TaskOf(tp)
		if !ok {
			l.cfg.Log.Warn("assigned a partition that no task reads", "partition", tp)
			continue
		}
		if l.tasks[id] == nil {
			e := &entry{id: id, tps: l.cfg.Sources(id), labels: pprof.WithLabels(l.labels, pprof.Labels("task", id.String()))}
			l.tasks[id] = e
			added = append(added, e)
		}
	}
	if len(added) > 0 && l.machine.State() != lifecycle.ThreadRebalancing {
		l.become(lifecycle.ThreadRebalancing)
	}
	for _, e := range added {
		l.locate(e)
	}
}

// ofState is the task that a state tells something to. It is nil if that was the state of a former incarnation, or the task's
// former one, which still closes.
func (l *Loop) ofState(id record.TaskID, epoch uint64) *entry {
	if epoch != l.cfg.Epoch || l.slot.closing[id] > 0 {
		return nil
	}
	return l.tasks[id]
}

func (l *Loop) onStateReady(s StateReady) error {
	e := l.ofState(s.Task, s.Epoch)
	if e == nil {
		return nil
	}
	e.state = s.State
	return l.startIfReady(e)
}

func (l *Loop) onStateFailed(s StateFailed) error {
	if l.ofState(s.Task, s.Epoch) == nil {
		return nil
	}
	return fmt.Errorf("thread: the state of task %s: %w", s.Task, s.Err)
}

// startIfReady makes a task run once its state is restored and its positions are known.
func (l *Loop) startIfReady(e *entry) error {
	if e.search != found || e.state == nil || e.ready() || l.stopping {
		return nil
	}
	if e.task == nil {
		t, err := l.cfg.NewTask(e.id, e.state, l.slot.Producer)
		if err != nil {
			return err
		}
		e.task = t
		if l.cfg.TaskWork != nil {
			e.work = l.cfg.TaskWork(e.id)
		}
		t.Restoring()
	} else {
		e.task.Attach(e.state)
	}
	if err := e.task.Start(l.now, e.at); err != nil {
		return err
	}
	l.stamp = l.stamp || l.slot.exactlyOnce()
	l.running = append(l.running, e)
	slices.SortFunc(l.running, func(a, b *entry) int { return a.id.Compare(b.id) })
	l.cfg.Watcher.Running(e.id, e.at)
	l.hold(e, true)
	for _, tp := range sorted(e.tps) {
		l.slot.Fetcher.Start(tp, e.at[tp].At)
	}
	return nil
}

// revoke marks what must be given up; maybeCommit does the rest once a commit has covered it.
func (l *Loop) revoke(r broker.Revoking) {
	if l.machine.State() == lifecycle.ThreadRunning {
		l.become(lifecycle.ThreadRebalancing)
	}
	for _, tp := range r.Partitions {
		if id, ok := l.cfg.TaskOf(tp); ok && l.tasks[id] != nil {
			l.tasks[id].revoking = true
		}
	}
	l.commitNow = true
}

// releaseRevoked gives up the revoked tasks after a commit has covered them, and answers the group when the last one is
// closed. Tasks that stay are not touched.
func (l *Loop) releaseRevoked() {
	r := l.slot.revoking
	if r == nil {
		return
	}
	for _, e := range l.everyTask() {
		if e.revoking {
			l.giveUp(e)
		}
	}
	for _, tp := range r.Partitions {
		if id, ok := l.cfg.TaskOf(tp); ok && l.slot.closing[id] > 0 {
			return
		}
	}
	l.slot.drop(r.Partitions)
	// Releasing joins again, and no Rejoining says so.
	l.slot.revoking, l.slot.moving, l.slot.rejoining = nil, true, true
	l.slot.Group.Released(r.Generation, r.Partitions)
}

// onLost drops tasks that somebody else may own already: no commit, and what is queued for them is not sent any more.
func (l *Loop) onLost(lost broker.Lost) {
	l.cfg.Log.Warn("the group has lost this member; it joins again", "thread", l.slot.Name, "cause", lost.Cause)
	l.cause = lost.Cause
	if l.machine.State() == lifecycle.ThreadRunning {
		l.become(lifecycle.ThreadRebalancing)
	}
	l.slot.revoking, l.slot.joined, l.slot.rejoining = nil, false, false
	l.slot.drop(lost.Partitions)
	for _, tp := range lost.Partitions {
		if id, ok := l.cfg.TaskOf(tp); ok && l.tasks[id] != nil {
			l.giveUp(l.tasks[id])
		}
	}
	l.abort(lost.Cause)
}

// giveUp closes a task as it is. What it has not committed is gone; what a commit that is under way covers is not
// applied any more, which costs the next owner a few changelog records.
func (l *Loop) giveUp(e *entry) {
	l.leaves(e)
	delete(l.tasks, e.id)
	l.running = slices.DeleteFunc(l.running, func(o *entry) bool { return o == e })
	l.slot.Fetcher.Stop(e.tps...)
	l.cfg.Watcher.Gone(e.id)
	if e.task != nil {
		if err := e.task.Close(); err != nil {
			l.cfg.Log.Warn("a processor failed to close", "task", e.id, "err", err)
		}
	}
	l.slot.closing[e.id]++
	l.cfg.States.Close(e.id, l.cfg.Epoch)
}

func (l *Loop) onStateClosed(s StateClosed) {
	if s.Err != nil {
		l.cfg.Log.Warn("a store did not close cleanly; its next start restores more", "task", s.Task, "err", s.Err)
	}
	if l.slot.closing[s.Task]--; l.slot.closing[s.Task] <= 0 {
		delete(l.slot.closing, s.Task)
	}
	l.releaseAfterCommit()
}

// everyTask is all tasks by their ids: what is asked of the ports must not depend on the order of a map.
func (l *Loop) everyTask() []*entry {
	return slices.SortedFunc(maps.Values(l.tasks), func(a, b *entry) int { return a.id.Compare(b.id) })
}

func sorted(tps []record.TopicPartition) []record.TopicPartition {
	return slices.SortedFunc(slices.Values(tps), record.TopicPartition.Compare)
}

// stop is the way down: PENDING_SHUTDOWN, a last commit, every task closed.
func (l *Loop) stop() (done bool, err error) {
	if l.machine.State() != lifecycle.ThreadPendingShutdown {
		l.become(lifecycle.ThreadPendingShutdown)
		l.commitNow = true
	}
	if l.busy() || (l.commitNow && l.needsCommit()) {
		return false, nil
	}
	for _, e := range l.everyTask() {
		l.giveUp(e)
	}
	if len(l.slot.closing) > 0 {
		return false, nil
	}
	l.become(lifecycle.ThreadNotRunning)
	return true, nil
}
