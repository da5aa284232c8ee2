package store

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/record"
)

// Write is one change of a store; Store is an index in TaskSpec.Stores.
type Write = record.Write

// StoreOffset is the next changelog offset of a store.
type StoreOffset struct {
	Store int
	Next  int64
}

// Unit is what one commit changes: all or nothing of it is on disk, whatever happens.
type Unit struct {
	// Writes are sorted by store and key, each key once.
	Writes []Write
	// Changelog has the stores whose changelog offset moves.
	Changelog []StoreOffset
	// Position has the sources whose offset moves.
	Position map[record.TopicPartition]int64
	// WallClock is that of the commit, in milliseconds since the Unix epoch.
	WallClock int64
}

// WriteLease is the right of one incarnation to write.
type WriteLease struct {
	state *TaskState
	epoch uint64
}

// Lease gives the right to write to an incarnation and takes it from every earlier one. An epoch that is lower than the
// present one is ErrLeaseRevoked.
func (t *TaskState) Lease(epoch uint64) (*WriteLease, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	if epoch < t.epoch {
		return nil, fmt.Errorf("%w (epoch %d, asked with %d)", ErrLeaseRevoked, t.epoch, epoch)
	}
	t.epoch = epoch
	return &WriteLease{t, epoch}, nil
}

// Apply is TaskState.Apply under the lease.
func (l *WriteLease) Apply(u *Unit) error { return l.state.apply(l.epoch, u) }

// Apply writes a unit in one batch. It is for states whose Lease is never taken; once it is, Apply is ErrLeaseRevoked and
// WriteLease.Apply writes. The unit is on disk after a Flush, or sooner; a crash before that loses it together with its
// offsets. Nothing was written after *SpecError, ErrNullKey, ErrLeaseRevoked and ErrStateStoreClosed. After an *EngineError
// the unit may be there or not: restore from Offset, or open the task again if it is Dead.
func (t *TaskState) Apply(u *Unit) error { return t.apply(0, u) }

func (t *TaskState) apply(epoch uint64, u *Unit) error {
	if err := t.validate(u); err != nil {
		return err
	}
	if err := t.breakable(fault.StorePut, noStore); err != nil {
		return t.engine.failure("write", err)
	}
	err := t.write(epoch, func(v *view, b *pebble.Batch) error {
		for i := range u.Writes {
			w := &u.Writes[i]
			v.seen(w.Store, w.Timestamp)
			if t.spec.Stores[w.Store].InMemory {
				continue
			}
			if err := put(b, t.numbers[w.Store], w.Key, w.Value, w.Timestamp); err != nil {
				return err
			}
		}
		t.applyMemory(v, u.Writes)
		for _, o := range u.Changelog {
			v.marks[o.Store] = mark{o.Next, u.WallClock}
		}
		for tp, next := range u.Position {
			v.position[tp] = next
		}
		v.clock = u.WallClock
		return t.sweep(v, b, len(u.Writes))
	})
	if err == nil {
		t.countWrites(u.Writes)
	}
	return err
}

func (t *TaskState) validate(u *Unit) error {
	for i := range u.Writes {
		w := &u.Writes[i]
		if w.Key == nil {
			return ErrNullKey
		}
		if w.Store < 0 || w.Store >= len(t.numbers) {
			return &SpecError{fmt.Sprintf("task %s has no store %d", t.spec.name(), w.Store)}
		}
	}
	for _, o := range u.Changelog {
		if o.Store < 0 || o.Store >= len(t.numbers) || o.Next < 0 {
			return &SpecError{fmt.Sprintf("task %s cannot have offset %d for its store %d", t.spec.name(), o.Next, o.Store)}
		}
	}
	return nil
}

// put adds one change to a batch. The deferred form copies key and value once, straight into the batch.
func put(b *pebble.Batch, number uint16, key, value []byte, timestamp int64) error {
	if value == nil {
		op := b.DeleteDeferred(numberBytes + len(key))
		binary.BigEndian.PutUint16(op.Key, number)
		copy(op.Key[numberBytes:], key)
		return op.Finish()
	}
	op := b.SetDeferred(numberBytes+len(key), valueOverhead+len(value))
	binary.BigEndian.PutUint16(op.Key, number)
	copy(op.Key[numberBytes:], key)
	putValue(op.Value, timestamp, value)
	return op.Finish()
}

// write is the one way to change the state: f fills a batch and changes a copy of the view; what differs in the view is
// added to the same batch; after the commit the view is published. asOf is for readers who need to know which of the two they see.
func (t *TaskState) write(epoch uint64, f func(*view, *pebble.Batch) error) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	if epoch != t.epoch {
		return fmt.Errorf("%w (epoch %d, written with %d)", ErrLeaseRevoked, t.epoch, epoch)
	}
	v := t.newView()
	err := t.engine.run("write", func() error {
		b := t.engine.db.NewBatch()
		defer b.Close()
		if err := f(v, b); err != nil {
			return err
		}
		for _, kv := range t.metaWrites(v) {
			if err := b.Set(kv[0], kv[1], nil); err != nil {
				return err
			}
		}
		t.begin(v)
		return b.Commit(pebble.NoSync)
	})
	if err := t.publish(v, err); err != nil {
		return err
	}
	// The unit is written, whatever comes of this; an engine that cannot flush says so itself.
	_ = t.MaybeFlush(t.dir.opts.Now())
	return nil
}

// Reached says that the state reflects its sources up to a position, though no unit and no changelog record has said so:
// what was committed since wrote nothing. It is for the committed offsets that a task starts from, once it is restored; a
// position that the state is beyond already stays. It is not written to disk, since the next start is told again. Its error wraps
// ErrLeaseRevoked.
func (l *WriteLease) Reached(p record.Position) error {
	t := l.state
	t.writing.Lock()
	defer t.writing.Unlock()
	if l.epoch != t.epoch {
		return fmt.Errorf("%w (epoch %d, reached with %d)", ErrLeaseRevoked, t.epoch, l.epoch)
	}
	v := t.view.Load().next()
	record.MergePosition(v.position, p)
	t.view.Store(v)
	return nil
}

// newView is the view of the next commit, to be changed.
func (t *TaskState) newView() *view {
	v := t.view.Load().next()
	t.commits++
	v.commit = t.commits
	return v
}

// metaWrites are the task's own keys that differ from what is published, in key order.
func (t *TaskState) metaWrites(v *view) (out [][2][]byte) {
	old := t.view.Load()
	if v.clock != old.clock {
		out = append(out, [2][]byte{keyClock, binary.BigEndian.AppendUint64(nil, uint64(v.clock))})
	}
	out = append(out, [2][]byte{keyCommit, binary.BigEndian.AppendUint64(nil, v.commit)})
	for i, number := range t.numbers {
		if t.spec.Stores[i].InMemory {
			continue // an offset on disk would be one without its rows
		}
		before, known := old.marks[i]
		if m, ok := v.marks[i]; ok && (!known || m != before) {
			out = append(out, [2][]byte{keyOffset(number), m.encode()})
		}
	}
	out = append(out, [2][]byte{keyPosition, record.EncodePosition(v.position)})
	for i, number := range t.numbers {
		if at := v.time(i); !t.spec.Stores[i].InMemory && at != old.time(i) && at >= 0 {
			out = append(out, [2][]byte{keyTime(number), binary.BigEndian.AppendUint64(nil, uint64(at))})
		}
	}
	return out
}
