package transaction

import (
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// Transport is the code of a request without an answer: a lost connection, a time-out, a refused dial.
const Transport int16 = -2

// NotSent is the code of a request that did not get as far as a broker: no coordinator was found, no connection came
// about. Unlike Transport it leaves nothing in doubt.
const NotSent int16 = -3

// Malformed is the code of an answer that cannot be read, or that belongs to another request (correlation mismatch).
const Malformed int16 = -4

// OpDescribe is the request that looks at a transaction without touching it.
const OpDescribe broker.Op = "DescribeTransactions"

// Situation is what a code's meaning can depend on besides the request.
type Situation uint8

const (
	// First is the usual one.
	First Situation = iota
	// Repeated is an EndTxn(commit) that was sent before and got no clear answer.
	Repeated
	// Behind is a batch that was sent behind one of its partition that the broker has not taken.
	Behind
	// ToAbort is an EndTxn(abort).
	ToAbort
	// Again is a code that nobody knows, for the second time without a commit in between.
	Again
)

// Effect is one of the types below, to be carried out in order.
type Effect any

type (
	// InitProducerID asks the transaction coordinator (without a transactional id: any broker) for an epoch. PID and Epoch
	// are -1 for a take-over.
	InitProducerID struct {
		PID   int64
		Epoch int16
	}
	// AddPartitions asks the transaction coordinator to take partitions into the transaction.
	AddPartitions struct {
		PID        int64
		Epoch      int16
		Partitions []record.TopicPartition
	}
	// AddOffsets asks the transaction coordinator to take a group's offsets into the transaction.
	AddOffsets struct {
		PID   int64
		Epoch int16
		Group string
	}
	// TxnOffsetCommit asks the group's coordinator to hold offsets until the transaction ends.
	TxnOffsetCommit struct {
		PID     int64
		Epoch   int16
		Offsets broker.Offsets
		Of      broker.Membership
	}
	// EndTxn asks the transaction coordinator to commit or to abort.
	EndTxn struct {
		PID    int64
		Epoch  int16
		Commit bool
	}
	// Describe asks the transaction coordinator what it knows of the transactional id.
	Describe struct{}
	// Refused says that the broker refused a batch for what is in it. Replace answers it at once.
	Refused struct {
		Batch *Batch
		Err   *broker.Error
		// Whole says that every record is refused: a part of it cannot fare better.
		Whole bool
	}
	// Release gives a batch back: it is written, refused, or taken back.
	Release struct{ Batch *Batch }
	// Deliver hands an event to the owner.
	Deliver struct{ Event broker.Event }
)

// Answer is what came back for a request to a coordinator.
type Answer struct {
	// Code is the request's; Codes are the partitions' of AddPartitions and TxnOffsetCommit.
	Code  int16
	Codes map[record.TopicPartition]int16
	// PID and Epoch are InitProducerID's and Describe's.
	PID   int64
	Epoch int16
	// Open says that Describe found a transaction open.
	Open bool
	// Cause is the bare error.
	Cause error
}

// Result is what a broker said about one batch.
type Result struct {
	Code int16
	// Base is the offset of the batch's first record, -1 if the broker did not tell.
	Base  int64
	Cause error
}

// Failure is a batch that could not be sent.
type Failure struct {
	Batch *Batch
	Code  int16
	Cause error
}

// Counts is what a producer has done since it was made.
type Counts struct {
	Committed, Aborted, Fenced, Reinits, CommitUnknown uint64
	// Errors are the codes of brokers, and requests without an answer, by the broker.Class that they were given.
	Errors [broker.Ignore + 1]uint64
}
