package thread

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
)

// ready says that the task processes.
func (e *entry) ready() bool { return e.task != nil && e.task.State() == lifecycle.TaskRunning }

func (l *Loop) onAssigned(a broker.Assigned) {
	l.slot.assigned = slices.Clone(a.Partitions)
	l.slot.generation, l.slot.joined = a.Generation, true
	l.slot.moving = l.cfg.Watcher.Assignment(a.MemberID, a.UserData)
	if l.slot.moving && l.machine.State() == lifecycle.ThreadRunning {
		l.become(lifecycle.ThreadRebalancing)
	}
	l.adopt(a.Partitions)
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
			e := &entry{id: id, tps: l.cfg.Sources(id)}
			l.tasks[id] = e
			added = append(added, e)
		}
	}
	if len(added) > 0 && l.machine.State() != lifecycle.ThreadRebalancing {
		l.become(lifecycle.ThreadRebalancing)
	}
	for _, e := range added {
		l.cfg.States.Open(e.id, l.cfg.Epoch)
		e.token = l.slot.nextToken()
		l.slot.Group.Offsets(e.token, e.tps)
	}
}

func (l *Loop) waiting(token uint64) *entry {
	for _, e := range l.tasks {
		if e.token == token {
			return e
		}
	}
	return nil
}

func (l *Loop) onOffsets(o broker.OffsetsFetched) error {
	e := l.waiting(o.Token)
	if e == nil {
		return nil
	}
	if o.Err != nil {
		if o.Err.Class == broker.Migrated || o.Err.Class == broker.Abort {
			return nil // the group says what follows: Lost, or another assignment
		}
		return o.Err
	}
	e.at = o.Offsets
	var none []record.TopicPartition
	for _, tp := range e.tps {
		if o.Offsets[tp].At == broker.None {
			none = append(none, tp)
		}
	}
	if len(none) == 0 {
		e.token, e.known = 0, true
		return l.startIfReady(e)
	}
	e.token = l.slot.nextToken()
	l.cfg.Positions.Resolve(e.token, none)
	return nil
}

func (l *Loop) onPositions(p PositionsResolved) error {
	e := l.waiting(p.Token)
	if e == nil {
		return nil
	}
	if p.Err != nil {
		return p.Err
	}
	e.token = 0
	if e.ready() { // a position that fell out of the log was resolved anew
		for tp, at := range p.At {
			e.task.Seek(tp, at)
			l.slot.Fetcher.Start(tp, at)
		}
		return nil
	}
	for tp, at := range p.At {
		e.at[tp] = broker.Offset{At: at, Metadata: e.at[tp].Metadata}
	}
	e.known = true
	return l.startIfReady(e)
}

func (l *Loop) onStateReady(s StateReady) error {
	e := l.tasks[s.Task]
	if e == nil || s.Epoch != l.cfg.Epoch || l.closing[s.Task] > 0 {
		return nil
	}
	e.state = s.State
	return l.startIfReady(e)
}

func (l *Loop) onStateFailed(s StateFailed) error {
	if e := l.tasks[s.Task]; e == nil || s.Epoch != l.cfg.Epoch || l.closing[s.Task] > 0 {
		return nil
	}
	return fmt.Errorf("thread: open the state of task %s: %w", s.Task, s.Err)
}

// startIfReady makes a task run once its state is restored and its positions are known.
func (l *Loop) startIfReady(e *entry) error {
	if !e.known || e.state == nil || e.ready() || l.stopping {
		return nil
	}
	if e.task == nil {
		t, err := l.cfg.NewTask(e.id, e.state, l.slot.Producer)
		if err != nil {
			return err
		}
		e.task = t
		t.Restoring()
	} else {
		e.task.Attach(e.state)
	}
	if err := e.task.Start(e.at); err != nil {
		return err
	}
	l.running = append(l.running, e)
	slices.SortFunc(l.running, func(a, b *entry) int { return a.id.Compare(b.id) })
	l.cfg.Watcher.Running(e.id, e.at)
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
	for _, e := range l.tasks {
		if e.revoking {
			l.giveUp(e)
		}
	}
	for _, tp := range r.Partitions {
		if id, ok := l.cfg.TaskOf(tp); ok && l.closing[id] > 0 {
			return
		}
	}
	l.slot.drop(r.Partitions)
	l.slot.revoking, l.slot.moving = nil, true
	l.slot.Group.Released(r.Generation, r.Partitions)
}

// onLost drops tasks that somebody else may own already: no commit, no flush of outputs.
func (l *Loop) onLost(lost broker.Lost) {
	l.cfg.Log.Warn("the group has lost this member; it joins again", "thread", l.slot.Name, "cause", lost.Cause)
	l.cause = lost.Cause
	if l.machine.State() == lifecycle.ThreadRunning {
		l.become(lifecycle.ThreadRebalancing)
	}
	l.slot.revoking, l.slot.joined = nil, false
	l.slot.drop(lost.Partitions)
	for _, tp := range lost.Partitions {
		if id, ok := l.cfg.TaskOf(tp); ok && l.tasks[id] != nil {
			l.giveUp(l.tasks[id])
		}
	}
}

// giveUp closes a task as it is. What it has not committed is gone; what a commit that is under way covers is not
// applied any more, which costs the next owner a few changelog records.
func (l *Loop) giveUp(e *entry) {
	delete(l.tasks, e.id)
	l.running = slices.DeleteFunc(l.running, func(o *entry) bool { return o == e })
	l.slot.Fetcher.Stop(e.tps...)
	l.cfg.Watcher.Gone(e.id)
	if e.task != nil {
		if err := e.task.Close(); err != nil {
			l.cfg.Log.Warn("a processor failed to close", "task", e.id, "err", err)
		}
	}
	l.closing[e.id]++
	l.cfg.States.Close(e.id, l.cfg.Epoch)
}

func (l *Loop) onStateClosed(s StateClosed) {
	if s.Epoch != l.cfg.Epoch {
		return
	}
	if s.Err != nil {
		l.cfg.Log.Warn("a store did not close cleanly; its next start restores more", "task", s.Task, "err", s.Err)
	}
	if l.closing[s.Task]--; l.closing[s.Task] <= 0 {
		delete(l.closing, s.Task)
	}
	if l.commit == nil {
		l.releaseRevoked()
	}
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
	if l.commit != nil || (l.commitNow && l.needsCommit()) {
		return false, nil
	}
	for _, e := range slices.SortedFunc(mapValues(l.tasks), func(a, b *entry) int { return cmp.Compare(a.id.String(), b.id.String()) }) {
		l.giveUp(e)
	}
	if len(l.closing) > 0 {
		return false, nil
	}
	l.become(lifecycle.ThreadNotRunning)
	return true, nil
}
