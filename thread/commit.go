package thread

import (
	"errors"
	"maps"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
)

// commit is one commit on its way. Its steps, and what a crash in each costs:
//
//	prepare   At least once: outputs of the interval may be in their logs already, offsets are not. The interval is processed
//	          again and its outputs are written twice; nothing is lost. Exactly once: the outputs are part of an open
//	          transaction, which the next start, a new owner or the broker's time-out aborts; nobody ever sees them.
//	flush     At least once: as above, and changelog records may be out as well. The next owner restores them before it goes
//	          on, so its state is ahead of its input by at most this interval. Exactly once: as above.
//	end       At least once, the offsets: Kafka has everything or everything but the offsets. Exactly once, offsets and then
//	          the end of the transaction: the coordinator has written its decision, or it has not. If it has, all of it
//	          counts, although markers may be missing from some logs for a while, so a restore goes to the high watermark
//	          and never stops at the last stable offset. If it has not, none of it does.
//	apply     Kafka has it all. The state on disk is older than the offsets; the changelog's tail is replayed from the
//	          offset that is stored with the state. No wipe, in either guarantee.
//
// Tasks go on processing in every step: their overlays keep the units of this commit apart from what comes after, and
// exactly once the producer keeps what comes after for the next transaction while the markers of this one are written.
type commit struct {
	units map[record.TaskID]unit
	// token is what the next answer carries.
	token uint64
	// number is the transaction's, as it is written beside each offset.
	number uint64
	// generation is the one in which it was sent.
	generation int32
	// began is the time of the step that began it.
	began time.Time
	// ends are the changelog ends that the flush reported.
	ends map[record.TopicPartition]int64
	// decided says that Kafka has it; what is left is to apply it. applying counts States.Apply calls without an answer.
	decided  bool
	applying int
	// span is nil without a Tracer, and when it has ended.
	span CommitSpan
}

type unit struct {
	of *entry
	*task.Unit
}

// busy says that no commit may begin: one is on its way, or the way back to the last one is not done.
func (l *Loop) busy() bool {
	return l.commit != nil || l.rewinding || l.slot.aborting != 0
}

func (l *Loop) needsCommit() bool {
	if l.stamp && len(l.running) > 0 {
		return true
	}
	for _, e := range l.running {
		if e.task.NeedsCommit() {
			return true
		}
	}
	return false
}

// maybeCommit starts a commit when one is due and none is under way.
func (l *Loop) maybeCommit() error {
	if l.busy() {
		return nil
	}
	due := l.commitNow || l.stamp || !l.now.Before(l.nextCommit) || l.uncommitted() > l.cfg.UncommittedBytes || l.asked()
	if !due {
		return nil
	}
	l.commitNow = false
	l.nextCommit = l.now.Add(l.cfg.CommitInterval)
	if !l.needsCommit() {
		l.releaseRevoked()
		return nil
	}
	return l.beginCommit(l.running)
}

func (l *Loop) asked() bool {
	for _, e := range l.running {
		if e.task.CommitRequested() {
			return true
		}
	}
	return false
}

// beginCommit freezes tasks, all that run or one that is alone, and sends what they have to send.
func (l *Loop) beginCommit(of []*entry) error {
	if err := l.fault(fault.CommitFlush); err != nil {
		return err
	}
	c := &commit{units: map[record.TaskID]unit{}, number: l.slot.begin(l.now), began: l.now}
	var stamp task.Stamp
	if l.slot.exactlyOnce() {
		stamp = task.Stamp{TransactionalID: l.slot.TransactionalID, Number: c.number}
	}
	for _, e := range of {
		u, err := e.task.PrepareTransaction(l.now, stamp)
		if err != nil {
			return err
		}
		c.units[e.id] = unit{e, u}
	}
	l.stamp = false
	c.token = l.slot.nextToken()
	l.commit = c
	l.trace(c)
	l.slot.Producer.Flush(c.token)
	return nil
}

// onFlushed: every output and changelog record is acknowledged; now the offsets may follow, and not before.
func (l *Loop) onFlushed(f broker.Flushed) error {
	c := l.commit
	if c == nil || f.Token != c.token {
		return nil
	}
	if f.Err != nil {
		return l.commitFailed(f.Err)
	}
	c.addEnds(f.Ends)
	if len(f.Refused) > 0 {
		return l.amend(c, f.Refused)
	}
	if err := l.fault(fault.CommitOffsets); err != nil {
		return err
	}
	l.endTransaction(c)
	return nil
}

// endTransaction sends the offsets: the step that makes the interval count.
func (l *Loop) endTransaction(c *commit) {
	c.generation = l.slot.Member.Generation
	offsets, whole := l.offsets(c)
	switch {
	case len(offsets) == 0: // every task of this commit was given up meanwhile
		c.traced(errGivenUp)
		l.commit = nil
	case !l.slot.exactlyOnce():
		c.token = l.slot.nextToken()
		l.slot.committing = c.token
		l.slot.Group.Commit(c.token, offsets)
	case !whole:
		// The transaction holds records of a task whose offsets cannot go with them.
		l.cfg.Work.commitFailed(broker.Abort)
		l.abort(errGivenUp)
	default:
		c.token = l.slot.nextToken()
		l.slot.Producer.Commit(c.token, offsets, l.slot.Member)
	}
}

// amend asks what becomes of records that a broker has refused. The rest of the interval is in its logs; what takes a
// refused record's place must be part of the same commit, so it is sent before the offsets.
func (l *Loop) amend(c *commit, refused []broker.Refused) error {
	var more []broker.Outgoing
	for _, r := range refused {
		e := l.writer(c, r.Source)
		if e == nil { // its task was given up, and takes the interval with it
			continue
		}
		out, err := e.task.Refused(r)
		if err != nil {
			return err
		}
		more = append(more, out...)
	}
	if len(more) == 0 {
		l.endTransaction(c)
		return nil
	}
	c.token = l.slot.nextToken()
	l.slot.Producer.Amend(c.token, more)
	return nil
}

// writer is a task of the commit that writes to a partition.
func (l *Loop) writer(c *commit, tp record.TopicPartition) *entry {
	for _, e := range l.running {
		if _, ok := c.units[e.id]; ok && e.task.Writes(tp) {
			return e
		}
	}
	return nil
}

var errGivenUp = errors.New("thread: a task was given up while its commit was under way")

func (c *commit) addEnds(ends map[record.TopicPartition]int64) {
	if c.ends == nil {
		c.ends = ends
		return
	}
	maps.Copy(c.ends, ends)
}

// offsets are those of the tasks that are still here; whole says that all are.
func (l *Loop) offsets(c *commit) (offsets broker.Offsets, whole bool) {
	offsets, whole = broker.Offsets{}, true
	for _, u := range c.units {
		if l.tasks[u.of.id] == u.of {
			maps.Copy(offsets, u.Offsets)
		} else {
			whole = false
		}
	}
	return offsets, whole
}

// onOffsetsCommitted: at least once, Kafka says committed.
func (l *Loop) onOffsetsCommitted(o broker.OffsetsCommitted) error {
	if o.Token == l.slot.committing {
		l.slot.committing = 0
		l.unhold()
	}
	if l.commit == nil || o.Token != l.commit.token {
		return nil
	}
	if o.Err != nil {
		return l.commitFailed(o.Err)
	}
	return l.committed(l.commit)
}

// onTransactionEnded: exactly once, Kafka says committed.
func (l *Loop) onTransactionEnded(t broker.TransactionEnded) error {
	if l.commit == nil || t.Token != l.commit.token {
		return nil
	}
	if t.Err != nil {
		return l.commitFailed(t.Err)
	}
	l.slot.fenced = 0
	return l.committed(l.commit)
}

// committed: only now does the interval reach the state on disk.
func (l *Loop) committed(c *commit) error {
	if err := l.fault(fault.CommitEnd); err != nil {
		return err
	}
	c.decided = true
	for _, e := range l.everyTask() {
		id, u := e.id, c.units[e.id]
		if u.of != e {
			continue
		}
		u.of.task.Committed(u.Unit)
		if err := l.cfg.Fault.At(fault.Site{Point: fault.CommitApply, Thread: l.slot.Name, Task: id}); err != nil {
			return err
		}
		c.applying++
		l.cfg.States.Apply(id, l.cfg.Epoch, u.Unit, c.ends)
	}
	l.endCommitIfApplied()
	return nil
}

func (l *Loop) onApplied(a UnitApplied) error {
	if l.commit == nil || a.Epoch != l.cfg.Epoch {
		return nil
	}
	u, ok := l.commit.units[a.Task]
	if !ok || u.Unit != a.Unit {
		return nil
	}
	l.commit.applying--
	if l.tasks[a.Task] == u.of {
		if a.Err != nil {
			return a.Err
		}
		u.of.task.Applied(u.Unit)
	}
	l.endCommitIfApplied()
	return nil
}

func (l *Loop) endCommitIfApplied() {
	if l.commit.applying > 0 {
		return
	}
	l.cfg.Work.committed(l.now.Sub(l.commit.began))
	l.commit.traced(nil)
	l.commit = nil
	l.nextCommit = maxTime(l.nextCommit, l.now)
	l.passedAlone()
	l.releaseAfterCommit()
}

// releaseAfterCommit gives revoked tasks up if they had nothing new since this commit began; else they get one more.
func (l *Loop) releaseAfterCommit() {
	if l.slot.revoking == nil || l.busy() {
		return
	}
	for _, e := range l.running {
		if e.revoking && e.task.NeedsCommit() {
			l.commitNow = true
			return
		}
	}
	l.releaseRevoked()
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
