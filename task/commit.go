package task

import (
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
)

// NeedsCommit says that something changed since the last Prepare: a position, a store, or an output.
func (t *Task) NeedsCommit() bool { return t.moved || t.wrote || t.mem.active > 0 }

// CommitRequested says that a processor asked for a commit since the last Prepare.
func (t *Task) CommitRequested() bool { return t.commitRequested }

// Uncommitted is what the active generation holds, in bytes. What a commit under way has frozen is not in it: both
// together are at most twice the limit at which the caller commits early.
func (t *Task) Uncommitted() (bytes int64) { return t.mem.active }

// Prepare ends an interval: what aggregations hold back goes out, the active generation is frozen into a unit, and one
// changelog record for each key that was written is appended, by key. The last record of each store has the position in
// a header.
//
// Its error is a *ProcessError, after which only Rewind, Suspend and Close may follow, or wraps ErrNotRunning or
// ErrCommitUnderWay. Changelog records may be on their way then; nothing else may be committed with them.
func (t *Task) Prepare(now time.Time) (*Unit, error) { return t.PrepareTransaction(now, Stamp{}) }

// PrepareTransaction is Prepare exactly once: the metadata of each offset names the transaction that commits it. It works
// also when nothing has changed since the last commit; the unit has the same offsets then, under the new name. It has the errors
// of Prepare.
func (t *Task) PrepareTransaction(now time.Time, s Stamp) (*Unit, error) {
	if err := t.enter(now); err != nil {
		return nil, err
	}
	if t.underWay != nil {
		return nil, ErrCommitUnderWay
	}
	if err := t.flush(); err != nil {
		return nil, err
	}
	u := t.newUnit(s)
	for _, o := range t.overlays {
		first := len(u.Writes)
		o.freeze(u)
		if err := t.changelog(o.number, u, u.Writes[first:]); err != nil {
			return nil, err
		}
	}
	t.mem.active = 0
	u.Spans, t.spans = t.spans, nil
	t.moved, t.wrote, t.commitRequested = false, false, false
	t.underWay = u
	return u, nil
}

// flush lets the aggregations emit. A store that none of them has asked about is not asked about at all.
func (t *Task) flush() error {
	for _, o := range t.overlays {
		o.asked = false
	}
	if err := t.attempt(t.chain.Flush); err != nil {
		return err
	}
	for _, o := range t.overlays {
		if !o.asked {
			o.forget()
		}
	}
	return nil
}

func (t *Task) newUnit(s Stamp) *Unit {
	u := t.spare
	if t.spare = nil; u == nil {
		u = &Unit{}
	}
	u.Task, u.WallClock = t.cfg.ID, t.wallClock
	u.Offsets = make(broker.Offsets, len(t.buffers))
	u.Position = make(record.Position, len(t.buffers))
	for _, b := range t.buffers {
		m := Metadata{PartitionTime: b.time, TransactionalID: s.TransactionalID, Transaction: s.Number}
		u.Offsets[b.source] = broker.Offset{At: b.consumed, Metadata: m.String()}
		u.Position[b.source] = b.consumed
	}
	u.grow(t.overlays)
	return u
}

// changelog appends one store's writes.
func (t *Task) changelog(store int, u *Unit, writes []Write) (err error) {
	tp := t.cfg.Stores[store].Changelog
	if tp.Topic == "" || len(writes) == 0 {
		return nil
	}
	defer t.leave(&err)
	u.Changelogs = append(u.Changelogs, store)
	var r record.Raw
	for i := range writes {
		w := &writes[i]
		// Kafka refuses a timestamp below -1, and -1 itself means "none".
		r.Key, r.Value, r.Timestamp = w.Key, w.Value, max(w.Timestamp, 0)
		if i == len(writes)-1 {
			r.Headers = record.Headers{{Key: record.PositionHeader, Value: record.EncodePosition(u.Position)}}
		}
		if err := t.cfg.Producer.Append(tp, &r); err != nil {
			return err
		}
	}
	return nil
}

// Committed says that Kafka has the unit's offsets: Rewind goes back to them from now on.
func (t *Task) Committed(u *Unit) {
	if u != t.underWay {
		return
	}
	for _, b := range t.buffers {
		b.committed = u.Offsets[b.source]
	}
}

// Applied says that the state has the unit's writes. Their cells are clean, if they were not Set again, and stay as far
// as CacheBytes allows; the unit's memory is the task's again. A unit from before a Rewind is ignored.
func (t *Task) Applied(u *Unit) {
	if u != t.underWay {
		return
	}
	t.underWay = nil
	for _, o := range t.overlays {
		o.applied()
	}
	t.mem.evict()
	t.spare = u.recycle()
}

// Rewind goes back to the last commit, and to RESTORING: both generations, clean cells, buffers, positions and stream time.
// It returns where to start again. The state must be as the last commit left it, or, at least once, have the changelog's
// tail, when Start follows.
//
// The processors are closed, and Start makes new ones: a processor may keep in its fields what was taken back just now,
// and only it could tell. What their Close returns is Start's error. Punctuations on stream time go on behind the last
// commit's stream time; those on the wall clock begin anew, one interval from Start.
func (t *Task) Rewind() broker.Offsets {
	at := make(broker.Offsets, len(t.buffers))
	for _, b := range t.buffers {
		at[b.source] = b.committed
	}
	t.closing = t.closeChain()
	t.drop()
	if t.State() == lifecycle.TaskRunning {
		t.machine.Become(lifecycle.TaskRestoring)
	}
	return at
}
