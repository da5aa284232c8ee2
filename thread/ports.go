package thread

import (
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
)

// Every port below only submits: what it is asked for is carried out elsewhere and comes back through the slot's inbox
// as the event that the method names. None of them blocks.

// Group is the slot's member of the consumer group.
type Group interface {
	// Released answers a broker.Revoking: its partitions are committed and closed.
	Released(generation int32, tps []record.TopicPartition)
	// Commit sends positions. Exactly one broker.OffsetsCommitted with the token follows.
	Commit(token uint64, offsets broker.Offsets)
	// CommittedOffsets asks for committed positions; with stable, for those that no open transaction can change any more,
	// which takes as long as that is open. Exactly one broker.OffsetsFetched with the token follows.
	CommittedOffsets(token uint64, tps []record.TopicPartition, stable bool)
	// Rejoin starts a rebalance.
	Rejoin(reason string)
}

// Fetcher reads partitions. broker.Fetched and broker.FetchFailed follow.
type Fetcher interface {
	// Start reads tp from the given offset; on a partition that is being read it moves the position.
	Start(tp record.TopicPartition, at int64)
	// Stop ends reading. Batches that were under way may still arrive.
	Stop(tps ...record.TopicPartition)
	// Credit gives back bytes that were consumed.
	Credit(tp record.TopicPartition, bytes int)
}

// Producer writes records. What is appended belongs to an interval; Flush ends one, and what is appended after it
// belongs to the next, whether or not the one before is over already. Exactly once, an interval is one transaction: its
// first record, or its Commit, begins it, and the records of the next interval wait in the producer until it has ended.
type Producer interface {
	task.Producer
	// Tick sends batches that have waited long enough and says when to call it again.
	Tick(now time.Time) (next time.Time)
	// Buffered is what was appended and not acknowledged, in bytes.
	Buffered() int64
	// Flush ends the interval and sends all of it. Exactly one broker.Flushed with the token follows.
	Flush(token uint64)
	// Amend adds records to the interval that the last Flush has ended, and answers as Flush does.
	Amend(token uint64, records []broker.Outgoing)
	// Commit commits the transaction of the interval that was flushed, with offsets for the group. Exactly one
	// broker.TransactionEnded with the token follows. It may only follow a Flushed without an error, and only exactly once.
	Commit(token uint64, offsets broker.Offsets, of broker.Membership)
	// Abort takes back all that was appended and is not committed, of every interval; at least once, what no broker has
	// seen yet. A Commit that is under way is brought to its end first, but not answered any more, and neither is a Flush.
	// Exactly one broker.TransactionAborted with the token follows; records may be appended at once.
	Abort(token uint64)
	// Fence ends the open transaction of another transactional id, whose producer can write nothing afterwards. Exactly one
	// broker.Fenced with the token follows.
	Fence(token uint64, transactionalID string)
}

// Positions finds where to start reading partitions for which nothing is committed, by each source's reset policy.
type Positions interface {
	// Resolve completes with PositionsResolved.
	Resolve(token uint64, tps []record.TopicPartition)
}

// States owns the tasks' state on disk and its publication to queries. Calls for one task are carried out in order;
// the epoch is the incarnation's, and comes back in each event, so that an incarnation ignores its predecessor's.
type States interface {
	// Open opens and restores a task's stores. It completes with StateReady or StateFailed.
	Open(id record.TaskID, epoch uint64)
	// Apply writes a committed unit and the changelog ends that belong to it in one batch. It completes with UnitApplied.
	Apply(id record.TaskID, epoch uint64, u *task.Unit, ends map[record.TopicPartition]int64)
	// Replay reads the changelog's tail again after a commit that failed. It completes with StateReady or StateFailed.
	Replay(id record.TaskID, epoch uint64)
	// Close ends the leases of readers at once, then flushes and closes. It completes with StateClosed.
	Close(id record.TaskID, epoch uint64)
}

// PositionsResolved is the answer to Positions.Resolve: where to start, by partition.
type PositionsResolved struct {
	Token uint64
	At    map[record.TopicPartition]int64
	Err   error
}

// StateReady says that a task's state is open and at the end of its changelogs.
type StateReady struct {
	Task  record.TaskID
	Epoch uint64
	State task.State
}

// StateFailed says that a task's state could not be opened or restored.
type StateFailed struct {
	Task  record.TaskID
	Epoch uint64
	Err   error
}

// UnitApplied is the answer to States.Apply.
type UnitApplied struct {
	Task  record.TaskID
	Epoch uint64
	Unit  *task.Unit
	Err   error
}

// StateWaits says that a task's state waits for space on its disk, or with a nil Err that it does not any more. What was
// processed is committed and applied, in memory, as always; the task processes nothing new meanwhile, or its unit would
// find no place there either. The thread's other tasks go on.
type StateWaits struct {
	Task  record.TaskID
	Epoch uint64
	Err   error
}

// StateClosed is the answer to States.Close. The directory's lock is free. Err is what was not flushed; it costs a
// longer restore and nothing else.
type StateClosed struct {
	Task  record.TaskID
	Epoch uint64
	Err   error
}

// StoresServing says that questions for a task's stores are answered from now on. The thread actor sends it once the store
// actors are published, so that RUNNING is never published before it is true for queries.
type StoresServing struct {
	Task  record.TaskID
	Epoch uint64
}

// Watcher hears what a loop does. Each method is called on the loop's goroutine, before the change has any other effect,
// and must not block.
type Watcher interface {
	// Became is called at each state change.
	Became(lifecycle.ThreadStatus)
	// Running is called when a task is restored, and again when it is after a replay, with the positions that it starts
	// from; Gone when it is given up.
	Running(id record.TaskID, at broker.Offsets)
	Gone(id record.TaskID)
	// Assignment is called with the assignor's message of each generation. more says that this member gets further
	// partitions as soon as their present owners have given them up; live are the transactional ids of all members.
	Assignment(member string, data []byte) (more bool, live []string)
}
