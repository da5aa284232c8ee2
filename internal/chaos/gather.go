package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/millrace-io/millrace/internal/chaos/oracle"
	"github.com/millrace-io/millrace/internal/chaos/wire"
	"github.com/millrace-io/millrace/record"
)

// gather stops the feeder, lets the nodes finish and end, and collects what there is to know.
func (r *run) gather(ctx context.Context) (w oracle.World, err error) {
	r.say("the faults are over; draining")
	if err := r.feeder.stop(); err != nil {
		return w, err
	}
	if err := r.drained(ctx); err != nil {
		return w, err
	}
	stores, err := r.stores(ctx)
	if err != nil {
		return w, err
	}
	for _, n := range r.nodes {
		if err := n.end(ctx, true); err != nil {
			return w, err
		}
	}
	r.say("all nodes have ended; reading")
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	if err := r.observer.finish(); err != nil {
		return w, err
	}
	return r.world(ctx, stores)
}

// world reads everything that the brokers have. Nobody may write any more.
func (r *run) world(ctx context.Context, stores shards) (w oracle.World, err error) {
	w = oracle.World{Guarantee: oracle.Guarantee(r.guarantee.String()), Producers: r.producers()}
	if r.strict {
		w.Guarantee = oracle.ExactlyOnce
	}
	if w.Offsets, err = r.offsets(ctx); err != nil {
		return w, err
	}
	undone := map[wire.Transaction]bool{}
	for _, j := range jobs {
		known, err := r.known(ctx, j, undone)
		if err != nil {
			return w, err
		}
		known.Stores = stores[j.name]
		w.Jobs = append(w.Jobs, known)
	}
	r.abortMarkers = len(undone)
	return w, nil
}

// drained waits until the group is at the ends of its sources, and the stores with it.
func (r *run) drained(ctx context.Context) error {
	err := r.await(ctx, "the committed offsets to reach the ends", drainLimit, func(ctx context.Context) error {
		offsets, err := r.offsets(ctx)
		if err != nil {
			return err
		}
		for _, o := range offsets {
			if o.Committed != o.End {
				return fmt.Errorf("%s-%d is at %d of %d", o.Topic, o.Partition, o.Committed, o.End)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Offsets are committed a moment before the stores have taken the interval up; the nodes know when they have.
	return r.await(ctx, "the stores to take up what is committed", drainLimit, func(ctx context.Context) error {
		for _, n := range r.nodes {
			var text string
			if err := n.ask(ctx, http.MethodPost, "/drain", &text); err != nil {
				return err
			}
		}
		return nil
	})
}

// offsets compares the group's offsets with the ends. Upstream comes first, and a partition with an open transaction is
// not at its end, so that equality everywhere means that nothing more will come.
func (r *run) offsets(ctx context.Context) (offsets []oracle.Offset, err error) {
	tps := sources()
	committed, err := r.client.Committed(ctx, application, tps)
	if err != nil {
		return nil, err
	}
	ends, err := r.client.Ends(ctx, tps)
	if err != nil {
		return nil, err
	}
	for _, tp := range tps {
		o := oracle.Offset{Topic: tp.Topic, Partition: tp.Partition, Committed: max(committed[tp], 0), End: ends[tp].HighWatermark}
		if ends[tp].LastStable != ends[tp].HighWatermark {
			o.Committed = -1
		}
		offsets = append(offsets, o)
	}
	return offsets, nil
}

// stores asks every node for all that it has.
func (r *run) stores(ctx context.Context) (shards, error) {
	all := shards{}
	err := r.await(ctx, "the nodes to show their stores", drainLimit, func(ctx context.Context) error {
		clear(all)
		for _, n := range r.nodes {
			found := shards{}
			if err := n.ask(ctx, http.MethodGet, "/stores", &found); err != nil {
				return err
			}
			for store, parts := range found {
				for _, s := range parts {
					s.Node = n.name()
					all[store] = append(all[store], s)
				}
			}
		}
		return nil
	})
	return all, err
}

// known reads one job's topics.
func (r *run) known(ctx context.Context, j job, undone map[wire.Transaction]bool) (oracle.Job, error) {
	o := oracle.Job{Name: j.name, Rich: j.rich, Partitions: partitions, Inputs: r.feeder.books(j), Seen: r.observer.outputs(j)}
	for p := range int32(partitions) {
		err := r.read(ctx, j.input, p, undone, func(raw record.Raw) error {
			in, err := j.readInput(p, &raw)
			o.Log = append(o.Log, in)
			return err
		})
		if err != nil {
			return o, err
		}
		err = r.read(ctx, j.output, p, undone, func(raw record.Raw) error {
			out, err := j.readOutput(p, &raw)
			o.Outputs = append(o.Outputs, out)
			return err
		})
		if err != nil {
			return o, err
		}
		entries := map[string]oracle.Entry{}
		if err := r.read(ctx, j.changelog, p, undone, func(raw record.Raw) error { return j.fold(entries, p, &raw) }); err != nil {
			return o, err
		}
		o.Changelog = append(o.Changelog, oracle.Shard{Partition: p, Entries: slices.Collect(maps.Values(entries))})
	}
	return o, nil
}

// read reads what is committed in a partition and notes the transactions that were aborted in it.
func (r *run) read(ctx context.Context, topic string, p int32, undone map[wire.Transaction]bool, each func(record.Raw) error) error {
	reader, err := r.client.NewReader(ctx, record.TopicPartition{Topic: topic, Partition: p})
	if err != nil {
		return err
	}
	err = reader.All(ctx, each)
	maps.Copy(undone, reader.Aborted)
	return err
}

// producers is what each process said about its producers.
func (r *run) producers() (all []oracle.Producers) {
	for _, n := range r.nodes {
		for i := 1; i <= n.incarnation; i++ {
			if c, ok := n.counters(i); ok {
				all = append(all, oracle.Producers{Node: fmt.Sprintf("%s, process %d", n.name(), i), Created: c.Producers, Slots: uint64(r.threads)})
			}
		}
	}
	return all
}

// count adds up what all processes reported.
func (r *run) count() {
	for _, n := range r.nodes {
		for i := 1; i <= n.incarnation; i++ {
			if c, ok := n.counters(i); ok {
				r.totals.counters.add(c)
			}
		}
	}
	if r.feeder != nil {
		r.totals.Records = r.feeder.fed.Load()
	}
	r.totals.Runs = 1
	r.totals.Seeds = []uint64{r.seed}
}
