package thread

import (
	"iter"
	"maps"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
)

// commit is one commit on its way, at least once. Its phases, and what a crash in each costs:
//
//	prepare   outputs of the interval may be in their logs already, offsets are not: the interval is processed again and
//	          its outputs are written twice. Nothing is lost.
//	flush     the same; changelog records may be out as well. The next owner restores them before it goes on, so its state
//	          is ahead of its input by at most this interval. That is what at-least-once means here.
//	offsets   Kafka has everything or everything but the offsets: as above, or nothing to do again.
//	apply     Kafka has it all. The state on disk is older than the offsets; the changelog's tail is replayed from the
//	          offset that is stored with the state. No wipe.
//
// Tasks go on processing in every phase: their overlays keep the units of this commit apart from what comes after.
type commit struct {
	units map[record.TaskID]unit
	token uint64
	// ends are the changelog ends that the flush reported.
	ends map[record.TopicPartition]int64
	// applying counts States.Apply calls that have not been answered.
	applying int
}

type unit struct {
	of *entry
	*task.Unit
}

func mapValues[K comparable, V any](m map[K]V) iter.Seq[V] { return maps.Values(m) }

func (l *Loop) needsCommit() bool {
	for _, e := range l.running {
		if e.task.NeedsCommit() {
			return true
		}
	}
	return false
}

// maybeCommit starts a commit when one is due and none is under way.
func (l *Loop) maybeCommit() error {
	if l.commit != nil {
		return nil
	}
	due := l.commitNow || !l.now.Before(l.nextCommit) || l.uncommitted() > l.cfg.UncommittedBytes || l.asked()
	if !due {
		return nil
	}
	l.commitNow = false
	l.nextCommit = l.now.Add(l.cfg.CommitInterval)
	if !l.needsCommit() {
		l.releaseRevoked()
		return nil
	}
	return l.beginCommit()
}

func (l *Loop) asked() bool {
	for _, e := range l.running {
		if e.task.CommitRequested() {
			return true
		}
	}
	return false
}

// beginCommit freezes every running task and sends what it has to send.
func (l *Loop) beginCommit() error {
	c := &commit{units: map[record.TaskID]unit{}}
	for _, e := range l.running {
		u, err := e.task.Prepare(l.now)
		if err != nil {
			return err
		}
		c.units[e.id] = unit{e, u}
	}
	c.token = l.slot.nextToken()
	l.commit = c
	l.slot.Producer.Flush(c.token)
	return nil
}

// onFlushed: every output and changelog record is acknowledged; now the offsets may follow, and not before.
func (l *Loop) onFlushed(f broker.Flushed) error {
	c := l.commit
	if c == nil || f.Token != c.token {
		return nil
	}
	if f.Err == nil && len(f.Refused) > 0 {
		return f.Refused[0].Err // a record that no broker takes: the production-error policy is Fail
	}
	if f.Err != nil {
		return l.commitFailed(f.Err)
	}
	c.ends = f.Ends
	offsets := broker.Offsets{}
	for _, u := range c.units {
		if l.tasks[u.of.id] == u.of {
			maps.Copy(offsets, u.Offsets)
		}
	}
	if len(offsets) == 0 { // every task of this commit was lost meanwhile
		l.commit = nil
		return nil
	}
	c.token = l.slot.nextToken()
	l.slot.Group.Commit(c.token, offsets)
	return nil
}

// onOffsetsCommitted: Kafka says committed. Only now does the interval reach the state on disk.
func (l *Loop) onOffsetsCommitted(o broker.OffsetsCommitted) error {
	c := l.commit
	if c == nil || o.Token != c.token {
		return nil
	}
	if o.Err != nil {
		return l.commitFailed(o.Err)
	}
	for id, u := range c.units {
		if l.tasks[id] != u.of {
			continue
		}
		u.of.task.Committed(u.Unit)
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
	l.commit = nil
	l.nextCommit = maxTime(l.nextCommit, l.now)
	l.releaseAfterCommit()
}

// releaseAfterCommit gives revoked tasks up if they had nothing new since this commit began; else they get one more.
func (l *Loop) releaseAfterCommit() {
	if l.slot.revoking == nil {
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

// commitFailed goes back to the last commit. The outputs of the interval may be out and its changelog records too, so
// each task replays its changelog's tail before it goes on: state that is ahead of its input is what a crash would have
// left as well. Errors that are not about this commit alone end the incarnation.
func (l *Loop) commitFailed(err *broker.Error) error {
	switch err.Class {
	case broker.Abort, broker.Migrated, broker.CommitUnknown, broker.Retry:
	default:
		return err
	}
	l.cfg.Log.Warn("commit failed; going back to the last one", "thread", l.slot.Name, "err", err)
	c := l.commit
	l.commit = nil
	l.cause = err
	for id, u := range c.units {
		if l.tasks[id] == u.of {
			l.rewind(u.of)
		}
	}
	return nil
}

func (l *Loop) rewind(e *entry) {
	l.slot.Fetcher.Stop(e.tps...)
	for i, o := range l.running {
		if o == e {
			l.running = append(l.running[:i], l.running[i+1:]...)
			break
		}
	}
	e.at = e.task.Rewind()
	e.state, e.serving = nil, false
	l.cfg.Watcher.Gone(e.id)
	l.cfg.States.Replay(e.id, l.cfg.Epoch)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
