package millracetest

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/topology"
)

// work is one task, its state, and where it is in its sources.
type work struct {
	d       *Driver
	id      record.TaskID
	sub     *topology.SubTopology
	sources []record.TopicPartition
	sends   interval

	task   *task.Task
	state  *store.TaskState
	actors []*actor.PID
	// epoch counts the times that the state was opened.
	epoch uint64
	// committed is where the task goes back to; fed is up to where it was given its sources.
	committed broker.Offsets
	fed       map[record.TopicPartition]int64
}

// createWorks makes one work for each task, those that feed others first.
func (d *Driver) createWorks() {
	for _, s := range upstreamFirst(d.topology) {
		n := int32(0)
		for _, src := range s.Sources {
			n = max(n, d.topics.counts[src.Topic])
		}
		for _, st := range s.Stores {
			d.router.SetPartitions(st.Name, n)
			if st.Changelog {
				d.topics.counts[topology.ChangelogTopic(app, st.Name)] = n
			}
		}
		for p := range n {
			d.works = append(d.works, newWork(d, s, p))
		}
	}
}

func newWork(d *Driver, s *topology.SubTopology, partition int32) *work {
	w := &work{d: d, id: record.TaskID{SubTopology: s.ID, Partition: partition}, sub: s, sends: interval{topics: d.topics}, committed: broker.Offsets{}}
	for _, src := range s.Sources {
		if partition < d.topics.counts[src.Topic] {
			tp := record.TopicPartition{Topic: src.Topic, Partition: partition}
			w.sources = append(w.sources, tp)
			w.committed[tp] = broker.Offset{}
		}
	}
	return w
}

// upstreamFirst orders sub-topologies by how many repartition topics lie before them; those of a circle by their numbers.
func upstreamFirst(t *topology.Topology) []*topology.SubTopology {
	reads := map[string]*topology.SubTopology{}
	for _, s := range t.SubTopologies {
		for _, src := range s.Sources {
			reads[src.Topic] = s
		}
	}
	depth := map[int32]int{}
	for range t.SubTopologies {
		for _, s := range t.SubTopologies {
			for _, sink := range s.Sinks {
				if down := reads[sink.Topic]; down != nil && down != s {
					depth[down.ID] = max(depth[down.ID], min(depth[s.ID]+1, len(t.SubTopologies)))
				}
			}
		}
	}
	return slices.SortedFunc(slices.Values(t.SubTopologies), func(a, b *topology.SubTopology) int {
		return cmp.Or(cmp.Compare(depth[a.ID], depth[b.ID]), cmp.Compare(a.ID, b.ID))
	})
}

// open restores the state, starts the task and its store actors.
func (w *work) open() (err error) {
	w.epoch++
	for _, st := range w.sub.Stores {
		w.d.router.Opening(st.Name, w.id.Partition, only, w.epoch)
	}
	if w.state, _, err = w.d.dir.OpenTask(w.spec()); err != nil {
		return err
	}
	for i, st := range w.sub.Stores {
		if st.Changelog {
			if _, err := store.Restore(context.Background(), w.state, i, w.d.topics, nil); err != nil {
				return err
			}
		}
	}
	if w.task, err = task.New(w.config()); err != nil {
		return err
	}
	w.task.Restoring()
	if err := w.begin(w.committed); err != nil {
		return err
	}
	return w.serve()
}

func (w *work) spec() store.TaskSpec {
	spec := store.TaskSpec{ID: w.id, Partition: w.id.Partition}
	for _, st := range w.sub.Stores {
		s := store.StoreSpec{Name: st.Name, Kind: st.Kind, KeyCodec: st.KeyCodec, ValueCodec: st.ValueCodec, Retention: st.Retention, InMemory: st.InMemory}
		if st.Changelog {
			s.Changelog = topology.ChangelogTopic(app, st.Name)
		}
		spec.Stores = append(spec.Stores, s)
	}
	return spec
}

func (w *work) config() task.Config {
	cfg := task.Config{ID: w.id, Sources: w.sources, State: state{w.state}, Producer: &w.sends, CacheBytes: w.d.opts.cacheBytes}
	for _, st := range w.sub.Stores {
		c := task.StoreConfig{Name: st.Name}
		if st.Changelog {
			c.Changelog = record.TopicPartition{Topic: topology.ChangelogTopic(app, st.Name), Partition: w.id.Partition}
		}
		cfg.Stores = append(cfg.Stores, c)
	}
	cfg.Chain = func(h topology.Host) (task.Chain, error) { return w.sub.Instantiate(h) }
	return cfg
}

// begin starts the task at the given positions, and tells it where its sources end, so that it waits for none of them.
func (w *work) begin(at broker.Offsets) error {
	if err := w.task.Start(w.d.clock.now(), at); err != nil {
		return err
	}
	w.fed = map[record.TopicPartition]int64{}
	for tp, o := range at {
		w.fed[tp] = o.At
		w.task.Add(broker.Batch{Source: tp, From: o.At, Next: o.At, HighWatermark: o.At, LastStable: o.At, LeaderEpoch: -1})
	}
	return nil
}

func (w *work) serve() error {
	w.actors = w.actors[:0]
	for i, st := range w.sub.Stores {
		closed := query.New(query.StateStoreMigrated, st.Name, w.id.Partition)
		closed.Cause = query.ErrStateStoreClosed
		pid := w.d.system.Root.Spawn(store.NewActorProps(w.state, i, actors.Hardened(func(any) any { return query.ToReply(closed) })...))
		w.actors = append(w.actors, pid)
		w.d.router.Serving(st.Name, w.id.Partition, pid, w.epoch)
	}
	return nil
}

// close ends what open has started; each part may be missing.
func (w *work) close() (err error) {
	for _, st := range w.sub.Stores {
		w.d.router.Revoked(st.Name, w.id.Partition, "")
	}
	for _, pid := range w.actors {
		err = errors.Join(err, w.d.system.Root.StopFuture(pid).Wait())
	}
	w.actors = nil
	if w.task != nil {
		err = errors.Join(err, w.task.Close())
	}
	if w.state != nil {
		err = errors.Join(err, w.state.Close())
	}
	w.task, w.state = nil, nil
	w.sends.abort()
	return err
}

// feed gives the task what is new in its sources.
func (w *work) feed() {
	for _, tp := range w.sources {
		if b := w.d.topics.batch(tp, w.fed[tp]); b.Next > b.From && w.task.Add(b) {
			w.fed[tp] = b.Next
		}
	}
}

// turn processes all that is there, and commits it. moved says that there was something.
func (w *work) turn() (moved bool, err error) {
	w.feed()
	now := w.d.clock.now()
	for {
		n, err := w.task.Process(now, 1000)
		if err != nil {
			return true, w.failed(err)
		}
		if err := w.task.Punctuate(now); err != nil {
			return true, w.failed(err)
		}
		if n == 0 && !w.task.CommitRequested() {
			break
		}
		if w.task.CommitRequested() {
			if err := w.commit(); err != nil {
				return true, err
			}
		}
	}
	if !w.task.NeedsCommit() {
		return false, nil
	}
	return true, w.commit()
}

func (w *work) commit() error {
	u, err := w.task.Prepare(w.d.clock.now())
	if err != nil {
		return w.failed(err)
	}
	ends := w.sends.commit()
	maps.Copy(w.committed, u.Offsets)
	w.task.Committed(u)
	if err := w.state.Apply(w.unit(u, ends)); err != nil {
		return err
	}
	w.task.Applied(u)
	return nil
}

func (w *work) unit(u *task.Unit, ends map[record.TopicPartition]int64) *store.Unit {
	out := &store.Unit{Writes: make([]store.Write, len(u.Writes)), Position: u.Position, WallClock: u.WallClock}
	for i, x := range u.Writes {
		out.Writes[i] = store.Write(x)
	}
	for i, st := range w.sub.Stores {
		tp := record.TopicPartition{Topic: topology.ChangelogTopic(app, st.Name), Partition: w.id.Partition}
		if next, ok := ends[tp]; ok {
			out.Changelog = append(out.Changelog, store.StoreOffset{Store: i, Next: next})
		}
	}
	return out
}

// failed takes back what is not committed, as a thread does after a failure.
func (w *work) failed(cause error) error {
	w.sends.abort()
	at := w.task.Rewind()
	return errors.Join(cause, w.begin(at))
}

// run gives the tasks turns until none of them has anything to do. After a failure, the others have had theirs.
func (d *Driver) run() (failure error) {
	failed := map[*work]bool{}
	for moved := true; moved; {
		moved = false
		for _, w := range d.works {
			if failed[w] {
				continue
			}
			m, err := w.turn()
			if err != nil {
				failed[w] = true
				failure = errors.Join(failure, err)
			}
			moved = moved || m
		}
	}
	return failure
}

// state gives a task its view of what store keeps.
type state struct{ *store.TaskState }

// Scan implements task.State.
func (s state) Scan(number int, from, to []byte, reverse bool) iter.Seq2[task.Entry, error] {
	return func(yield func(task.Entry, error) bool) {
		for e, err := range s.TaskState.Scan(number, from, to, reverse) {
			if !yield(task.Entry(e), err) {
				return
			}
		}
	}
}
