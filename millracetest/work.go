package millracetest

import (
	"context"
	"errors"
	"maps"

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

	task    *task.Task
	state   *store.TaskState
	backlog *backlog
	actors  []*actor.PID
	// epoch counts the times that the state was opened.
	epoch uint64
	// committed is where the task goes back to; fed is up to where it was given its sources.
	committed broker.Offsets
	fed       map[record.TopicPartition]int64
}

// createWorks makes one work for each task, those that feed others first.
func (d *Driver) createWorks() {
	for _, s := range d.plan.UpstreamFirst() {
		n := d.plan.Partitions(s)
		for _, st := range s.Stores {
			d.router.SetPartitions(st.Name, n)
			if st.Changelog {
				d.topics.counts[topology.ChangelogTopic(d.opts.app, st.Name)] = n
			}
		}
		for i := range n {
			id := record.TaskID{SubTopology: s.ID, Partition: i}
			w := &work{d: d, id: id, sub: s, sources: d.plan.Sources(id), sends: interval{topics: d.topics}, committed: broker.Offsets{}}
			for _, tp := range w.sources {
				w.committed[tp] = broker.Offset{}
			}
			d.works = append(d.works, w)
		}
	}
}

// open restores the state, starts the task and its store actors.
func (w *work) open() (err error) {
	w.epoch++
	for _, st := range w.sub.Stores {
		w.d.router.Opening(st.Name, w.id.Partition, only, w.epoch)
	}
	if w.state, _, err = w.d.dir.OpenTask(w.d.plan.TaskSpec(w.id, "", func(string) string { return "" })); err != nil {
		return err
	}
	w.backlog = newBacklog(w.state)
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
	w.serve()
	return nil
}

func (w *work) config() task.Config {
	cfg := w.d.plan.TaskConfig(w.id)
	cfg.State, cfg.Producer, cfg.CacheBytes, cfg.Global = w.backlog, &w.sends, w.d.opts.cacheBytes, w.d.global
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

func (w *work) serve() {
	w.actors = w.actors[:0]
	for i, st := range w.sub.Stores {
		props := store.NewActorProps(w.state, i, closed(st.Name, w.id.Partition)...)
		pid := w.d.system.Root.Spawn(props.Configure(actor.WithReceiverMiddleware(w.backlog.beforehand)))
		w.actors = append(w.actors, pid)
		w.d.router.Serving(st.Name, w.id.Partition, pid, w.epoch)
	}
}

// closed are the options of a store actor that answers, once it is closed, that it is.
func closed(store string, partition int32) []actor.PropsOption {
	f := query.New(query.StateStoreMigrated, store, partition)
	f.Cause = query.ErrStateStoreClosed
	return actors.Hardened(func(any) any { return query.ToReply(f) })
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
		err = errors.Join(err, w.backlog.look(), w.state.Close())
	}
	w.task, w.state, w.backlog = nil, nil, nil
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
	if err := w.backlog.add(w.d.plan.Unit(u, ends)); err != nil {
		return err
	}
	w.task.Applied(u)
	return nil
}

// failed takes back what is not committed, as a thread does after a failure.
func (w *work) failed(cause error) error {
	w.sends.abort()
	at := w.task.Rewind()
	return errors.Join(cause, w.begin(at))
}

// run gives the tasks turns until none of them has anything to do. After a failure, the others have had theirs.
func (d *Driver) run() (failure error) {
	var failed map[*work]bool // made at the first failure: a run for each record is common
	for moved := true; moved; {
		moved = false
		for _, g := range d.globals {
			m, err := g.run()
			if err != nil {
				return errors.Join(failure, err)
			}
			moved = moved || m
		}
		for _, w := range d.works {
			if failed[w] {
				continue
			}
			m, err := w.turn()
			if err != nil {
				if failed == nil {
					failed = map[*work]bool{}
				}
				failed[w] = true
				failure = errors.Join(failure, err)
			}
			moved = moved || m
		}
	}
	return failure
}
