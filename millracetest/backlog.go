package millracetest

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/internal/plan"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/task"
)

// backlog is a task's committed state: what is in the engine, and the units that were committed since and that nobody has
// looked for. A test that sends its records one by one commits each of them, and a write to the engine for each costs more than
// all the rest. So units are put together as if one commit had made them, and are written when somebody looks: the task reads
// its state, the store's actor is told anything at all, the clock has moved, the state is closed, or there is much.
//
// Nobody can tell. What is in the topics is there at once, and readers only ever see the state after the last commit. The
// state's clock, offsets and highest timestamps are those that the units would have left one by one: units of two times are
// not put together, nor is a write with one of the same key and a later timestamp. The first unit of a new time is written at
// once, because the engine flushes by the clock, and what a power cut leaves depends on that.
//
// Rejected: to wait with Prepare, too. Aggregations emit there, and are to do so once for each Send.
type backlog struct {
	state plan.State
	// The mutex protects everything below: questions come from any goroutine while the Driver's own commits. An owner
	// goroutine would bring back the hop for each record that this is here to spare.
	mu    sync.Mutex
	unit  store.Unit
	index map[place]int
	units int
	bytes int
	// clock is that of the last unit.
	clock int64
	// err is why a unit could not be written. There is no state after it.
	err error
}

// place is one key of a store.
type place struct {
	store int
	key   string
}

// What waits for a reader is no more than this.
const (
	backlogKeys  = 1 << 10
	backlogBytes = 1 << 20
)

var _ task.State = (*backlog)(nil)

func newBacklog(state *store.TaskState) *backlog {
	return &backlog{state: plan.State{TaskState: state}, index: map[place]int{}, unit: store.Unit{Position: record.Position{}}, clock: -1}
}

// add takes a unit, which is copied, as the next commit.
func (b *backlog) add(u *store.Unit) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.older(u) {
		b.write()
	}
	b.merge(u)
	if u.WallClock != b.clock || len(b.unit.Writes) >= backlogKeys || b.bytes >= backlogBytes {
		b.write()
	}
	b.clock = u.WallClock
	return b.err
}

// older says that the unit writes a key with an earlier timestamp than one that waits. The store's time is the highest that
// it was ever given, and would miss the one that is overwritten.
func (b *backlog) older(u *store.Unit) bool {
	return slices.ContainsFunc(u.Writes, func(w store.Write) bool {
		i, ok := b.index[place{w.Store, string(w.Key)}]
		return ok && w.Timestamp < b.unit.Writes[i].Timestamp
	})
}

func (b *backlog) merge(u *store.Unit) {
	for _, w := range u.Writes {
		b.put(w)
	}
	for _, o := range u.Changelog {
		if i := slices.IndexFunc(b.unit.Changelog, func(p store.StoreOffset) bool { return p.Store == o.Store }); i >= 0 {
			b.unit.Changelog[i] = o
		} else {
			b.unit.Changelog = append(b.unit.Changelog, o)
		}
	}
	maps.Copy(b.unit.Position, u.Position)
	b.unit.WallClock = u.WallClock
	b.units++
}

func (b *backlog) put(w store.Write) {
	i, ok := b.index[place{w.Store, string(w.Key)}]
	if !ok {
		i = len(b.unit.Writes)
		b.index[place{w.Store, string(w.Key)}] = i
		b.unit.Writes = append(b.unit.Writes, store.Write{Store: w.Store, Key: bytes.Clone(w.Key)})
		b.bytes += len(w.Key)
	}
	old := &b.unit.Writes[i]
	b.bytes += len(w.Value) - len(old.Value)
	old.Timestamp = w.Timestamp
	switch {
	case w.Value == nil:
		old.Value = nil
	case old.Value == nil:
		old.Value = append([]byte{}, w.Value...)
	default:
		old.Value = append(old.Value[:0], w.Value...)
	}
}

// write applies what waits. It is called with the mutex.
func (b *backlog) write() {
	if b.units == 0 || b.err != nil {
		return
	}
	slices.SortFunc(b.unit.Writes, func(v, w store.Write) int {
		return cmp.Or(cmp.Compare(v.Store, w.Store), bytes.Compare(v.Key, w.Key))
	})
	b.err = b.state.Apply(&b.unit)
	clear(b.index)
	clear(b.unit.Writes)
	b.unit.Writes, b.unit.Changelog, b.units, b.bytes = b.unit.Writes[:0], b.unit.Changelog[:0], 0, 0
}

// look brings the engine to the last commit; its error is that of a write, now or earlier.
func (b *backlog) look() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.write()
	return b.err
}

// beforehand is receiver middleware of the stores' actors: each message finds the last commit in the engine. That holds for
// questions of whatever way, for the pages and the counts that an actor goes on with, and for its look at whether a position is
// reached that somebody waits for.
func (b *backlog) beforehand(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, e *actor.MessageEnvelope) {
		err := b.look()
		if _, question := e.Message.(query.Question); question && err != nil {
			panic(err) // rather than an answer from before
		}
		next(ctx, e)
	}
}

// Get implements task.State.
func (b *backlog) Get(st int, key []byte) (value []byte, timestamp int64, ok bool, err error) {
	if err := b.look(); err != nil {
		return nil, 0, false, err
	}
	return b.state.Get(st, key)
}

// Scan implements task.State.
func (b *backlog) Scan(st int, from, to []byte, reverse bool) iter.Seq2[task.Entry, error] {
	return func(yield func(task.Entry, error) bool) {
		if err := b.look(); err != nil {
			yield(task.Entry{}, err)
			return
		}
		b.state.Scan(st, from, to, reverse)(yield)
	}
}

// Time implements task.State. An error is met by whoever reads next.
func (b *backlog) Time(st int) int64 { _ = b.look(); return b.state.Time(st) }

// Position implements task.State. An error is met by whoever reads next.
func (b *backlog) Position() record.Position { _ = b.look(); return b.state.Position() }
