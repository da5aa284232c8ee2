package millracetest

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// reference is what a topology makes of a cluster's records: two runs of it, one that commits after each record, and so says
// everything that it could say, and one that commits once.
type reference struct {
	// logs are the committed records of every topic of the topology.
	logs         map[record.TopicPartition][]record.Raw
	every, least *replayed
}

// replayed is one run.
type replayed struct {
	*Driver
	// sent is what each task has sent, changelogs included, by where to.
	sent map[record.TopicPartition]map[record.TaskID][]record.Raw
}

func (r *reference) close() {
	r.every.Close()
	r.least.Close()
}

// replay runs the reference; nil if the topics cannot be read, or the topology fails.
func (c *checking) replay() *reference {
	counts, err := c.counts()
	if err != nil {
		c.report(Unknown, "the topics", "they can be read", err.Error())
		return nil
	}
	ref := &reference{logs: map[record.TopicPartition][]record.Raw{}}
	starts := map[record.TopicPartition]int64{}
	for topic, n := range counts {
		for p := range n {
			tp := record.TopicPartition{Topic: topic, Partition: p}
			if ref.logs[tp], starts[tp], err = c.cluster.committed(c.ctx, tp); err != nil {
				c.report(Unknown, tp.String(), "it can be read", err.Error())
				return nil
			}
		}
	}
	for _, run := range []struct {
		into   **replayed
		budget int
	}{{&ref.every, 1}, {&ref.least, 1 << 30}} {
		if *run.into, err = c.run(ref, starts, counts, run.budget); err != nil {
			c.report(Unknown, "the reference", "the topology runs", err.Error())
			if ref.every != nil {
				ref.every.Close()
			}
			return nil
		}
	}
	return ref
}

// counts are the partition counts of the topics that the topology reads and writes, changelogs included.
func (c *checking) counts() (map[string]int32, error) {
	names := append(c.bound.ExternalTopics(), c.bound.InternalTopics(c.cluster.app)...)
	slices.Sort(names)
	names = slices.Compact(names)
	infos, err := c.cluster.admin.Topics(c.ctx, names...)
	counts := map[string]int32{}
	for name, info := range infos {
		counts[name] = info.Partitions
	}
	for _, name := range names {
		if counts[name] == 0 && err == nil {
			err = fmt.Errorf("topic %q does not exist", name)
		}
	}
	return counts, err
}

// run makes one run: each task on what its sources hold.
func (c *checking) run(ref *reference, starts map[record.TopicPartition]int64, counts map[string]int32, budget int) (*replayed, error) {
	r := &replayed{sent: map[record.TopicPartition]map[record.TaskID][]record.Raw{}}
	r.Driver = &Driver{tb: c.cluster.tb, opts: defaults(), topics: newTopics(), fs: memory(), topology: c.bound}
	r.opts.app, r.opts.logger = c.cluster.app, slog.New(slog.DiscardHandler)
	r.clock.set(r.opts.now)
	for _, topic := range r.topology.ExternalTopics() {
		r.opts.partitions[topic] = counts[topic]
	}
	if err := r.start(); err != nil {
		return nil, err
	}
	for tp := range ref.logs {
		if r.plan.Reader(tp.Topic) != nil || slices.ContainsFunc(r.topology.Globals, func(g topology.GlobalSpec) bool { return g.Topic == tp.Topic }) {
			r.topics.logs[tp] = renumbered(ref.logs[tp])
		}
	}
	for _, g := range r.globals {
		if _, err := g.run(); err != nil {
			return r, r.abandon(err)
		}
	}
	for _, w := range r.works {
		for _, tp := range w.sources {
			if starts[tp] > 0 {
				ref.logs[tp] = r.purged(tp, ref.logs[tp])
				r.topics.logs[tp] = renumbered(ref.logs[tp])
			}
		}
		if err := r.replay(w, budget); err != nil {
			return r, r.abandon(err)
		}
	}
	return r, nil
}

func (r *replayed) abandon(err error) error {
	r.Close()
	return err
}

// replay runs one task to the end of its sources.
func (r *replayed) replay(w *work, budget int) error {
	w.sends.kept = func(out broker.Outgoing) {
		if r.sent[out.To] == nil {
			r.sent[out.To] = map[record.TaskID][]record.Raw{}
		}
		r.sent[out.To][w.id] = append(r.sent[out.To][w.id], out.Record)
	}
	w.feed()
	now := r.clock.now()
	for {
		n, err := w.task.Process(now, budget)
		if err == nil {
			err = w.task.Punctuate(now)
		}
		if err != nil {
			return err
		}
		if w.task.NeedsCommit() || w.task.CommitRequested() {
			if err := w.commit(); err != nil {
				return err
			}
		}
		if n == 0 {
			return nil
		}
	}
}

// purged is a repartition partition whose beginning was deleted because it was processed: what the reference has sent there
// and is not there is put before it.
func (r *replayed) purged(tp record.TopicPartition, left []record.Raw) (all []record.Raw) {
	there := map[string]int{}
	for _, rec := range left {
		there[fmt.Sprintf("%q %q %d", rec.Key, rec.Value, rec.Timestamp)]++
	}
	for _, id := range r.Tasks() {
		for _, rec := range r.sent[tp][id] {
			if key := fmt.Sprintf("%q %q %d", rec.Key, rec.Value, rec.Timestamp); there[key] > 0 {
				there[key]--
			} else {
				all = append(all, rec)
			}
		}
	}
	return append(all, left...)
}

// renumbered are the records as if they were all that the log ever held.
func renumbered(records []record.Raw) []record.Raw {
	out := slices.Clone(records)
	for i := range out {
		out[i].Offset = int64(i)
	}
	return out
}
