package task

import (
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// buffer is one source partition: batches that were fetched and not processed, and where its reader stands.
type buffer struct {
	source  record.TopicPartition
	process func(*record.Raw) error
	batches []broker.Batch
	// index is the next record of batches[0].
	index int
	// fetched is the position after the last batch that was added; consumed the one after the last record that was
	// processed. Invariant: consumed <= fetched.
	fetched, consumed int64
	// committed and committedTime are consumed and time at the last commit.
	committed, committedTime int64
	// highWatermark is the partition's end as the last fetch saw it; -1 before the first.
	highWatermark int64
	// time is the highest timestamp that was processed.
	time int64
	// owed is what was consumed and not credited, in bytes.
	owed int
	// idleSince is when it was first seen empty, in milliseconds; 0 while it is not.
	idleSince int64
}

// add takes a batch if it starts where the last one ended.
func (b *buffer) add(batch broker.Batch) bool {
	if batch.From != b.fetched {
		return false
	}
	b.fetched = batch.Next
	b.highWatermark = batch.HighWatermark
	if len(batch.Records) == 0 {
		b.owed += batch.Bytes
		if len(b.batches) == 0 {
			b.consumed = batch.Next
		} else {
			b.batches[len(b.batches)-1].Next = batch.Next
		}
		return true
	}
	b.batches = append(b.batches, batch)
	return true
}

// head is the next record, nil if there is none.
func (b *buffer) head() *record.Raw {
	if len(b.batches) == 0 {
		return nil
	}
	return &b.batches[0].Records[b.index]
}

// advance says that the head was processed.
func (b *buffer) advance() {
	first := &b.batches[0]
	b.consumed = first.Records[b.index].Offset + 1
	b.index++
	if b.index < len(first.Records) {
		return
	}
	b.consumed = first.Next
	b.owed += first.Bytes
	*first = broker.Batch{}
	b.batches = b.batches[1:]
	b.index = 0
}

// seek moves to a position and forgets what was fetched.
func (b *buffer) seek(at int64) {
	clear(b.batches)
	b.batches, b.index, b.owed = nil, 0, 0
	b.fetched, b.consumed = at, at
	b.highWatermark, b.idleSince = -1, 0
}

// caughtUp says that everything the partition is known to hold was processed.
func (b *buffer) caughtUp() bool { return b.highWatermark >= 0 && b.fetched >= b.highWatermark }
