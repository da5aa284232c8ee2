package query

import "github.com/millrace-io/millrace/lifecycle"

// Lease is what a gate knows of its store partition on this node.
type Lease uint8

const (
	// LeaseNone: it was never assigned to this node.
	LeaseNone Lease = iota
	// LeaseOpening: it is assigned here, is opened and cannot answer yet.
	LeaseOpening
	// LeaseRestoring: it is assigned here, is restored and cannot answer yet.
	LeaseRestoring
	// LeaseServing: its store actor answers.
	LeaseServing
	// LeaseRevoked: it was here and is not any more, or its incarnation has ended.
	LeaseRevoked
	// LeaseFailed: it is assigned here and its engine failed.
	LeaseFailed
	// LeaseStandby: this node follows its changelog for another one, and answers those who allow that it is behind.
	LeaseStandby
	// LeaseGivenUp: it was here, and this node's member has left the group with it, because its thread is stuck.
	LeaseGivenUp
)

func (l Lease) String() string {
	return [...]string{"none", "opening", "restoring", "serving", "revoked", "failed", "standby", "given up"}[l]
}

// Situation is everything that the answer to a question depends on, as published at one moment.
type Situation struct {
	Node lifecycle.Node
	// Thread is the state of the thread that has the store partition; HasThread is false if none is known.
	Thread    lifecycle.Thread
	HasThread bool
	// Declared: the topology has the store.
	Declared bool
	// Global: every node has all of it under a thread of its own, so it never is anywhere else.
	Global bool
	// Mistake is StateStoreTypeMismatch, InvalidQuery or IteratorClosed if the question is the caller's mistake; 0 otherwise.
	Mistake Kind
	// Partitions is the store's count; 0 if not known yet.
	Partitions, Partition int32
	// Epoch is the question's: 0 to acquire and read in one.
	Epoch uint64
	// Held: the question belongs to a View or scan that was open, or it was accepted and its lease has ended since.
	Held       bool
	Lease      Lease
	LeaseEpoch uint64
	// OwnerElsewhere: the group's assignment names another node as the owner.
	OwnerElsewhere bool
	// Derived: the asker has not named the partition; it follows from a key, or from reading all.
	Derived bool
	// Group: the question is about the group and no lease is needed; Known: what it asks for is known.
	Group, Known bool
	// Stale: an answer of a standby will do that is at most MaxLag changelog offsets behind; Lag is how far this one is.
	Stale       bool
	Lag, MaxLag int64
	// RequireRunning asks for the draft's rule: no answer while any thread of the node is not RUNNING.
	RequireRunning bool
	// Full: as many questions wait as may. Late: the deadline has passed.
	Full, Late bool
}

// rule is one row of the precedence table.
type rule struct {
	kind    Kind
	applies func(*Situation) bool
}

// rules is the precedence table: the first row that applies decides; if none does the store answers. The order is that
// of the kinds, so "first row wins" can be read off the constants.
var rules = []rule{
	{UnknownStateStore, func(s *Situation) bool { return !s.Declared }},
	{StateStoreTypeMismatch, func(s *Situation) bool { return s.Mistake == StateStoreTypeMismatch }},
	{InvalidQuery, func(s *Situation) bool { return s.Mistake == InvalidQuery }},
	{IteratorClosed, func(s *Situation) bool { return s.Mistake == IteratorClosed }},
	{PartitionNotInStore, func(s *Situation) bool {
		return s.Partitions > 0 && (s.Partition < 0 || s.Partition >= s.Partitions)
	}},
	{StreamThreadNotRunning, func(s *Situation) bool { return s.ended() && !s.Held }},
	{StateStoreNotAvailable, func(s *Situation) bool { return s.ended() }},
	{StreamThreadNotStarted, func(s *Situation) bool { return s.Node == lifecycle.NodeCreated }},
	{InvalidStateStorePartition, func(s *Situation) bool { return s.notHere() && !s.Held && !s.Derived }},
	{StateStoreMigrated, func(s *Situation) bool { return s.notHere() || s.stale() }},
	{StreamThreadRebalancing, (*Situation).rebalancing},
	{MetadataUnavailable, func(s *Situation) bool { return !s.serves() && (s.Partitions == 0 || s.Group) }},
	// What is left without a live lease is a failed engine under a thread that runs.
	{StoreFailure, func(s *Situation) bool { return !s.serves() }},
	{Overloaded, func(s *Situation) bool { return s.Full }},
	{DeadlineExceeded, func(s *Situation) bool { return s.Late }},
}

// Decide says whether the store may answer and, if not, with which kind the question fails. It is the only place that
// decides this, and a pure function of what was published.
func Decide(s Situation) (kind Kind, serve bool) {
	for _, r := range rules {
		if r.applies(&s) {
			return r.kind, false
		}
	}
	return 0, true
}

// ended: the node has begun to stop or has failed, or supervision has given up on the partition's thread.
func (s *Situation) ended() bool {
	switch s.Node {
	case lifecycle.NodePendingShutdown, lifecycle.NodeNotRunning, lifecycle.NodePendingError, lifecycle.NodeError:
		return true
	}
	return s.HasThread && s.Thread == lifecycle.ThreadError
}

// serves: there is a live lease. A thread that is PENDING_SHUTDOWN takes no new questions although its stores are open.
func (s *Situation) serves() bool {
	if s.Group {
		return s.Known
	}
	follows := s.Lease == LeaseStandby && s.Stale && s.Lag <= s.MaxLag
	if s.Lease != LeaseServing && !follows || s.stale() {
		return false
	}
	return !s.HasThread || s.Thread == lifecycle.ThreadRebalancing || s.Thread == lifecycle.ThreadRunning
}

// stale: the question's lease is not the current one. It says so even while the same node opens the store anew, because
// asking again with the same epoch can never help.
func (s *Situation) stale() bool { return !s.Group && s.Epoch != 0 && s.Epoch != s.LeaseEpoch }

// assigned: this node was told to open it and not told to give it up. That is newer than any view of the group.
func (s *Situation) assigned() bool {
	switch s.Lease {
	case LeaseOpening, LeaseRestoring, LeaseServing, LeaseFailed:
		return true
	}
	return false
}

// notHere: another node owns it or is about to, or every thread of this node runs and none has it. A thread that is still rebalancing
// may yet get it.
func (s *Situation) notHere() bool {
	if s.Group || s.Global || s.serves() {
		return false
	}
	if s.Lease == LeaseGivenUp {
		return true
	}
	if s.assigned() {
		return s.OwnerElsewhere && s.leaving()
	}
	return s.OwnerElsewhere || (s.Node == lifecycle.NodeRunning && s.Partitions > 0 && !s.moving())
}

// leaving: its thread ends while the node goes on.
func (s *Situation) leaving() bool {
	return s.HasThread && (s.Thread == lifecycle.ThreadPendingShutdown || s.Thread == lifecycle.ThreadNotRunning)
}

// moving: the partition's thread is not RUNNING.
func (s *Situation) moving() bool { return s.HasThread && s.Thread != lifecycle.ThreadRunning }

// rebalancing: it is assigned here or not known yet, and no live lease serves it.
func (s *Situation) rebalancing() bool {
	if s.Group {
		return false
	}
	if s.RequireRunning && s.Node == lifecycle.NodeRebalancing {
		return true
	}
	if s.serves() {
		return false
	}
	switch {
	case s.Lease == LeaseOpening, s.Lease == LeaseRestoring, s.Global && s.Lease != LeaseFailed:
		return true
	case s.Lease == LeaseFailed:
		return s.moving() || (!s.HasThread && s.Node == lifecycle.NodeRebalancing)
	}
	return s.moving() || s.Node == lifecycle.NodeRebalancing
}

// Wraps is the draft's internal error that a failure of the kind stands for, or nil.
func (s *Situation) Wraps(kind Kind) error {
	switch kind {
	case StateStoreNotAvailable, StateStoreMigrated:
	case StreamThreadNotStarted:
		if !s.Held {
			return nil
		}
	default:
		return nil
	}
	if s.Epoch != 0 || s.Lease != LeaseNone {
		return ErrStateStoreClosed
	}
	return ErrEmptyStateStore
}
