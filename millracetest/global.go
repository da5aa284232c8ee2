package millracetest

import (
	"bytes"
	"errors"
	"iter"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/plan"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/topology"
)

// globalWork is one global store: it has all that is in its topic before a task is given anything.
type globalWork struct {
	d       *Driver
	spec    topology.GlobalSpec
	records plan.GlobalRecords
	state   *store.TaskState
	actor   *actor.PID
	// epoch counts the times that the state was opened.
	epoch uint64
}

var _ topology.GlobalState = (*globalWork)(nil)

func (d *Driver) createGlobals() {
	for _, spec := range d.topology.Globals {
		d.router.SetPartitions(spec.Name, 1)
		g := &globalWork{d: d, spec: spec}
		g.records = plan.GlobalRecords{Topology: d.topology, Spec: &g.spec, Failed: func(source record.TopicPartition, offset int64, cause error, stack []byte) error {
			return &millrace.GlobalRecordError{Store: g.spec.Name, Source: source, Offset: offset, Cause: cause, Stack: stack}
		}}
		d.globals = append(d.globals, g)
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
	g.state, _, err = g.d.dir.OpenTask(store.TaskSpec{Global: g.spec.Name, Stores: []store.StoreSpec{plan.GlobalSpec(&g.spec)}})
	if err != nil {
		return err
	}
	if _, err := g.run(); err != nil {
		return err
	}
	g.actor = g.d.system.Root.Spawn(store.NewActorProps(g.state, 0, closed(g.spec.Name, 0)...))
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
			reason, _, err := g.records.Take(tp, &r)
			if err != nil {
				failure = err
				break
			}
			if reason == "" {
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
