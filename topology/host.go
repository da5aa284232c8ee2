package topology

import (
	"context"
	"iter"

	"github.com/millrace-io/millrace/record"
)

// Host is what a running task gives to an Instance: its stores, its outputs, its times. The task room implements it;
// everything in it is called on the task's own goroutine.
type Host interface {
	// TaskID names the task.
	TaskID() record.TaskID
	// Store returns the task's own view of a store that is declared in the sub-topology: committed state with the
	// task's uncommitted writes on top. It is called once per processor, at Init.
	Store(name string) StateStore
	// Global returns a global store that the sub-topology reads; nil if there is none of that name. It is called once per
	// processor, at Init.
	Global(name string) GlobalState
	// Output returns where records for a topic go. It is called once per sink, at Init.
	Output(topic string) Output
	// StreamTime is the highest timestamp that the task has taken up, in milliseconds; -1 before the first record.
	StreamTime() int64
	// Ahead says that the stores hold more than what is behind the offsets from which the task has started: a commit at
	// least once has failed after its changelog records were out, or somebody has set the offsets back. Nobody knows then
	// whether what the aggregations have forwarded since those offsets has arrived.
	Ahead() bool
	// WallClock is the time of the step, in milliseconds since the Unix epoch.
	WallClock() int64
	// Extracted says that the source's timestamp extractor has given the record in process this timestamp, not its own:
	// stream time follows it.
	Extracted(timestamp int64)
	// Current is where the record in process came from; ok is false in a punctuation or a flush.
	Current() (source record.TopicPartition, offset int64, ok bool)
	// Context has the span of the batch in process in it, if the node traces.
	Context() context.Context
	// RequestCommit asks for a commit as soon as the current record is done.
	RequestCommit()
	// Dropped counts a record that was left out on purpose, by reason (a short constant phrase such as "null key").
	Dropped(reason string)
}

// Output is where a sink's records go.
type Output interface {
	// Send copies what r refers to before it returns. A partition below 0 means Kafka's default: by murmur2 of the key,
	// or, without a key, whatever partition is convenient. r.Offset is not used. An error must be handed to Refused.
	Send(r *record.Raw, partition int32) error
	// Refused says that a record will not be sent: its codec or partitioner refused it, or Send did, with err. r is what
	// was encoded of it. nil means that the production handler lets it go (Skip, DeadLetter), and the sink goes on; else
	// it is what the sink returns.
	Refused(r *record.Raw, partition int32, err *SinkError) error
	// Partitions is the topic's partition count.
	Partitions() int32
}

// StateStore is a store as bytes, as the processors of one task see it. Window and session stores are the same: their
// keys end with times.
//
// Errors are the engine's or, for a write, that the task is being closed; the processor returns them.
type StateStore interface {
	// Cell returns the cell of key, read from the engine if it is not in memory. The cell stays valid until the
	// processor that asked returns; key is not kept.
	Cell(key []byte) (*Cell, error)
	// Set gives a cell, which this store returned, another value and timestamp. A nil value deletes. value is copied.
	Set(c *Cell, value []byte, timestamp int64) error
	// Range gives the cells whose keys are between from and to, both included, in byte order or backwards. A nil bound
	// is open. Cells that are absent are left out. The loop body may Set cells of this store; whether a key that it
	// adds is seen is not said. An error is the last thing that is yielded.
	Range(from, to []byte, reverse bool) iter.Seq2[*Cell, error]
	// Changed calls f once for every cell that was Set since the last call of Changed, with its present value, in no
	// particular order; one that came and went in between is left out. Aggregations emit with it, once per key per commit.
	Changed(f func(*Cell) error) error
	// Time is the highest timestamp that was ever Set, -1 if none: of committed state, also after a restart or a restore,
	// and of what is not committed yet. What was expired or deleted counts.
	Time() int64
}

// Cell is one key of a state store as its task holds it in memory.
type Cell struct {
	Key string
	// Value is the encoded value; nil exactly if Present is false. It must not be changed or kept.
	Value []byte
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
	Present   bool
	// Mark belongs to the store that made the cell.
	Mark uint64
}
