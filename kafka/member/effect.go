package member

import (
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// Effect is one of the types below, to be carried out in order. Attempt above 0 asks for a back-off first.
type Effect any

type (
	// Join asks for a JoinGroup; Joined answers it with the same Seq.
	Join struct {
		Seq      uint64
		MemberID string
		// Owned and Generation go into the subscription (version 2).
		Owned      []record.TopicPartition
		Generation int32
		Attempt    int
		Reason     string
	}
	// Sync asks for a SyncGroup; a leader assigns first. Synced answers it.
	Sync struct {
		Generation int32
		MemberID   string
		Leader     bool
	}
	// Heartbeat asks for a Heartbeat; Beat answers it.
	Heartbeat struct {
		Generation int32
		MemberID   string
	}
	// Commit asks for an OffsetCommit; Committed answers it.
	Commit struct {
		Token      uint64
		Offsets    broker.Offsets
		Generation int32
		MemberID   string
		Attempt    int
	}
	// Fetch asks for an OffsetFetch, which with Stable waits until no transaction has offsets pending; Fetched answers it.
	Fetch struct {
		Token      uint64
		Partitions []record.TopicPartition
		Stable     bool
	}
	// Deliver hands an event to the owner.
	Deliver struct{ Event broker.Event }
)

// JoinAnswer is what came back for a Join.
type JoinAnswer struct {
	Seq        uint64
	Code       int16
	Generation int32
	MemberID   string
	// Leader says that this member was given the members to assign to. A restarted static leader is not: the broker
	// names its predecessor.
	Leader bool
}

// SyncAnswer is what came back for a Sync.
type SyncAnswer struct {
	Generation int32
	Code       int16
	Partitions []record.TopicPartition
	UserData   []byte
	// Stale says that the assignment may have been made without this member's present user data. It matters for the
	// first assignment of a static member: the broker hands a restarted one its predecessor's and tells no leader.
	Stale bool
}
