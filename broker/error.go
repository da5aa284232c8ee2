package broker

import (
	"fmt"

	"github.com/millrace-io/millrace/record"
)

// Class says what a caller does about an error. The list is closed and append-only; kafka.Classify is the one table that
// gives codes their class.
type Class uint8

const (
	// Retry: transient; the kafka room backs off and tries again, within its delivery time-out.
	Retry Class = iota + 1
	// Abort: what was being written or committed is lost, the producer and the member are not. Go back to the last commit.
	Abort
	// Migrated: this member no longer owns its tasks. Drop them without a commit; the member rejoins.
	Migrated
	// CommitUnknown: whether the commit happened is not known. Find out before anything else.
	CommitUnknown
	// Record: one record cannot be written (too large, invalid). The production-error handler decides.
	Record
	// Fatal: configuration, authorisation or a bug. Supervision decides.
	Fatal
	// Ignore: not an error.
	Ignore
)

func (c Class) String() string {
	if c < Retry || c > Ignore {
		return fmt.Sprintf("Class(%d)", uint8(c))
	}
	return [...]string{"Retry", "Abort", "Migrated", "CommitUnknown", "Record", "Fatal", "Ignore"}[c-1]
}

// Op is the request that failed, by Kafka's own name.
type Op string

// The requests that an Op names.
const (
	OpMetadata        Op = "Metadata"
	OpFindCoordinator Op = "FindCoordinator"
	OpJoinGroup       Op = "JoinGroup"
	OpSyncGroup       Op = "SyncGroup"
	OpHeartbeat       Op = "Heartbeat"
	OpLeaveGroup      Op = "LeaveGroup"
	OpOffsetCommit    Op = "OffsetCommit"
	OpOffsetFetch     Op = "OffsetFetch"
	OpFetch           Op = "Fetch"
	OpListOffsets     Op = "ListOffsets"
	OpProduce         Op = "Produce"
	OpInitProducerID  Op = "InitProducerId"
	OpAddPartitions   Op = "AddPartitionsToTxn"
	OpAddOffsets      Op = "AddOffsetsToTxn"
	OpTxnOffsetCommit Op = "TxnOffsetCommit"
	OpEndTxn          Op = "EndTxn"
	OpCreateTopics    Op = "CreateTopics"
	OpDescribeConfigs Op = "DescribeConfigs"
	OpDeleteRecords   Op = "DeleteRecords"
)

// Codes that rooms other than kafka branch on.
const (
	CodeNone             int16 = 0
	CodeOffsetOutOfRange int16 = 1
	// CodeIllegalGeneration is a group's answer to a generation that is over, also to a member that is part of the next.
	CodeIllegalGeneration int16 = 22
)

// Error is a failed request, classified. It is found with errors.As; Cause is the bare error of the client library or
// the network and is found with errors.Is.
type Error struct {
	Op    Op
	Code  int16
	Class Class
	// Source is the partition that the error is about; its Topic is empty where there is none.
	Source record.TopicPartition
	Cause  error
}

// Error says what failed, where, and with which code.
func (e *Error) Error() string {
	where := ""
	if e.Source.Topic != "" {
		where = " " + e.Source.String()
	}
	if e.Cause == nil {
		return fmt.Sprintf("kafka: %s%s: error code %d (%s)", e.Op, where, e.Code, e.Class)
	}
	return fmt.Sprintf("kafka: %s%s: %v (code %d, %s)", e.Op, where, e.Cause, e.Code, e.Class)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }
