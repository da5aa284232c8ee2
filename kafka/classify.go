package kafka

import (
	"errors"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// transportCode stands for "no answer": a lost connection, a time-out, a refused dial. Kafka uses -1 for an unknown
// server error, so this is below it.
const transportCode int16 = -2

// row is one line of the table of broker errors.
type row struct {
	// ops are the requests that the line is about; nil means all that have no line of their own for the code.
	ops   []broker.Op
	code  int16
	class broker.Class
	// why names the row of KIP-691 or what a real broker was seen to do.
	why string
}

var (
	group        = []broker.Op{broker.OpJoinGroup, broker.OpSyncGroup, broker.OpHeartbeat, broker.OpLeaveGroup, broker.OpOffsetCommit, broker.OpOffsetFetch}
	coordinated  = append([]broker.Op{broker.OpFindCoordinator, broker.OpInitProducerID, broker.OpAddPartitions, broker.OpAddOffsets, broker.OpTxnOffsetCommit, broker.OpEndTxn}, group...)
	transactions = []broker.Op{broker.OpInitProducerID, broker.OpAddPartitions, broker.OpAddOffsets, broker.OpTxnOffsetCommit, broker.OpEndTxn}
	reads        = []broker.Op{broker.OpFetch, broker.OpListOffsets}
	admin        = []broker.Op{broker.OpCreateTopics, broker.OpDeleteRecords, broker.OpDescribeConfigs, broker.OpMetadata, opDeleteTopics}
)

// table gives every code that a broker was seen to answer, or that KIP-691 names, its class. The first row that matches
// wins; what is not here is Fatal.
var table = []row{
	{coordinated, 14, broker.Retry, "coordinator is loading"},
	{coordinated, 15, broker.Retry, "no coordinator yet; 9 to 11 s after one dies"},
	{coordinated, 16, broker.Retry, "the coordinator moved"},
	{transactions, 51, broker.Retry, "the markers of the last transaction are being written: 5 to 40 ms"},
	{[]broker.Op{broker.OpInitProducerID}, 90, broker.Migrated, "fenced; KIP-691: ProducerFenced"},
	{[]broker.Op{broker.OpInitProducerID}, 50, broker.Fatal, "transaction time-out above the broker's limit"},
	{[]broker.Op{broker.OpAddPartitions, broker.OpAddOffsets, broker.OpEndTxn}, 90, broker.Abort, "fenced or timed out: re-init decides"},
	{[]broker.Op{broker.OpProduce, broker.OpTxnOffsetCommit}, 47, broker.Abort, "KIP-691: InvalidProducerEpoch; cannot be told from a time-out"},
	{[]broker.Op{broker.OpAddPartitions, broker.OpAddOffsets, broker.OpEndTxn}, 49, broker.Abort, "KIP-691: InvalidPidMapping; the id expired"},
	{[]broker.Op{broker.OpProduce, broker.OpTxnOffsetCommit, broker.OpEndTxn}, 48, broker.Abort, "KIP-691: InvalidTxnState; a real broker's transaction is gone, the producer is not"},
	{[]broker.Op{broker.OpProduce}, 120, broker.Abort, "KIP-890: TransactionAbortable"},
	{[]broker.Op{broker.OpAddPartitions}, 3, broker.Retry, "the topic may appear"},
	{[]broker.Op{broker.OpAddPartitions}, 55, broker.Ignore, "another partition of the request was refused"},
	{[]broker.Op{broker.OpProduce}, 10, broker.Record, "KIP-691: RecordBatchTooLarge"},
	{[]broker.Op{broker.OpProduce}, 18, broker.Record, "KIP-691: RecordBatchTooLarge, by segment size"},
	{[]broker.Op{broker.OpProduce}, 32, broker.Record, "timestamp outside the topic's limits"},
	{[]broker.Op{broker.OpProduce}, 87, broker.Record, "KIP-691: InvalidRecord"},
	{[]broker.Op{broker.OpProduce}, 2, broker.Retry, "KIP-691: CorruptRecord"},
	{[]broker.Op{broker.OpProduce}, 45, broker.Abort, "KIP-691: OutOfOrderSequence"},
	{[]broker.Op{broker.OpProduce}, 59, broker.Abort, "KIP-691: UnknownProducerId"},
	{[]broker.Op{broker.OpProduce}, 49, broker.Abort, "KIP-691: InvalidPidMapping; a new id helps"},
	{[]broker.Op{broker.OpProduce}, 90, broker.Abort, "fenced or timed out: re-init decides"},
	{[]broker.Op{broker.OpAddPartitions, broker.OpAddOffsets, broker.OpEndTxn}, 47, broker.Abort, "the older code for 90: re-init decides"},
	{[]broker.Op{broker.OpAddPartitions, broker.OpAddOffsets}, 48, broker.Abort, "the transaction is gone, the producer is not"},
	{[]broker.Op{broker.OpTxnOffsetCommit}, 49, broker.Abort, "the id expired: re-init gives a new one"},
	{[]broker.Op{broker.OpTxnOffsetCommit}, 90, broker.Abort, "fenced or timed out: re-init decides; kfake's answer to a stale epoch"},
	{[]broker.Op{broker.OpAddPartitions, broker.OpAddOffsets, broker.OpTxnOffsetCommit, broker.OpEndTxn}, 59, broker.Abort, "KIP-691: UnknownProducerId"},
	{[]broker.Op{broker.OpAddPartitions, broker.OpAddOffsets, broker.OpTxnOffsetCommit, broker.OpEndTxn}, 120, broker.Abort, "KIP-890: TransactionAbortable"},
	{[]broker.Op{broker.OpInitProducerID}, 47, broker.Migrated, "the older code for 90"},
	{[]broker.Op{broker.OpEndTxn}, 7, broker.CommitUnknown, "a time-out says nothing about the outcome"},
	{[]broker.Op{broker.OpProduce}, 46, broker.Ignore, "already in the log"},
	{[]broker.Op{broker.OpProduce}, 3, broker.Retry, "KIP-691: UnknownTopicOrPartition"},
	{[]broker.Op{broker.OpProduce}, 5, broker.Retry, "no leader at the moment"},
	{[]broker.Op{broker.OpProduce}, 6, broker.Retry, "KIP-691: NotLeaderOrFollower"},
	{[]broker.Op{broker.OpProduce}, 7, broker.Retry, "KIP-691: Timeout"},
	{[]broker.Op{broker.OpProduce}, 8, broker.Retry, "the leader is starting"},
	{[]broker.Op{broker.OpProduce}, 13, broker.Retry, "network exception"},
	{[]broker.Op{broker.OpProduce}, 19, broker.Retry, "KIP-691: NotEnoughReplicas"},
	{[]broker.Op{broker.OpProduce}, 20, broker.Retry, "KIP-691: NotEnoughReplicasAfterAppend"},
	{[]broker.Op{broker.OpProduce}, 56, broker.Retry, "a disk of the leader failed"},
	{[]broker.Op{broker.OpProduce}, 74, broker.Retry, "stale leader epoch"},
	{[]broker.Op{broker.OpProduce}, 17, broker.Fatal, "KIP-691: InvalidTopic"},
	{[]broker.Op{broker.OpProduce}, 21, broker.Fatal, "KIP-691: InvalidRequiredAcks"},
	{[]broker.Op{broker.OpTxnOffsetCommit, broker.OpOffsetCommit, broker.OpHeartbeat, broker.OpSyncGroup}, 22, broker.Migrated, "KIP-691: CommitFailed, from an old generation"},
	{[]broker.Op{broker.OpLeaveGroup}, 25, broker.Ignore, "it has left already"},
	{group, 25, broker.Migrated, "KIP-691: CommitFailed, an unknown member"},
	{[]broker.Op{broker.OpTxnOffsetCommit}, 25, broker.Migrated, "KIP-691: CommitFailed, an unknown member"},
	{append([]broker.Op{broker.OpTxnOffsetCommit}, group...), 82, broker.Migrated, "KIP-691: FencedInstanceId"},
	{[]broker.Op{broker.OpTxnOffsetCommit}, 27, broker.Abort, "a rebalance; not seen on a real broker"},
	{group, 27, broker.Retry, "a rebalance: after the sync"},
	{[]broker.Op{broker.OpJoinGroup}, 79, broker.Retry, "join again with the id"},
	{[]broker.Op{broker.OpOffsetFetch}, 88, broker.Retry, "a transaction's offsets are pending"},
	{[]broker.Op{broker.OpOffsetFetch}, 69, broker.Ignore, "nothing was committed"},
	{reads, 1, broker.Abort, "the reset policy decides"},
	{reads, 2, broker.Retry, "damaged on its way"},
	{reads, 3, broker.Retry, "metadata is stale"},
	{reads, 5, broker.Retry, "no leader at the moment"},
	{reads, 6, broker.Retry, "metadata is stale"},
	{reads, 7, broker.Retry, "slow broker"},
	{reads, 8, broker.Retry, "the leader is starting"},
	{reads, 9, broker.Retry, "the replica is not there"},
	{reads, 56, broker.Retry, "a disk of the leader failed"},
	{reads, 74, broker.Retry, "stale leader epoch"},
	{reads, 75, broker.Retry, "the broker has not heard of the leader epoch yet"},
	{reads, 78, broker.Retry, "offsets are not available yet"},
	{admin, 3, broker.Retry, "the topic may appear"},
	{admin, 5, broker.Retry, "no leader at the moment"},
	{admin, 6, broker.Retry, "metadata is stale"},
	{admin, 7, broker.Retry, "slow controller"},
	{admin, 36, broker.Ignore, "it exists"},
	{admin, 41, broker.Retry, "the controller moved"},
	{nil, 7, broker.Retry, "slow broker, or one that waits for its replicas; outages never end a node"},
	{nil, 8, broker.Retry, "the broker is starting"},
	{nil, 13, broker.Retry, "network exception"},
	{nil, 89, broker.Retry, "a quota: later"},
}

// anyOp stands for every request in the index of the table.
const anyOp broker.Op = ""

type tableKey struct {
	op   broker.Op
	code int16
}

var byOpAndCode = func() map[tableKey]broker.Class {
	m := map[tableKey]broker.Class{}
	for _, r := range table {
		ops := r.ops
		if ops == nil {
			ops = []broker.Op{anyOp}
		}
		for _, op := range ops {
			if _, ok := m[tableKey{op, r.code}]; !ok {
				m[tableKey{op, r.code}] = r.class
			}
		}
	}
	return m
}()

// Classify says what an error code means for the request that got it. A code that the table does not hold is Fatal.
func Classify(op broker.Op, code int16) broker.Class {
	switch code {
	case 0:
		return broker.Ignore
	case transportCode:
		if op == broker.OpEndTxn {
			return broker.CommitUnknown
		}
		return broker.Retry
	}
	for _, o := range [...]broker.Op{op, anyOp} {
		if c, ok := byOpAndCode[tableKey{o, code}]; ok {
			return c
		}
	}
	return broker.Fatal
}

// NewError classifies a failed request. tp may be zero.
func NewError(op broker.Op, code int16, tp record.TopicPartition, cause error) *broker.Error {
	return &broker.Error{Op: op, Code: code, Class: Classify(op, code), Source: tp, Cause: cause}
}

// asError classifies whatever a request returned.
func asError(op broker.Op, tp record.TopicPartition, err error) *broker.Error {
	var be *broker.Error
	if errors.As(err, &be) {
		return be
	}
	var code sarama.KError
	if errors.As(err, &code) {
		return NewError(op, int16(code), tp, err)
	}
	return NewError(op, transportCode, tp, err)
}
