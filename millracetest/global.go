package millracetest

import (
	"bytes"
	"errors"
	"iter"
	"runtime/debug"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/topology"
)

// globalWork is one global store: it has all that is in its topic before a task is given anything.
type globalWork struct {
	d     *Driver
	spec  topology.GlobalSpec
	state *store.TaskState
	actor *actor.PID
	// epoch counts the times that the state was opened.
	epoch uint64
}

var _ topology.GlobalState = (*globalWork)(nil)

func (d *Driver) createGlobals() {
	for _, spec := range d.topology.Globals {
		d.router.SetPartitions(spec.Name, 1)
		d.globals = append(d.globals, &globalWork{d: d, spec: spec})
	}
}

// global is what processors read of a global store; nil if there is none of that name.
func (d *Driver) global(name string) topology.GlobalState {
	for _, g := range d.globals {
		if g.spec.Name == name {
			return g
		}
	}
	return nil
}

func (g *globalWork) thread() string { return "global-" + g.spec.Name }

func (g *globalWork) became(state lifecycle.Thread) {
	g.d.router.Thread(lifecycle.ThreadStatus{Name: g.thread(), State: state, Epoch: g.epoch, Since: g.d.clock.now()})
}

// open opens the state as a disk has it, reads the rest of the topic, and has the store asked.
func (g *globalWork) open() (err error) {
	g.epoch++
	g.became(lifecycle.ThreadRebalancing)
	g.d.router.Opening(g.spec.Name, 0, g.thread(), g.epoch)
	g.state, _, err = g.d.dir.OpenTask(store.TaskSpec{Global: g.spec.Name, Stores: []store.StoreSpec{{
		Name: g.spec.Name, Kind: g.spec.Kind, KeyCodec: g.spec.KeyCodec, ValueCodec: g.spec.ValueCodec, Changelog: g.spec.Topic, InMemory: g.spec.InMemory,
	}}})
	if err != nil {
		return err
	}
	if _, err := g.run(); err != nil {
		return err
	}
	closed := query.New(query.StateStoreMigrated, g.spec.Name, 0)
	closed.Cause = query.ErrStateStoreClosed
	g.actor = g.d.system.Root.Spawn(store.NewActorProps(g.state, 0, actors.Hardened(func(any) any { return query.ToReply(closed) })...))
	g.d.router.Serving(g.spec.Name, 0, g.actor, g.epoch)
	g.became(lifecycle.ThreadRunning)
	return nil
}

// close ends what open has started; each part may be missing.
func (g *globalWork) close() (err error) {
	g.d.router.Revoked(g.spec.Name, 0, "")
	if g.actor != nil {
		err = g.d.system.Root.StopFuture(g.actor).Wait()
	}
	if g.state != nil {
		err = errors.Join(err, g.state.Close())
	}
	g.actor, g.state = nil, nil
	return err
}

// run takes up what is new in the topic; moved says that there was something. A record that the topology's handler does not
// let go stays the next one.
func (g *globalWork) run() (moved bool, err error) {
	for p := range g.d.topics.counts[g.spec.Topic] {
		tp := record.TopicPartition{Topic: g.spec.Topic, Partition: p}
		from, last := g.state.Position()[tp], map[string]store.Write{}
		next := from
		var failure error
		for _, r := range g.d.topics.logs[tp][from:] {
			take, err := g.take(tp, &r)
			if err != nil {
				failure = err
				break
			}
			if take {
				last[string(r.Key)] = store.Write{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
			}
			next = r.Offset + 1
		}
		if next > from {
			moved = true
			failure = errors.Join(failure, g.apply(tp, next, last))
		}
		err = errors.Join(err, failure)
	}
	return moved, err
}

func (g *globalWork) apply(tp record.TopicPartition, next int64, last map[string]store.Write) error {
	u := &store.Unit{Position: record.Position{tp: next}, WallClock: g.d.clock.now().UnixMilli()}
	for _, w := range last {
		u.Writes = append(u.Writes, w)
	}
	slices.SortFunc(u.Writes, func(a, b store.Write) int { return bytes.Compare(a.Key, b.Key) })
	return g.state.Apply(u)
}

// take decides about a record as a node does: one without a key is left out, and so is one that the codecs cannot read if
// the topology's handler lets it go.
func (g *globalWork) take(tp record.TopicPartition, r *record.Raw) (bool, error) {
	if r.Key == nil {
		return false, nil
	}
	err := g.check(tp, r)
	if err == nil {
		return true, nil
	}
	handlers := g.d.topology.Handlers()
	switch handlers.Answer(topology.ErrorContext{Stage: topology.Deserialization, Node: g.spec.Name, Source: tp, Input: r}, err) {
	case topology.Skip, topology.DeadLetter:
		return false, nil
	}
	return false, err
}

// check reads a record with the store's codecs. A panic of one is as good as an error.
func (g *globalWork) check(tp record.TopicPartition, r *record.Raw) (err error) {
	failed := &millrace.GlobalRecordError{Store: g.spec.Name, Source: tp, Offset: r.Offset}
	defer func() {
		if v := recover(); v != nil {
			failed.Stack = debug.Stack()
			failed.Cause = &task.Panic{Value: v, Stack: failed.Stack}
			err = failed
		}
	}()
	if failed.Cause = g.spec.Check(r); failed.Cause != nil {
		return failed
	}
	return nil
}

// Get implements topology.GlobalState.
func (g *globalWork) Get(key []byte) (value []byte, timestamp int64, ok bool, err error) {
	return g.state.Get(0, key)
}

// Scan implements topology.GlobalState.
func (g *globalWork) Scan(from, to []byte, reverse bool) iter.Seq2[topology.GlobalEntry, error] {
	return func(yield func(topology.GlobalEntry, error) bool) {
		for e, err := range g.state.Scan(0, from, to, reverse) {
			if !yield(topology.GlobalEntry(e), err) {
				return
			}
		}
	}
}
