package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/thread"
)

// described is an event as the transcript has it, without anything that differs from run to run.
func described(e broker.Event) string {
	switch e := e.(type) {
	case broker.Assigned:
		return fmt.Sprintf("Assigned %v of generation %d as %s", e.Partitions, e.Generation, e.MemberID)
	case broker.Revoking:
		return fmt.Sprintf("Revoking %v of generation %d", e.Partitions, e.Generation)
	case broker.Lost:
		return fmt.Sprintf("Lost %v: %v", e.Partitions, e.Cause)
	case broker.Fetched:
		return fmt.Sprintf("Fetched %d of %s, %d to %d", len(e.Batches[0].Records), e.Batches[0].Source, e.Batches[0].From, e.Batches[0].Next)
	case broker.Flushed:
		return fmt.Sprintf("Flushed %d to %s: %v", e.Token, places(e.Ends), failed(e.Err))
	case broker.OffsetsFetched:
		return fmt.Sprintf("OffsetsFetched %d %s: %v", e.Token, offsetsText(e.Offsets), failed(e.Err))
	case broker.TransactionEnded:
		return fmt.Sprintf("TransactionEnded %d: %v", e.Token, failed(e.Err))
	case broker.TransactionAborted:
		return fmt.Sprintf("TransactionAborted %d: %v", e.Token, failed(e.Err))
	case broker.OffsetsCommitted:
		return fmt.Sprintf("OffsetsCommitted %d: %v", e.Token, failed(e.Err))
	case broker.Fenced:
		return fmt.Sprintf("Fenced %d: %v", e.Token, failed(e.Err))
	case broker.Rejoining:
		return "Rejoining: " + e.Reason
	case broker.GroupFailed:
		return fmt.Sprintf("GroupFailed: %v", e.Err)
	case thread.StateReady:
		return fmt.Sprintf("StateReady %s", e.Task)
	case thread.StateFailed:
		return fmt.Sprintf("StateFailed %s: %s", e.Task, plain(e.Err))
	case thread.StateClosed:
		return fmt.Sprintf("StateClosed %s", e.Task)
	case thread.UnitApplied:
		return fmt.Sprintf("UnitApplied %s: %t", e.Task, e.Err == nil)
	}
	return fmt.Sprintf("%T", e)
}

func failed(err *broker.Error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

func places(ends map[record.TopicPartition]int64) string {
	var b strings.Builder
	set := map[record.TopicPartition]bool{}
	for tp := range ends {
		set[tp] = true
	}
	for _, tp := range sortedPartitions(set) {
		fmt.Fprintf(&b, "%s:%d ", tp, ends[tp])
	}
	return b.String()
}

func offsetsText(at broker.Offsets) string {
	var b strings.Builder
	for _, tp := range sortedOffsets(at) {
		fmt.Fprintf(&b, "%s:%d ", tp, at[tp].At)
	}
	return b.String()
}

// panicked is a violation: nothing of the product may panic.
func panicked(r any) *violation {
	return &violation{fmt.Sprintf("panic: %v\n%s", r, debug.Stack())}
}
