package thread_test

import (
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/task/tasktest"
	"github.com/millrace-io/millrace/thread"
)

// must checks that nothing is asked for in the name of a task that was given up.
func (n *node) must(call string, tps ...record.TopicPartition) {
	for _, tp := range tps {
		if !n.held[tp.Partition] {
			n.w.fatal("%s: %s of %s, which was given up", n.name, call, tp)
		}
	}
}

type groupPort node

// Released implements thread.Group.
func (g *groupPort) Released(generation int32, tps []record.TopicPartition) {
	(*node)(g).asks("released %v of generation %d", tps, generation)
	n := (*node)(g)
	for _, tp := range tps {
		if d := n.disks[tp.Partition]; d.open || len(d.jobs) > 0 {
			n.w.fatal("%s releases %s, which is not closed", n.name, tp)
		}
		for _, a := range n.cur {
			if n.w.exactlyOnce && a.tp.Partition == tp.Partition {
				n.w.fatal("%s releases %s, of which records are not committed", n.name, tp)
			}
		}
	}
	if n.phase != revoking || generation != n.gen {
		return
	}
	n.owned = slices.DeleteFunc(n.owned, func(tp record.TopicPartition) bool { return slices.Contains(n.revoked, tp) })
	n.revoked = nil
	n.join()
}

// Commit implements thread.Group.
func (g *groupPort) Commit(token uint64, offsets broker.Offsets) {
	(*node)(g).asks("commit %d %v", token, offsets)
	n := (*node)(g)
	if n.w.exactlyOnce || !n.flushed || len(n.commits) > 0 {
		n.w.fatal("%s commits offsets that are not flushed, or twice", n.name)
	}
	n.flushed = false
	n.must("Commit", slices.Collect(maps.Keys(offsets))...)
	if n.gen < 0 {
		n.put(broker.OffsetsCommitted{Token: token, Err: groupError(broker.OpOffsetCommit, 25, broker.Migrated)})
		return
	}
	n.commits = append(n.commits, commitRequest{token, maps.Clone(offsets)})
}

// CommittedOffsets implements thread.Group.
func (g *groupPort) CommittedOffsets(token uint64, tps []record.TopicPartition, stable bool) {
	(*node)(g).asks("offsets %d of %v, stable %t", token, tps, stable)
	for _, tp := range tps {
		g.held[tp.Partition] = true
	}
	g.reads = append(g.reads, read{token: token, tps: slices.Clone(tps), stable: stable})
}

// Rejoin implements thread.Group.
func (g *groupPort) Rejoin(reason string) {
	(*node)(g).asks("rejoin: %s", reason)
	(*node)(g).rejoin(reason)
}

type fetcherPort node

// Start implements thread.Fetcher.
func (f *fetcherPort) Start(tp record.TopicPartition, at int64) {
	(*node)(f).asks("fetch %s from %d", tp, at)
	(*node)(f).must("Fetcher.Start", tp)
	f.reading[tp] = at
}

// Stop implements thread.Fetcher.
func (f *fetcherPort) Stop(tps ...record.TopicPartition) {
	(*node)(f).asks("stop %v", tps)
	for _, tp := range tps {
		delete(f.reading, tp)
	}
}

// Credit implements thread.Fetcher.
func (f *fetcherPort) Credit(tp record.TopicPartition, _ int) { (*node)(f).must("Credit", tp) }

// fetch brings the next records of a partition that is being read. The reader goes on at once; the batch waits in the
// inbox, and may be stale when the loop sees it.
func (n *node) fetch(p int32) {
	from, ok := n.reading[in(p)]
	if !ok || from >= end {
		return
	}
	log := n.w.inputs[in(p)][(from+step-1)/step:]
	most := 4
	if !n.w.calm {
		most = rapid.IntRange(0, 4).Draw(n.w.t, "records")
	}
	log = log[:min(len(log), most)]
	b := broker.Batch{Source: in(p), Records: log, From: from, Next: from, HighWatermark: end, LastStable: end, Bytes: 10}
	switch {
	case len(log) > 0:
		b.Next = log[len(log)-1].Offset + step
		if n.w.chance("the marker comes later", 2) {
			b.Next--
		}
	case from%step != 0:
		b.Next = from + 1
	}
	n.reading[in(p)] = b.Next
	n.put(broker.Fetched{Batches: []broker.Batch{b}})
}

type positionsPort node

// Resolve implements thread.Positions. It is the earliest offset for all, and never late: that is another test's matter.
func (r *positionsPort) Resolve(token uint64, tps []record.TopicPartition) {
	(*node)(r).must("Resolve", tps...)
	at := map[record.TopicPartition]int64{}
	for _, tp := range tps {
		at[tp] = 0
	}
	(*node)(r).put(thread.PositionsResolved{Token: token, At: at})
}

// disk is a task's state on a node. saved is what a kill leaves.
type disk struct {
	open      bool
	rows      *tasktest.State
	next      int64
	saved     map[string]tasktest.Row
	savedNext int64
	jobs      []job
}

type job struct {
	kind  string
	epoch uint64
	unit  *task.Unit
	next  int64
	moved bool
}

func (d *disk) load() {
	d.rows.Stores[0] = map[string]tasktest.Row{}
	maps.Copy(d.rows.Stores[0], d.saved)
	d.next = d.savedNext
}

func (d *disk) save() { d.saved, d.savedNext = maps.Clone(d.rows.Stores[0]), d.next }

type statesPort node

func (s *statesPort) job(id record.TaskID, j job) {
	(*node)(s).asks("%s %s", j.kind, id)
	d := s.disks[id.Partition]
	d.jobs = append(d.jobs, j)
}

// Open implements thread.States.
func (s *statesPort) Open(id record.TaskID, epoch uint64) {
	s.held[id.Partition] = true
	s.job(id, job{kind: "open", epoch: epoch})
}

// Apply implements thread.States.
func (s *statesPort) Apply(id record.TaskID, epoch uint64, u *task.Unit, ends map[record.TopicPartition]int64) {
	n := (*node)(s)
	n.must("Apply", in(id.Partition))
	if at := u.Offsets[in(id.Partition)].At; n.w.committed[in(id.Partition)].At < at {
		n.w.fatal("%s applies %s at %d before that is committed", n.name, id, at)
	}
	next, moved := ends[changelog(id.Partition)]
	s.job(id, job{kind: "apply", epoch: epoch, unit: u, next: next, moved: moved})
}

// Replay implements thread.States.
func (s *statesPort) Replay(id record.TaskID, epoch uint64) {
	(*node)(s).must("Replay", in(id.Partition))
	s.job(id, job{kind: "replay", epoch: epoch})
}

// Close implements thread.States.
func (s *statesPort) Close(id record.TaskID, epoch uint64) {
	delete(s.held, id.Partition)
	s.job(id, job{kind: "close", epoch: epoch})
}

// work carries out the next job of a task, if it can be.
func (n *node) work(p int32) bool {
	n.w.say("%s: work on %d", n.name, p)
	d := n.disks[p]
	if len(d.jobs) == 0 {
		return false
	}
	j, id := d.jobs[0], record.TaskID{Partition: p}
	switch j.kind {
	case "open", "replay":
		if n.w.isOpen(p, false) && !n.overtaken(d) {
			return false
		}
		d.open = true
		n.restore(p, d)
		n.put(thread.StateReady{Task: id, Epoch: j.epoch, State: d.rows})
	case "apply":
		d.rows.Apply(j.unit)
		if j.moved {
			d.next = j.next
		}
		n.w.holds("applied state", counts(d.rows.Stores[0]), p, j.unit.Offsets[in(p)].At)
		n.put(thread.UnitApplied{Task: id, Epoch: j.epoch, Unit: j.unit})
	case "close":
		d.open = false
		d.save()
		n.put(thread.StateClosed{Task: id, Epoch: j.epoch})
	}
	d.jobs = d.jobs[1:]
	return true
}

// overtaken: a restore ends early when its task is closed meanwhile.
func (n *node) overtaken(d *disk) bool {
	return slices.ContainsFunc(d.jobs[1:], func(j job) bool { return j.kind == "close" })
}

// restore reads the rest of the changelog.
func (n *node) restore(p int32, d *disk) {
	log := n.w.changelog[p]
	for _, e := range log[d.next:] {
		if e.txn.outcome == committed {
			d.rows.Put(0, string(e.Key), e.Value, e.Timestamp)
		}
		if e.txn.outcome == open {
			return
		}
		d.next = e.Offset + 1
	}
}

type watcherPort node

// Became implements thread.Watcher.
func (v *watcherPort) Became(s lifecycle.ThreadStatus) { (*node)(v).asks("%s", s.State) }

// Running implements thread.Watcher: the state must be what the positions say.
func (v *watcherPort) Running(id record.TaskID, at broker.Offsets) {
	(*node)(v).asks("running %s at %v", id, at)
	n := (*node)(v)
	n.must("Running", in(id.Partition))
	d := n.disks[id.Partition]
	if !d.open {
		n.w.fatal("%s runs %s without its state", n.name, id)
	}
	n.w.holds("restored state", counts(d.rows.Stores[0]), id.Partition, at[in(id.Partition)].At)
	n.put(thread.StoresServing{Task: id, Epoch: uint64(n.epoch)})
}

// Gone implements thread.Watcher.
func (v *watcherPort) Gone(id record.TaskID) { (*node)(v).asks("gone %s", id) }

// Assignment implements thread.Watcher.
func (v *watcherPort) Assignment(_ string, data []byte) (more bool, live []string) {
	v.refused = false
	rest, more := strings.CutPrefix(string(data), "more,")
	v.told = strings.Split(rest, ",")
	return more, v.told
}
