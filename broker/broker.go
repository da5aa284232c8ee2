package broker

import "github.com/millrace-io/millrace/record"

// Offset is a committed position: the next offset to read, and a short text kept beside it.
type Offset struct {
	// At is the next offset to read; None means that nothing was committed.
	At       int64
	Metadata string
}

// None is the Offset.At of a partition for which nothing was committed.
const None int64 = -1

// Offsets are committed positions by partition.
type Offsets map[record.TopicPartition]Offset

// Batch is what one fetch brought for one partition, in offset order. Control records and records of aborted
// transactions are already left out, so Records may be empty although the position moved.
type Batch struct {
	Source  record.TopicPartition
	Records []record.Raw
	// From is the position that was asked for. A batch whose From is not its reader's position is stale (the reader was
	// moved in between) and is dropped.
	From int64
	// Next is the position after this batch. It counts control records and compacted gaps: advance by it, never by
	// the records.
	Next int64
	// HighWatermark and LastStable are the partition's ends when the answer was made.
	HighWatermark, LastStable int64
	// LogStart is the partition's first offset when the answer was made.
	LogStart int64
	// LeaderEpoch is the epoch of the batch's last record, -1 if unknown.
	LeaderEpoch int32
	// Bytes is what the batch costs of the partition's fetch credit.
	Bytes int
}

// Event is one of the types below that say "an event": Assigned, Revoking, Lost, Rejoining, GroupFailed,
// OffsetsFetched, OffsetsCommitted, Fetched, FetchFailed, Flushed, TransactionEnded, TransactionAborted, Fenced,
// ConnectionChanged. Rooms that use brokers add events of their own
// to the same inbox (a store that was opened, an apply that is done).
type Event any

// Assigned is an event: a rebalance ended and this member's partitions are known.
type Assigned struct {
	Generation int32
	MemberID   string
	// Partitions is all that this member owns from now on; Added is the part that it did not own before.
	Partitions, Added []record.TopicPartition
	// UserData is the assignor's message to this member, opaque to the kafka room.
	UserData []byte
}

// Revoking is an event: these partitions must be given up. The member goes on with its heartbeats and rejoins when
// Group.Released was called; commits made before that are accepted.
type Revoking struct {
	Generation int32
	Partitions []record.TopicPartition
}

// Lost is an event: the group threw this member out. Somebody else may own the partitions already, so nothing of them
// may be committed. The member joins again by itself.
type Lost struct {
	Partitions []record.TopicPartition
	Cause      *Error
}

// Rejoining is an event: a rebalance has begun. Nothing was given up yet.
type Rejoining struct{ Reason string }

// GroupFailed is an event: the member cannot go on (authorisation, configuration, a second fence). Its Err is Fatal.
type GroupFailed struct{ Err *Error }

// OffsetsFetched is an event: the answer to Group.Offsets.
type OffsetsFetched struct {
	Token uint64
	// Offsets has every partition that was asked for; At is None where nothing was committed.
	Offsets Offsets
	Err     *Error
}

// OffsetsCommitted is an event: the answer to Group.Commit. A nil Err means that Kafka has the offsets. Class Migrated
// means that the member was thrown out (Lost follows or came before); Abort that the partitions are no longer this
// member's.
type OffsetsCommitted struct {
	Token uint64
	Err   *Error
}

// Fetched is an event: batches, each of another partition or a later part of the same one, in order.
type Fetched struct{ Batches []Batch }

// FetchFailed is an event: a partition cannot be read on from its position. With Code OffsetOutOfRange the reset policy decides
// (LogStart and HighWatermark are the log's range); every other code here is Fatal. What is transient never comes here.
type FetchFailed struct {
	Source                            record.TopicPartition
	Position, LogStart, HighWatermark int64
	Err                               *Error
}

// Flushed is an event: the answer to Producer.Flush. With a nil Err every record that was appended before the Flush is
// in its log.
type Flushed struct {
	Token uint64
	// Ends has, for each partition written since the last Flushed, the offset after its last record.
	Ends map[record.TopicPartition]int64
	// Refused are the records that the broker refused (Class Record), with why. All others are in their logs.
	Refused []Refused
	// Err is why the flush as a whole failed: some records may be missing from the log, others may be there.
	Err *Error
}

// Refused is a record that a broker did not take although the producer did.
type Refused struct {
	Source record.TopicPartition
	// Record is the refused record; its bytes are the receiver's.
	Record record.Raw
	Err    *Error
}

// Outgoing is a record with its destination.
type Outgoing struct {
	To     record.TopicPartition
	Record record.Raw
}

// Membership is who commits offsets in a transaction. It is what fences a zombie (KIP-447): the group refuses a
// generation that is over, and a member that it does not know.
type Membership struct {
	Group      string
	Generation int32
	MemberID   string
	// InstanceID is empty for a dynamic member. For a static one it must be there: without it the group does not notice
	// that somebody else came back under the same name.
	InstanceID string
}

// TransactionEnded is an event: the answer to Producer.Commit. With a nil Err the transaction is committed: outputs,
// changelog records and offsets count, and consumers see them as soon as the markers are written.
//
// Class Abort: it is not committed, and the producer is well; what it held is still there until Producer.Abort. Class
// Migrated: the same, because the group or another producer of the same name has taken over. CommitUnknown: even asking
// again did not tell; after Producer.Abort, committed offsets that are read with stable set tell by their metadata.
// Fatal: configuration, authorisation or a bug.
type TransactionEnded struct {
	Token uint64
	Err   *Error
}

// TransactionAborted is an event: the answer to Producer.Abort. With a nil Err nothing that was appended before it will
// ever count, and the producer can be used again. Class Migrated: another producer has taken the transactional id over;
// the next Abort takes it back, which only a member of the present generation may ask for. Fatal: it cannot be used.
type TransactionAborted struct {
	Token uint64
	Err   *Error
}

// Fenced is an event: the answer to Producer.Fence. With a nil Err the transactional id's open transaction is over.
type Fenced struct {
	Token uint64
	Err   *Error
}

// ConnectionChanged is an event: a role ("group", "fetch", "produce", "transaction") has no broker that answers, or has one
// again. Outages never end a node; they show.
type ConnectionChanged struct {
	Role string
	Up   bool
	Err  error
}
