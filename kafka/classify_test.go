package kafka

import (
	"errors"
	"fmt"
	"testing"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

var everyOp = []broker.Op{
	broker.OpMetadata, broker.OpFindCoordinator, broker.OpJoinGroup, broker.OpSyncGroup, broker.OpHeartbeat, broker.OpLeaveGroup, broker.OpOffsetCommit,
	broker.OpOffsetFetch, broker.OpFetch, broker.OpListOffsets, broker.OpProduce, broker.OpInitProducerID, broker.OpAddPartitions, broker.OpAddOffsets,
	broker.OpTxnOffsetCommit, broker.OpEndTxn, broker.OpCreateTopics, broker.OpDescribeConfigs, broker.OpDeleteRecords, opDeleteTopics,
}

// Every request with every code that Kafka has: the class is the first line's of the table, found here by a plain walk, or
// Fatal.
func TestClassifyIsTheTable(t *testing.T) {
	used := map[string]bool{}
	for _, op := range everyOp {
		for code := int16(-1); code <= 133; code++ {
			want := broker.Fatal
			if code == 0 {
				want = broker.Ignore
			}
			best := -1
			for i, r := range table {
				named := false
				for _, o := range r.ops {
					named = named || o == op
				}
				if r.code == code && (named || (r.ops == nil && best < 0)) {
					if best < 0 || (named && table[best].ops == nil) {
						best = i
					}
				}
			}
			if best >= 0 {
				want = table[best].class
				used[fmt.Sprint(best)] = true
			}
			if got := Classify(op, code); got != want {
				t.Errorf("%s %d is %s, the table says %s", op, code, got, want)
			}
		}
	}
	for i, r := range table {
		if !used[fmt.Sprint(i)] {
			t.Errorf("line %d (%v %d) decides nothing", i, r.ops, r.code)
		}
		if r.why == "" {
			t.Errorf("line %d (%v %d) does not say why", i, r.ops, r.code)
		}
	}
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
		{broker.OpEndTxn, []int16{51, 14, 15, 16}, broker.Retry},
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
