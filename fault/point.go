package fault

import (
	"slices"

	"github.com/millrace-io/millrace/record"
)

// Point is a place in the runtime.
type Point string

// The points. An error is what the runtime would have met there; what it does then is the table of docs/supervision.md.
const (
	// ThreadPoll is once in each step of a thread's loop, before events are taken in. An error ends the incarnation.
	ThreadPoll Point = "thread.poll"
	// TaskProcess is before each record. An error is the processor's.
	TaskProcess Point = "task.process"
	// CommitFlush is before a commit freezes the tasks and sends what they have; CommitOffsets when all of that is
	// acknowledged, before the offsets are sent; CommitEnd when Kafka has said committed, before anything is made of that;
	// CommitApply before a task's unit is handed to its store. An error ends the incarnation. An incarnation that ends at one
	// of them has done all that lies before it.
	CommitFlush   Point = "commit.flush"
	CommitOffsets Point = "commit.offsets"
	CommitEnd     Point = "commit.end"
	CommitApply   Point = "commit.apply"
	// StoreOpen is before a task's state is opened, StoreGet before a point read of a task or a query, StorePut before a unit
	// is written, StoreFlush before one reaches the disk, StoreClose before the state is closed. An error is the engine's.
	StoreOpen  Point = "store.open"
	StoreGet   Point = "store.get"
	StorePut   Point = "store.put"
	StoreFlush Point = "store.flush"
	StoreClose Point = "store.close"
	// RestoreBatch is before each batch of a changelog is written to a store. An error ends the restore.
	RestoreBatch Point = "restore.batch"
	// QueryReceive is when a store actor has a question, QueryReply before it sends an answer. An error is the answer.
	QueryReceive Point = "query.receive"
	QueryReply   Point = "query.reply"
	// ProducerAppend is before a record is handed to a thread's producer, ProducerFlush, ProducerCommit and ProducerAbort
	// before those are asked for. An error at the first ends the incarnation; at the next two it is an answer that aborts the
	// interval; at the last one it is fatal.
	ProducerAppend Point = "producer.append"
	ProducerFlush  Point = "producer.flush"
	ProducerCommit Point = "producer.commit"
	ProducerAbort  Point = "producer.abort"
	// The disk under the tasks' and global stores' state, as Pebble uses it: DiskOpen is before a file or a directory is made or
	// opened, DiskRead before bytes are read, DiskWrite before bytes are written, DiskSync before what was written is made
	// durable. An error is the operation's; syscall.ENOSPC is a full disk. Most of these are reached on Pebble's own
	// goroutines, where a panic would end the process: a hook's is made an error, and CanPanic says so. Written at once is
	// only what opening needs: state waits in memory until it is flushed, half a minute later or when it is closed. An engine
	// whose flushes fail for two seconds is given up, and one goroutine of it stays for good; of one that is not opened, too.
	DiskOpen  Point = "disk.open"
	DiskRead  Point = "disk.read"
	DiskWrite Point = "disk.write"
	DiskSync  Point = "disk.sync"
)

var points = []Point{
	ThreadPoll, TaskProcess, CommitFlush, CommitOffsets, CommitEnd, CommitApply,
	StoreOpen, StoreGet, StorePut, StoreFlush, StoreClose, RestoreBatch, QueryReceive, QueryReply,
	ProducerAppend, ProducerFlush, ProducerCommit, ProducerAbort,
	DiskOpen, DiskRead, DiskWrite, DiskSync,
}

// Points are all of them.
func Points() []Point { return slices.Clone(points) }

// CanPanic says whether what a hook panics with at a point is a panic of what has reached it. At the points of the disk it is
// an error of the operation: on Pebble's own goroutines nothing would catch a panic, and the process would end.
func (p Point) CanPanic() bool {
	return p != DiskOpen && p != DiskRead && p != DiskWrite && p != DiskSync
}

// Site is where a point was reached; what does not apply is empty.
type Site struct {
	Point  Point
	Thread string
	Task   record.TaskID
	// Store is a store's name.
	Store string
	// Source and Offset are the record, at TaskProcess; Source is where to, at ProducerAppend.
	Source record.TopicPartition
	Offset int64
	// File is the one at the points of the disk, from the task's directory on: 0_1/1/000004.sst.
	File string
}

// Hook is called at each point, on the goroutine that has reached it. It may return an error, panic, or take its time; it
// must be safe for use from many goroutines.
type Hook func(Site) error

// At calls the hook, if there is one, and gives its error.
func (h Hook) At(s Site) error {
	if h == nil {
		return nil
	}
	return h(s)
}
