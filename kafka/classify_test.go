package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/transaction"
	"github.com/millrace-io/millrace/record"
)

var everyOp = []broker.Op{
	broker.OpMetadata, broker.OpFindCoordinator, broker.OpJoinGroup, broker.OpSyncGroup, broker.OpHeartbeat, broker.OpLeaveGroup, broker.OpOffsetCommit,
	broker.OpOffsetFetch, broker.OpFetch, broker.OpListOffsets, broker.OpProduce, broker.OpInitProducerID, broker.OpAddPartitions, broker.OpAddOffsets,
	broker.OpTxnOffsetCommit, broker.OpEndTxn, broker.OpCreateTopics, broker.OpDescribeConfigs, broker.OpDeleteRecords, opDeleteTopics, opDescribeGroups, opDeleteGroups,
}

var situations = []transaction.Situation{transaction.First, transaction.Repeated, transaction.Behind, transaction.ToAbort, transaction.Again}

// Every request with every code that the client library knows, and more, in every situation: the class is the first line's
// of the table, found here by a plain walk that prefers the situation's own line, then the request's; or Fatal, and on Produce
// Abort the first time.
func TestClassifyIsTheTable(t *testing.T) {
	used := map[int]bool{}
	for _, op := range everyOp {
		for code := int16(-5); code <= 160; code++ {
			for _, in := range situations {
				want, line := expected(op, code, in)
				used[line] = true
				if got := Classify(op, code, in); got != want {
					t.Errorf("%s %d in situation %d is %s, the table says %s", op, code, in, got, want)
				}
			}
		}
	}
	for i, r := range table {
		if !used[i] {
			t.Errorf("line %d (%v %d in %d) decides nothing", i, r.ops, r.code, r.in)
		}
		if r.why == "" {
			t.Errorf("line %d (%v %d) does not say why", i, r.ops, r.code)
		}
	}
	for code := int16(161); code < 1000; code++ {
		if !strings.HasPrefix(sarama.KError(code).Error(), "Unknown error") {
			t.Errorf("the client library knows %d, which is not walked", code)
		}
	}
}

func expected(op broker.Op, code int16, in transaction.Situation) (broker.Class, int) {
	if code == 0 {
		return broker.Ignore, -1
	}
	for _, want := range []struct {
		op broker.Op
		in transaction.Situation
	}{{op, in}, {op, transaction.First}, {"", transaction.First}} {
		for i, r := range table {
			if r.code == code && r.in == want.in && ((r.ops == nil && want.op == "") || slices.Contains(r.ops, want.op)) {
				return r.class, i
			}
		}
	}
	if op == broker.OpProduce && in != transaction.Again {
		return broker.Abort, -1
	}
	return broker.Fatal, -1
}

// What was measured on a real broker, written out a second time, from the list at the end of the facts.
func TestClassifyAgreesWithARealBroker(t *testing.T) {
	for _, r := range []struct {
		op    broker.Op
		codes []int16
		want  broker.Class
	}{
		{broker.OpInitProducerID, []int16{14, 15, 16, 51}, broker.Retry},
		{broker.OpInitProducerID, []int16{90}, broker.Migrated},
		{broker.OpInitProducerID, []int16{50, 53}, broker.Fatal},
		{broker.OpAddPartitions, []int16{90, 49}, broker.Abort},
		{broker.OpAddPartitions, []int16{3, 51}, broker.Retry},
		{broker.OpAddPartitions, []int16{55}, broker.Ignore},
		{broker.OpAddPartitions, []int16{29, 53}, broker.Fatal},
		{broker.OpAddOffsets, []int16{90, 49}, broker.Abort},
		{broker.OpAddOffsets, []int16{30, 53}, broker.Fatal},
		{broker.OpTxnOffsetCommit, []int16{47, 48, 27}, broker.Abort},
		{broker.OpTxnOffsetCommit, []int16{22, 25, 82}, broker.Migrated},
		{broker.OpTxnOffsetCommit, []int16{30, 53}, broker.Fatal},
		{broker.OpEndTxn, []int16{90, 49, 48}, broker.Abort},
		{broker.OpEndTxn, []int16{51, 14}, broker.Retry},
		{broker.OpEndTxn, []int16{15, 16}, broker.CommitUnknown}, // the same again, but what it did is not known
		{broker.OpEndTxn, []int16{53}, broker.Fatal},
		{broker.OpProduce, []int16{10, 32, 87}, broker.Record},
		{broker.OpProduce, []int16{45, 47, 48, 120}, broker.Abort},
		{broker.OpProduce, []int16{6, 3, 7, 19, 20}, broker.Retry},
		{broker.OpProduce, []int16{29, 53}, broker.Fatal},
		{broker.OpHeartbeat, []int16{22, 25, 82}, broker.Migrated},
		{broker.OpHeartbeat, []int16{27}, broker.Retry},
		{broker.OpSyncGroup, []int16{22, 25, 82}, broker.Migrated},
		{broker.OpJoinGroup, []int16{79}, broker.Retry},
		{broker.OpJoinGroup, []int16{25, 82}, broker.Migrated},
		{broker.OpJoinGroup, []int16{23, 26, 30}, broker.Fatal},
		{broker.OpOffsetCommit, []int16{22, 25, 82}, broker.Migrated},
		{broker.OpOffsetCommit, []int16{27, 14, 15, 16}, broker.Retry},
		{broker.OpLeaveGroup, []int16{25}, broker.Ignore},
		{broker.OpOffsetFetch, []int16{88}, broker.Retry},
		{broker.OpOffsetFetch, []int16{69}, broker.Ignore},
		{broker.OpFetch, []int16{3, 6, 74, 75}, broker.Retry},
		{broker.OpFetch, []int16{29}, broker.Fatal},
		{broker.OpListOffsets, []int16{3, 6, 74, 75}, broker.Retry},
		{broker.OpCreateTopics, []int16{36}, broker.Ignore},
		{broker.OpCreateTopics, []int16{17, 37, 38, 40, 44, 29}, broker.Fatal},
	} {
		for _, code := range r.codes {
			if got := Classify(r.op, code); got != r.want {
				t.Errorf("%s %d is %s, a real broker's means %s", r.op, code, got, r.want)
			}
		}
	}
}

func TestTransportErrorsAreRetriedExceptACommit(t *testing.T) {
	lost := errors.New("connection reset")
	for _, op := range everyOp {
		want := broker.Retry
		if op == broker.OpEndTxn {
			want = broker.CommitUnknown
		}
		if err := asError(op, record.TopicPartition{}, lost); err.Class != want || !errors.Is(err, lost) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if err := asError(broker.OpProduce, record.TopicPartition{}, fmt.Errorf("wrapped: %w", sarama.ErrNotLeaderForPartition)); err.Code != 6 {
		t.Errorf("%v", err)
	}
}
