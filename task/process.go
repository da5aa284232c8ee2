package task

import (
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// Add takes a batch. It is refused, and costs nothing, if the task is not running, does not read the partition, or has
// another position than the batch: its reader was moved since, and has its whole credit there.
func (t *Task) Add(batch broker.Batch) (accepted bool) {
	b := t.buffer(batch.Source)
	if b == nil || t.State() != lifecycle.TaskRunning {
		return false
	}
	before := b.consumed
	accepted = b.add(batch)
	t.moved = t.moved || b.consumed != before // control records only
	return accepted
}

func (t *Task) buffer(tp record.TopicPartition) *buffer {
	for _, b := range t.buffers {
		if b.source.Partition == tp.Partition && b.source.Topic == tp.Topic {
			return b
		}
	}
	return nil
}

// Seek moves one partition to another position, which counts as processed up to there, and forgets its buffer. Partition
// time stays.
func (t *Task) Seek(tp record.TopicPartition, at int64) {
	if b := t.buffer(tp); b != nil {
		b.seek(at)
		t.moved = true
	}
}

// Buffered is what waits to be processed, in bytes of fetch credit.
func (t *Task) Buffered() (bytes int64) {
	for _, b := range t.buffers {
		bytes += int64(b.bytes)
	}
	return bytes
}

// Process takes up to budget records through the processors, lowest timestamp first across the partitions, and returns
// how many it took. It takes none while Ready says so, and stops early after a record that asks for a commit.
//
// A record that fails is passed, counted as taken, if a handler of the topology says so. What it did up to there stays:
// its writes and what it forwarded. Position, partition time and stream time move past it.
//
// The error is a *ProcessError: that record, whose position has not moved, may be half done. Only Rewind, Suspend and
// Close may follow.
func (t *Task) Process(now time.Time, budget int) (n int, err error) {
	if err := t.enter(now); err != nil {
		return 0, err
	}
	t.taken = 0
	asked := t.commitRequested
	err = t.attempt(func() error {
		if len(t.buffers) == 1 {
			return t.drain(t.buffers[0], budget, asked)
		}
		return t.merge(budget, asked)
	})
	t.endSpan(err)
	return t.taken, err
}

// enough says that Process must stop: the budget is used up, or a record asked for a commit.
func (t *Task) enough(budget int, asked bool) bool {
	return t.taken >= budget || t.commitRequested && !asked
}

// drain is the usual case, one partition: there is nothing to choose, so it loops over the batches.
func (t *Task) drain(b *buffer, budget int, asked bool) error {
	t.current = b
	for !t.enough(budget, asked) && !b.isEmpty() {
		records := t.held.before(b, b.batches[b.first].Records)
		if b.index >= len(records) {
			break // the next one is held
		}
		records = records[:min(len(records), b.index+budget-t.taken)]
		for b.index < len(records) {
			if err := t.take(b, &records[b.index]); err != nil {
				return err
			}
			if t.commitRequested && !asked {
				break
			}
		}
		if b.index == len(b.batches[b.first].Records) {
			b.passBatch()
		}
	}
	return nil
}

// take processes one record.
func (t *Task) take(b *buffer, r *record.Raw) error {
	t.offset = r.Offset
	if t.cfg.Tracer != nil {
		t.trace(b, r)
	}
	t.before, t.partitionBefore = t.streamTime, b.time
	if r.Timestamp > b.time {
		b.time = r.Timestamp
		t.streamTime = max(t.streamTime, r.Timestamp)
	}
	if err := b.process(r); err != nil {
		return err
	}
	if t.broken != nil {
		return t.broken
	}
	t.passed(b, r.Offset)
	return nil
}

// passed says that a record is done with: processed, skipped, or a dead letter.
func (t *Task) passed(b *buffer, offset int64) {
	b.index++
	b.consumed = offset + 1
	t.taken++
	t.moved = true
	if t.mem.over() {
		t.mem.evict()
	}
}

// merge is the general case. A group has two or three partitions, so looking at each head is cheaper than any heap.
func (t *Task) merge(budget int, asked bool) error {
	for !t.enough(budget, asked) {
		if ready, _ := t.ready(); !ready {
			break
		}
		b := t.lowest()
		if t.held.stops(b) {
			break
		}
		t.current = b
		if err := t.take(b, b.head()); err != nil {
			return err
		}
		if b.index == len(b.batches[b.first].Records) {
			b.passBatch()
		}
	}
	return nil
}

// lowest is the partition whose head comes first. One of them must have one.
func (t *Task) lowest() (lowest *buffer) {
	for _, b := range t.buffers {
		if !b.isEmpty() && (lowest == nil || b.head().Timestamp < lowest.head().Timestamp) {
			lowest = b
		}
	}
	return lowest
}

// Ready says whether records may be taken up (KIP-695): some partition has records, and each of those that have none is
// caught up with what its leader is known to hold, and has been so for MaxIdle. A partition about which no batch has said anything yet is
// waited for. next is when to ask again; it is zero if only a batch can change the answer.
func (t *Task) Ready(now time.Time) (ready bool, next time.Time) {
	if t.State() != lifecycle.TaskRunning {
		return false, time.Time{}
	}
	t.wallClock = now.UnixMilli()
	ready, at := t.ready()
	if at > 0 {
		next = time.UnixMilli(at)
	}
	return ready, next
}

// ready is Ready at wallClock; next is 0 if there is none.
func (t *Task) ready() (ready bool, next int64) {
	some, unknown := false, false
	for _, b := range t.buffers {
		switch {
		case !b.isEmpty():
			some = true
		case !b.caughtUp():
			unknown, b.idle = true, 0
		default:
			if b.idle == 0 {
				b.idle = t.wallClock
			}
			if until := b.idle + t.cfg.MaxIdle.Milliseconds(); t.wallClock < until {
				next = max(next, until)
			}
		}
	}
	switch {
	case !some:
		return false, 0
	case t.cfg.MaxIdle < 0:
		return true, 0
	case unknown:
		return false, 0
	}
	return next == 0, next
}

// Punctuate fires the punctuations that are due, on stream time and on the wall clock. Its error is a *ProcessError
// without a record; only Rewind, Suspend and Close may follow.
func (t *Task) Punctuate(now time.Time) (err error) {
	if err := t.enter(now); err != nil {
		return err
	}
	err = t.attempt(func() error { return t.chain.Punctuate(t.streamTime, t.wallClock) })
	t.mem.evict()
	return err
}

// Lag is how many offsets of its sources the task has not processed, by what their last batches said of their ends. A
// partition about which no batch has said anything yet counts as none.
func (t *Task) Lag() (offsets int64) {
	for _, b := range t.buffers {
		offsets += max(0, b.end-b.consumed)
	}
	return offsets
}

// punctual is a Chain that tells of its punctuations, as a *topology.Instance does.
type punctual interface {
	PunctuationDue(streamTime, wallClock int64) bool
	Punctuations() uint64
}

var _ punctual = (*topology.Instance)(nil)

// PunctuationDue says that Punctuate has something to call.
func (t *Task) PunctuationDue(now time.Time) bool {
	p, ok := t.chain.(punctual)
	return ok && p.PunctuationDue(t.streamTime, now.UnixMilli())
}

// Punctuations is how many calls of scheduled functions there were since Start.
func (t *Task) Punctuations() uint64 {
	if p, ok := t.chain.(punctual); ok {
		return p.Punctuations()
	}
	return 0
}

// NextWallClock is when a punctuation on the wall clock is due next; ok is false if there is none.
func (t *Task) NextWallClock() (next time.Time, ok bool) {
	if t.chain == nil {
		return time.Time{}, false
	}
	at, ok := t.chain.NextWallClock()
	if !ok {
		return time.Time{}, false
	}
	return time.UnixMilli(at), true
}

// Credits visits each partition of which something was consumed since the last call, with its bytes, which go back to
// the fetcher. A batch is given back when its last record is processed; one without records, at once. What Rewind and
// Seek threw away is not given back: the reader starts again with its whole credit.
func (t *Task) Credits(visit func(tp record.TopicPartition, bytes int)) {
	for _, b := range t.buffers {
		if b.owed > 0 {
			owed := b.owed
			b.owed = 0
			visit(b.source, owed)
		}
	}
}
