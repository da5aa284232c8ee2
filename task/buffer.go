package task

import (
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// buffer is one source partition: batches that were fetched and not processed, and where its reader stands.
type buffer struct {
	source  record.TopicPartition
	process func(*record.Raw) error
	// batches are in offset order and each has records; batches[first].Records[index] is the head.
	batches []broker.Batch
	first   int
	index   int
	// bytes is what batches cost of the fetch credit; owed is what was consumed and not given back.
	bytes, owed int
	// fetched is the position behind the last batch that was added, consumed the one behind the last record that was
	// processed. Invariant: consumed <= fetched.
	fetched, consumed int64
	// time is the highest timestamp that was processed, -1 before the first.
	time int64
	// buried is the offset of the last record that has a dead letter, -1 for none: it gets no second one.
	buried int64
	// end is up to where the last fetch saw that records can be read; -1 before the first.
	end int64
	// idle is since when the partition has been empty and caught up, in milliseconds; 0 while it is not.
	idle int64
	// committed is the last commit's position.
	committed broker.Offset
}

// add takes a batch if it starts where the one before ended.
func (b *buffer) add(batch broker.Batch) bool {
	if batch.From != b.fetched {
		return false
	}
	b.fetched, b.end = batch.Next, end(&batch)
	if len(batch.Records) > 0 {
		b.push(batch)
		return true
	}
	b.owed += batch.Bytes
	if last := len(b.batches) - 1; last >= b.first {
		b.batches[last].Next = batch.Next
	} else {
		b.consumed = batch.Next
	}
	return true
}

// end is up to where a reader can get for now: before the first open transaction if it reads committed records only, else
// the high watermark. KIP-695 measures lag in the same way: what cannot be read yet is nothing to wait for. A batch does not say
// which kind of reader it came from, but only one that reads everything gets beyond the last stable offset.
func end(batch *broker.Batch) int64 {
	if stable := batch.LastStable; stable >= 0 && stable < batch.HighWatermark && batch.Next <= stable {
		return stable
	}
	return batch.HighWatermark
}

func (b *buffer) push(batch broker.Batch) {
	if b.first > 0 && len(b.batches) == cap(b.batches) {
		n := copy(b.batches, b.batches[b.first:])
		clear(b.batches[n:])
		b.batches, b.first = b.batches[:n], 0
	}
	b.batches = append(b.batches, batch)
	b.bytes += batch.Bytes
	b.idle = 0
}

func (b *buffer) isEmpty() bool { return b.first == len(b.batches) }

// head is the next record. There must be one.
func (b *buffer) head() *record.Raw { return &b.batches[b.first].Records[b.index] }

// passBatch says that all records of the first batch were processed.
func (b *buffer) passBatch() {
	batch := &b.batches[b.first]
	b.consumed = batch.Next
	b.owed += batch.Bytes
	b.bytes -= batch.Bytes
	*batch = broker.Batch{}
	b.index = 0
	if b.first++; b.first == len(b.batches) {
		b.batches, b.first = b.batches[:0], 0
	}
}

// seek moves to a position and forgets what was fetched, and what is owed for it: the reader starts there with its whole
// credit.
func (b *buffer) seek(at int64) {
	clear(b.batches)
	b.batches, b.first, b.index = b.batches[:0], 0, 0
	b.bytes, b.owed = 0, 0
	b.fetched, b.consumed = at, at
	b.end, b.idle, b.buried = -1, 0, -1
}

// caughtUp says that everything that the partition is known to hold is here.
func (b *buffer) caughtUp() bool { return b.end >= 0 && b.fetched >= b.end }
