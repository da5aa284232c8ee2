package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
)

// follower is one incarnation of a global store: it reads every partition of the topic up to where it ended when the
// incarnation began, has the store served, and goes on reading. It belongs to one goroutine.
//
// Entries and offsets go into the state in one batch, so a crash costs what was not flushed, and a restart reads the rest
// only. A batch is handed back to the reader when it is in the state: what is read ahead is bounded by the reader's credit.
type follower struct {
	spec  *GlobalSpec
	epoch uint64
	// serve has a store actor spawned; nil if the incarnation was stopped meanwhile.
	serve func(context.Context, *TaskState) *actor.PID

	state *TaskState
	write *WriteLease
	inbox *broker.Inbox
	// topic is the id that the state belongs to, partitions how many are read.
	topic      string
	partitions int32
	reader     GlobalReader
	// at is the next offset of each partition; target where the bootstrap ends, of partitions that are not there yet.
	at, target map[record.TopicPartition]int64
	serving    bool
	status     lifecycle.Progress

	// What follows is read and not written yet: changes, where the partitions are after them, and what they cost.
	changes []change
	bytes   int
	moved   map[record.TopicPartition]int64
	credit  map[record.TopicPartition]int

	// marked is when the state was last known to be at the end.
	marked  time.Time
	down    bool
	looking bool
	wg      sync.WaitGroup
}

// looked is an event: what a look at the topic has found.
type looked struct {
	id         string
	partitions int32
	err        error
}

// heartbeat is how often a store whose topic is silent notes that it is at the end: what it has on disk must not look so
// old that it may have missed deletions. It is below the margin that restores leave for clocks.
const heartbeat = retentionMargin / 2

// follow runs until ctx ends, which is no error, or the incarnation fails.
func (f *follower) follow(ctx context.Context) (err error) {
	f.spec.Watcher.Opening(f.epoch)
	ctx, cancel := context.WithCancel(ctx)
	defer func() { err = f.end(cancel, err) }()
	return caught("global store", func() error {
		if err := f.open(ctx); err != nil {
			return stopped(ctx, err)
		}
		return stopped(ctx, f.run(ctx))
	})
}

// stopped hides what a stop has made fail.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// end lets go of everything.
func (f *follower) end(cancel context.CancelFunc, err error) error {
	cancel()
	f.spec.Watcher.Gone(f.epoch, err)
	if f.reader != nil {
		f.reader.Close()
	}
	f.wg.Wait()
	if f.state == nil {
		return err
	}
	if closed := f.state.Close(); closed != nil && err == nil {
		f.spec.Dir.opts.Logger.Warn("a global store did not close cleanly; its next start reads more of its topic", "store", f.spec.Store.Name, "error", closed)
	}
	return err
}

// open opens the state and decides from where to read.
func (f *follower) open(ctx context.Context) (err error) {
	if f.topic, f.partitions, err = f.spec.Topic.Lookup(ctx); err != nil {
		return err
	}
	if f.partitions == 0 {
		return ErrTopicMissing
	}
	st := f.spec.Store
	st.TopicID = f.topic
	state, report, err := f.spec.Dir.OpenTask(TaskSpec{Global: st.Name, ClusterID: f.spec.ClusterID, Stores: []StoreSpec{st}})
	if err != nil {
		return err
	}
	f.state = state
	if report.MovedAside() {
		f.spec.Dir.opts.Logger.Warn("the local copy of a global store could not be used; it was moved aside and is rebuilt from its topic", "store", st.Name, "report", report)
	}
	if f.write, err = state.Lease(f.epoch); err != nil {
		return err
	}
	return f.begin(ctx)
}

// begin decides for each partition as a restore does. If one of them cannot be completed the whole copy is discarded: an
// entry does not say which partition it came from.
func (f *follower) begin(ctx context.Context) error {
	ends, err := f.spec.Topic.Ends(ctx, f.partitions)
	if err != nil {
		return err
	}
	position, now := f.state.Position(), f.spec.Dir.opts.Now()
	f.at, f.target = map[record.TopicPartition]int64{}, map[record.TopicPartition]int64{}
	age := now.Sub(time.UnixMilli(f.state.WallClock()))
	unknown := len(position) == 0 && f.state.WallClock() == 0
	discard := DiscardNone
	for p := range f.partitions {
		tp := record.TopicPartition{Topic: f.spec.Store.Changelog, Partition: p}
		end, ok := ends[tp]
		if !ok {
			return &ChangelogError{Store: f.spec.Store.Name, Changelog: tp, Cause: ErrChangelogRange}
		}
		next, stored := position[tp]
		d := decide(local{stored: stored, empty: true, next: next, age: age}, end.LogRange, f.spec.Dir.opts.DeleteRetention-retentionMargin)
		f.at[tp] = d.from
		if d.discard != DiscardNone && discard == DiscardNone {
			discard = d.discard
			f.spec.Dir.opts.Logger.Warn("the local copy of a global store is discarded and read anew from its topic",
				"store", f.spec.Store.Name, "partition", tp, "why", discard, "offset", next, "start", end.Start, "end", end.HighWatermark)
		}
	}
	for tp, end := range ends {
		if discard != DiscardNone {
			f.at[tp] = end.Start
		}
		if f.at[tp] < end.End {
			f.target[tp] = end.End
			f.status.Remaining += end.End - f.at[tp]
		}
	}
	f.status.Started = now
	if discard != DiscardNone || unknown {
		err = f.discard()
	}
	return errors.Join(err, f.mark(now))
}

// discard deletes all entries and offsets in one batch.
func (f *follower) discard() error {
	t := f.state
	return t.write(f.epoch, func(v *view, b *pebble.Batch) error {
		clear(v.times)
		clear(v.position)
		if t.spec.Stores[0].InMemory {
			v.memories[0] = &memory{}
		}
		return wipe(b, t.numbers[0])
	})
}

// mark notes where the state is, and that it is all there was at that time.
func (f *follower) mark(now time.Time) error {
	f.marked = now
	return f.write.Apply(&Unit{Position: f.at, WallClock: now.UnixMilli()})
}

func (f *follower) run(ctx context.Context) (err error) {
	f.inbox = broker.NewInbox()
	if f.reader, err = f.spec.Topic.Open(f.partitions, f.inbox.Put); err != nil {
		return err
	}
	for tp, at := range f.at {
		f.reader.Start(tp, at)
	}
	f.moved, f.credit = map[record.TopicPartition]int64{}, map[record.TopicPartition]int{}
	f.spec.Watcher.Restoring(f.status)
	ticker := time.NewTicker(f.spec.Refresh)
	defer ticker.Stop()
	var events []broker.Event
	for {
		if err := f.reached(ctx); err != nil {
			return err
		}
		wake := f.inbox.Wake()
		if f.state.DiskFull() != nil {
			wake = nil // what it took in would find no place in memory either; its fetches stop for want of credit
		}
		select {
		case <-f.state.SpaceChanged():
			f.spec.Watcher.DiskFull(f.state.DiskFull())
		case <-wake:
			events = f.inbox.Poll(events[:0])
			err = f.take(ctx, events)
			clear(events)
		case <-ticker.C:
			err = f.tend(ctx)
		case <-f.state.Failed():
			err = f.state.Err()
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// reached has the store served once every partition is where it ended when the incarnation began.
func (f *follower) reached(ctx context.Context) error {
	if f.serving || len(f.target) > 0 {
		return nil
	}
	pid := f.serve(ctx, f.state)
	if pid == nil {
		return nil // it was stopped
	}
	f.serving = true
	f.spec.Dir.opts.Logger.Info("a global store has read its topic", "store", f.spec.Store.Name, "offsets", f.status.Restored, "took", f.spec.Dir.opts.Now().Sub(f.status.Started))
	f.spec.Watcher.Serving(f.state, pid, f.epoch)
	return nil
}

func (f *follower) take(ctx context.Context, events []broker.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case broker.Fetched:
			for i := range e.Batches {
				if err := f.add(ctx, &e.Batches[i]); err != nil {
					return err
				}
			}
		case broker.FetchFailed:
			return &ChangelogError{Store: f.spec.Store.Name, Changelog: e.Source, Offset: e.Position, Cause: e.Err}
		case broker.ConnectionChanged:
			f.down = !e.Up
		case looked:
			if err := f.found(e); err != nil {
				return err
			}
		}
	}
	return f.apply()
}

// add takes up a batch, and writes what has come together when that is enough.
func (f *follower) add(ctx context.Context, b *broker.Batch) error {
	if b.From != f.next(b.Source) {
		return nil // stale
	}
	for i := range b.Records {
		r := &b.Records[i]
		take, err := f.spec.Take(b.Source, r)
		if err != nil {
			return err
		}
		if take {
			f.changes = append(f.changes, change{key: r.Key, value: r.Value, timestamp: r.Timestamp, at: len(f.changes)})
			f.bytes += len(r.Key) + len(r.Value)
		}
	}
	f.moved[b.Source] = b.Next
	f.credit[b.Source] += b.Bytes
	if f.bytes >= batchBytesMax || len(f.changes) >= batchRecordsMax {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return f.apply()
	}
	return nil
}

func (f *follower) next(tp record.TopicPartition) int64 {
	if at, ok := f.moved[tp]; ok {
		return at
	}
	return f.at[tp]
}

// apply writes what was read, with the offsets after it, and gives its credit back.
func (f *follower) apply() error {
	if len(f.moved) == 0 {
		return nil
	}
	now := f.spec.Dir.opts.Now()
	u := &Unit{Position: f.moved, WallClock: now.UnixMilli()}
	for _, c := range lastOfEach(f.changes) {
		u.Writes = append(u.Writes, Write{Key: c.key, Value: c.value, Timestamp: c.timestamp})
	}
	if err := f.write.Apply(u); err != nil {
		return err
	}
	f.marked = now
	for tp, next := range f.moved {
		if target, ok := f.target[tp]; ok {
			f.status.Restored += min(next, target) - f.at[tp]
			f.status.Remaining -= min(next, target) - f.at[tp]
			if next >= target {
				delete(f.target, tp)
			}
		}
		f.at[tp] = next
		f.reader.Credit(tp, f.credit[tp])
	}
	clear(f.changes)
	f.changes, f.bytes = f.changes[:0], 0
	clear(f.moved)
	clear(f.credit)
	if !f.serving {
		f.spec.Watcher.Restoring(f.status)
	}
	return nil
}

// tend flushes a store that has fallen silent, notes that it is at the end, and looks at the topic, beside the loop since a
// cluster that is away keeps it waiting.
func (f *follower) tend(ctx context.Context) error {
	now := f.spec.Dir.opts.Now()
	if f.serving && !f.down && now.Sub(f.marked) >= heartbeat {
		if err := f.mark(now); err != nil {
			return err
		}
	}
	if !f.looking {
		f.looking = true
		f.wg.Go(func() {
			id, n, err := f.spec.Topic.Lookup(ctx)
			f.inbox.Put(looked{id, n, err})
		})
	}
	if err := f.state.MaybeFlush(now); err != nil {
		f.spec.Dir.opts.Logger.Warn("a global store cannot be flushed; a crash would cost a longer start", "store", f.spec.Store.Name, "error", err)
	}
	return nil
}

// found compares the topic with what it was. One that is gone leaves the store as it is: its entries are the last that are
// known, and may be wanted until there is a new one.
func (f *follower) found(l looked) error {
	f.looking = false
	switch {
	case l.err != nil:
		return l.err
	case l.partitions == 0:
		f.spec.Dir.opts.Logger.Warn("the topic of a global store is gone; the store stays as it is", "store", f.spec.Store.Name, "topic", f.spec.Store.Changelog)
		return nil
	case l.id != f.topic:
		return fmt.Errorf("%w (id %s, was %s)", ErrTopicRecreated, l.id, f.topic)
	}
	for ; f.partitions < l.partitions; f.partitions++ {
		tp := record.TopicPartition{Topic: f.spec.Store.Changelog, Partition: f.partitions}
		f.at[tp] = 0
		f.reader.Start(tp, 0)
	}
	return nil
}
