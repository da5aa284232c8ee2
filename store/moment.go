package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// momentTries is how often a read looks for its moment. One look is in vain only if a whole commit begins and ends between
// two steps of it.
const momentTries = 16

// errMoment is in the chain of the *EngineError of a read whose moment was not found.
var errMoment = errors.New("store: the database is at a commit that is not known here")

// asOf calls read, and gives the view whose state it has read: all of that view's commit and of those before, and nothing of
// a later one. It may call read twice or more, of which the last call counts; each is told the view that it is to read as of,
// for what depends on it beside the reader: the rows of a store in memory are in the view itself. An iterator that read opens may be used after asOf has returned, because it stays
// at its moment.
//
// The engine makes a commit visible before the writer can publish its view. The easy version, view first and data then, gives
// values of a commit with the position before it whenever a read falls between the two; the other order gives the reverse.
// Rejected: a lock around the two, since a commit takes tens of milliseconds, and on a full disk for ever. Rejected: a snapshot
// for each read, or one that each view holds: both take the engine's mutex, and this costs two loads if no commit is under way.
//
// If one is under way, its number, which is in the batch, tells whether the engine showed it before the read ended. Only if it
// did is a snapshot taken, and the number in that tells which view it is of.
func (t *TaskState) asOf(store int, read func(r pebble.Reader, v *view) error) (*view, error) {
	v := t.view.Load()
	if err := read(t.engine.db, v); err != nil || v.memories[store] != nil {
		return v, err
	}
	if ok, err := t.settled(v); ok || err != nil {
		return v, err
	}
	for range momentTries {
		if v, err := t.readSnapshot(read); v != nil || err != nil {
			return v, err
		}
	}
	return nil, errMoment
}

// settled says that the engine has shown nothing later than v up to now. The order of the loads matters: a commit that was
// shown is pending until its view is published.
func (t *TaskState) settled(v *view) (bool, error) {
	if t.pending.Load() == nil {
		return t.view.Load().commit == v.commit, nil
	}
	shown, err := shownCommit(t.engine.db)
	return err == nil && shown == v.commit, err
}

// readSnapshot reads a snapshot; the view is nil if it is not known.
func (t *TaskState) readSnapshot(read func(r pebble.Reader, v *view) error) (found *view, err error) {
	before := t.view.Load()
	snapshot := t.engine.db.NewSnapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	shown, err := shownCommit(snapshot)
	if err != nil {
		return nil, err
	}
	// In this order, because a pending view becomes the published one.
	for _, v := range [...]*view{t.pending.Load(), t.view.Load(), before} {
		if v != nil && v.commit == shown {
			return v, read(snapshot, v)
		}
	}
	return nil, nil
}

// shownCommit is the number of the last commit that a reader sees; 0 before the first.
func shownCommit(r pebble.Reader) (uint64, error) {
	b, closer, err := r.Get(keyCommit)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	commit, err := decodeCommit(b)
	return commit, errors.Join(err, closer.Close())
}

func decodeCommit(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("store: a commit's number has %d bytes, not 8", len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

// begin is called by the writer before it commits v, which is complete.
func (t *TaskState) begin(v *view) {
	t.pending.Store(v)
	if t.onCommit != nil {
		t.onCommit(false)
	}
}

// publish ends a commit, which has failed if err is not nil. What has failed in a living engine is not in it; the commit of a
// dead one stays pending, because the engine may show it yet to a reader that is inside.
func (t *TaskState) publish(v *view, err error) error {
	if err == nil {
		if t.onCommit != nil {
			t.onCommit(true)
		}
		t.view.Store(v)
		t.dirty.Store(true)
	}
	if err == nil || t.engine.dead() == nil {
		t.pending.Store(nil)
	}
	return err
}
