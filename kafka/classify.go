package kafka

import (
	"errors"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/transaction"
	"github.com/millrace-io/millrace/record"
)

// transportCode stands for "no answer": a lost connection, a time-out, a refused dial. Kafka uses -1 for an unknown
// server error, so this is below it.
const transportCode = transaction.Transport

// row is one line of the table of broker errors.
type row struct {
	// ops are the requests that the line is about; nil means all that have no line of their own for the code.
	ops   []broker.Op
	code  int16
	class broker.Class
	// why names the row of KIP-691 or what a real broker was seen to do.
	why string
	// in is the situation that the line is about; the zero one stands for all that have no line of their own.
	in transaction.Situation
}

var (
	group        = []broker.Op{broker.OpJoinGroup, broker.OpSyncGroup, broker.OpHeartbeat, broker.OpLeaveGroup, broker.OpOffsetCommit, broker.OpOffsetFetch}
	coordinated  = append([]broker.Op{broker.OpFindCoordinator, broker.OpInitProducerID, broker.OpAddPartitions, broker.OpAddOffsets, broker.OpTxnOffsetCommit, broker.OpEndTxn}, group...)
	transactions = []broker.Op{broker.OpInitProducerID, broker.OpAddPartitions, broker.OpAddOffsets, broker.OpTxnOffsetCommit, broker.OpEndTxn}
	end          = []broker.Op{broker.OpEndTxn}
	produce      = []broker.Op{broker.OpProduce}
	reads        = []broker.Op{broker.OpFetch, broker.OpListOffsets}
	admin        = []broker.Op{broker.OpCreateTopics, broker.OpDeleteRecords, broker.OpDescribeConfigs, broker.OpMetadata, opDeleteTopics}
)

// table gives every code that a broker was seen to answer, or that KIP-691 names, its class. The first row that matches
// wins; what is not here is Fatal.
var table = []row{
	{end, 15, broker.CommitUnknown, "the log of transactions was not written in time, or will be", 0},
	{end, 16, broker.CommitUnknown, "the coordinator moved, perhaps after it had written", 0},
	{coordinated, 14, broker.Retry, "coordinator is loading", 0},
	{coordinated, 15, broker.Retry, "no coordinator yet; 9 to 11 s after one dies", 0},
	{coordinated, 16, broker.Retry, "the coordinator moved", 0},
	{transactions, 51, broker.Retry, "the markers of the last transaction are being written: 5 to 40 ms", 0},
	{[]broker.Op{broker.OpInitProducerID}, 90, broker.Migrated, "fenced; KIP-691: ProducerFenced", 0},
	{[]broker.Op{broker.OpInitProducerID}, 50, broker.Fatal, "transaction time-out above the broker's limit", 0},
	{[]broker.Op{broker.OpAddPartitions, broker.OpAddOffsets, broker.OpEndTxn}, 90, broker.Abort, "fenced or timed out: re-init decides", 0},
	{[]broker.Op{broker.OpProduce, broker.OpTxnOffsetCommit}, 47, broker.Abort, "KIP-691: InvalidProducerEpoch; cannot be told from a time-out", 0},
	{[]broker.Op{broker.OpAddPartitions, broker.OpAddOffsets, broker.OpEndTxn}, 49, broker.Abort, "KIP-691: InvalidPidMapping; the id expired", 0},
	{[]broker.Op{broker.OpProduce, broker.OpTxnOffsetCommit, broker.OpEndTxn}, 48, broker.Abort, "KIP-691: InvalidTxnState; a real broker's transaction is gone, the producer is not", 0},
	{[]broker.Op{broker.OpProduce}, 120, broker.Abort, "KIP-890: TransactionAbortable", 0},
	{[]broker.Op{broker.OpAddPartitions}, 3, broker.Retry, "the topic may appear", 0},
	{[]broker.Op{broker.OpAddPartitions}, 55, broker.Ignore, "another partition of the request was refused", 0},
	{[]broker.Op{broker.OpProduce}, 10, broker.Record, "KIP-691: RecordBatchTooLarge", 0},
	{[]broker.Op{broker.OpProduce}, 18, broker.Record, "KIP-691: RecordBatchTooLarge, by segment size", 0},
	{[]broker.Op{broker.OpProduce}, 32, broker.Record, "timestamp outside the topic's limits", 0},
	{[]broker.Op{broker.OpProduce}, 87, broker.Record, "KIP-691: InvalidRecord", 0},
	{[]broker.Op{broker.OpProduce}, 2, broker.Retry, "KIP-691: CorruptRecord", 0},
	{[]broker.Op{broker.OpProduce}, 45, broker.Abort, "KIP-691: OutOfOrderSequence", 0},
	{[]broker.Op{broker.OpProduce}, 59, broker.Abort, "KIP-691: UnknownProducerId", 0},
	{[]broker.Op{broker.OpProduce}, 49, broker.Abort, "KIP-691: InvalidPidMapping; a new id helps", 0},
	{[]broker.Op{broker.OpProduce}, 90, broker.Abort, "fenced or timed out: re-init decides", 0},
	{[]broker.Op{broker.OpAddPartitions, broker.OpAddOffsets, broker.OpEndTxn}, 47, broker.Abort, "the older code for 90: re-init decides", 0},
	{[]broker.Op{broker.OpAddPartitions, broker.OpAddOffsets}, 48, broker.Abort, "the transaction is gone, the producer is not", 0},
	{[]broker.Op{broker.OpTxnOffsetCommit}, 49, broker.Abort, "the id expired: re-init gives a new one", 0},
	{[]broker.Op{broker.OpTxnOffsetCommit}, 90, broker.Abort, "fenced or timed out: re-init decides; kfake's answer to a stale epoch", 0},
	{[]broker.Op{broker.OpAddPartitions, broker.OpAddOffsets, broker.OpTxnOffsetCommit, broker.OpEndTxn}, 59, broker.Abort, "KIP-691: UnknownProducerId", 0},
	{[]broker.Op{broker.OpAddPartitions, broker.OpAddOffsets, broker.OpTxnOffsetCommit, broker.OpEndTxn}, 120, broker.Abort, "KIP-890: TransactionAbortable", 0},
	{[]broker.Op{broker.OpInitProducerID}, 47, broker.Migrated, "the older code for 90", 0},
	{[]broker.Op{broker.OpEndTxn}, 7, broker.CommitUnknown, "a time-out says nothing about the outcome", 0},
	{[]broker.Op{broker.OpProduce}, 46, broker.Ignore, "already in the log", 0},
	{[]broker.Op{broker.OpProduce}, 3, broker.Retry, "KIP-691: UnknownTopicOrPartition", 0},
	{[]broker.Op{broker.OpProduce}, 5, broker.Retry, "no leader at the moment", 0},
	{[]broker.Op{broker.OpProduce}, 6, broker.Retry, "KIP-691: NotLeaderOrFollower", 0},
	{[]broker.Op{broker.OpProduce}, 7, broker.Retry, "KIP-691: Timeout", 0},
	{[]broker.Op{broker.OpProduce}, 8, broker.Retry, "the leader is starting", 0},
	{[]broker.Op{broker.OpProduce}, 13, broker.Retry, "network exception", 0},
	{[]broker.Op{broker.OpProduce}, 19, broker.Retry, "KIP-691: NotEnoughReplicas", 0},
	{[]broker.Op{broker.OpProduce}, 20, broker.Retry, "KIP-691: NotEnoughReplicasAfterAppend", 0},
	{[]broker.Op{broker.OpProduce}, 56, broker.Retry, "a disk of the leader failed", 0},
	{[]broker.Op{broker.OpProduce}, 74, broker.Retry, "stale leader epoch", 0},
	{[]broker.Op{broker.OpProduce}, 17, broker.Fatal, "KIP-691: InvalidTopic", 0},
	{[]broker.Op{broker.OpProduce}, 21, broker.Fatal, "KIP-691: InvalidRequiredAcks", 0},
	{[]broker.Op{broker.OpTxnOffsetCommit, broker.OpOffsetCommit, broker.OpHeartbeat, broker.OpSyncGroup}, 22, broker.Migrated, "KIP-691: CommitFailed, from an old generation", 0},
	{[]broker.Op{broker.OpLeaveGroup}, 25, broker.Ignore, "it has left already", 0},
	{group, 25, broker.Migrated, "KIP-691: CommitFailed, an unknown member", 0},
	{[]broker.Op{broker.OpTxnOffsetCommit}, 25, broker.Migrated, "KIP-691: CommitFailed, an unknown member", 0},
	{append([]broker.Op{broker.OpTxnOffsetCommit}, group...), 82, broker.Migrated, "KIP-691: FencedInstanceId", 0},
	{[]broker.Op{broker.OpTxnOffsetCommit}, 27, broker.Abort, "a rebalance; not seen on a real broker", 0},
	{group, 27, broker.Retry, "a rebalance: after the sync", 0},
	{[]broker.Op{broker.OpJoinGroup}, 79, broker.Retry, "join again with the id", 0},
	{[]broker.Op{broker.OpOffsetFetch}, 88, broker.Retry, "a transaction's offsets are pending", 0},
	{[]broker.Op{broker.OpOffsetFetch}, 69, broker.Ignore, "nothing was committed", 0},
	{reads, 1, broker.Abort, "the reset policy decides", 0},
	{reads, 2, broker.Retry, "damaged on its way", 0},
	{reads, 3, broker.Retry, "metadata is stale", 0},
	{reads, 5, broker.Retry, "no leader at the moment", 0},
	{reads, 6, broker.Retry, "metadata is stale", 0},
	{reads, 7, broker.Retry, "slow broker", 0},
	{reads, 8, broker.Retry, "the leader is starting", 0},
	{reads, 9, broker.Retry, "the replica is not there", 0},
	{reads, 56, broker.Retry, "a disk of the leader failed", 0},
	{reads, 74, broker.Retry, "stale leader epoch", 0},
	{reads, 75, broker.Retry, "the broker has not heard of the leader epoch yet", 0},
	{reads, 78, broker.Retry, "offsets are not available yet", 0},
	{admin, 3, broker.Retry, "the topic may appear", 0},
	{admin, 5, broker.Retry, "no leader at the moment", 0},
	{admin, 6, broker.Retry, "metadata is stale", 0},
	{admin, 7, broker.Retry, "slow controller", 0},
	{admin, 36, broker.Ignore, "it exists", 0},
	{admin, 41, broker.Retry, "the controller moved", 0},
	{end, transaction.Transport, broker.CommitUnknown, "it may have been carried out: the same again", transaction.First},
	{end, transaction.Transport, broker.Retry, "the same again", transaction.Repeated},
	{end, transaction.Transport, broker.Abort, "re-init ends it as well", transaction.ToAbort},
	{end, 7, broker.Retry, "the same again", transaction.Repeated},
	{end, 7, broker.Abort, "re-init ends it as well", transaction.ToAbort},
	{end, 15, broker.Retry, "the same again", transaction.Repeated},
	{end, 15, broker.Retry, "the coordinator moved", transaction.ToAbort},
	{end, 16, broker.Retry, "the same again", transaction.Repeated},
	{end, 16, broker.Retry, "the coordinator moved", transaction.ToAbort},
	{end, 90, broker.CommitUnknown, "committed and expired, or timed out: committed offsets tell", transaction.Repeated},
	{end, 47, broker.CommitUnknown, "the older code for 90", transaction.Repeated},
	{end, 49, broker.CommitUnknown, "the id expired since", transaction.Repeated},
	{end, 48, broker.Abort, "it was aborted", transaction.Repeated},
	{end, 48, broker.Ignore, "nothing is open", transaction.ToAbort},
	{[]broker.Op{broker.OpTxnOffsetCommit}, 3, broker.Retry, "the coordinator has not heard of the topic yet", 0},
	{produce, 45, broker.Retry, "sent behind a batch that was not taken: numbered anew", transaction.Behind},
	{[]broker.Op{broker.OpInitProducerID}, 49, broker.Abort, "the id is not known: nobody owns it", 0},
	{nil, transaction.Transport, broker.Retry, "no answer", 0},
	{nil, transaction.NotSent, broker.Retry, "it never left", 0},
	{nil, transaction.Malformed, broker.Fatal, "KIP-691: correlation id mismatch", 0},
	{produce, 29, broker.Fatal, "KIP-691: TopicAuthorization", 0},
	{produce, 31, broker.Fatal, "KIP-691: ClusterAuthorization", 0},
	{produce, 53, broker.Fatal, "KIP-691: TransactionalIdAuthorization", 0},
	{nil, 7, broker.Retry, "slow broker, or one that waits for its replicas; outages never end a node", 0},
	{nil, 8, broker.Retry, "the broker is starting", 0},
	{nil, 13, broker.Retry, "network exception", 0},
	{nil, 89, broker.Retry, "a quota: later", 0},
}

// anyOp stands for every request in the index of the table.
const anyOp broker.Op = ""

type tableKey struct {
	op   broker.Op
	code int16
	in   transaction.Situation
}

var byOpAndCode = func() map[tableKey]broker.Class {
	m := map[tableKey]broker.Class{}
	for _, r := range table {
		ops := r.ops
		if ops == nil {
			ops = []broker.Op{anyOp}
		}
		for _, op := range ops {
			key := tableKey{op, r.code, r.in}
			if _, ok := m[key]; !ok {
				m[key] = r.class
			}
		}
	}
	return m
}()

// known says that the table holds the code for the request.
func known(op broker.Op, code int16) bool {
	_, ok := lookUp(op, code, transaction.First)
	return ok || code == 0
}

func lookUp(op broker.Op, code int16, in transaction.Situation) (broker.Class, bool) {
	for _, key := range [...]tableKey{{op, code, in}, {op, code, transaction.First}, {anyOp, code, transaction.First}} {
		if c, ok := byOpAndCode[key]; ok {
			return c, true
		}
	}
	return 0, false
}

// Classify says what an error code means for the request that got it. What it means can depend on the situation; without
// one it is the usual one, transaction.First. A code that the table does not hold is Fatal; on Produce, where brokers are most
// likely to learn new ones, it costs the transaction the first time (Abort) and is Fatal when it is repeated.
func Classify(op broker.Op, code int16, in ...transaction.Situation) broker.Class {
	situation := transaction.First
	if len(in) > 0 {
		situation = in[0]
	}
	if code == 0 {
		return broker.Ignore
	}
	if c, ok := lookUp(op, code, situation); ok {
		return c
	}
	if op == broker.OpProduce && situation != transaction.Again {
		return broker.Abort
	}
	return broker.Fatal
}

// NewError classifies a failed request. tp may be zero.
func NewError(op broker.Op, code int16, tp record.TopicPartition, cause error) *broker.Error {
	return classified(op, code, transaction.First, tp, cause)
}

func classified(op broker.Op, code int16, in transaction.Situation, tp record.TopicPartition, cause error) *broker.Error {
	if cause == nil && code > 0 {
		cause = sarama.KError(code)
	}
	return &broker.Error{Op: op, Code: code, Class: Classify(op, code, in), Source: tp, Cause: cause}
}

// asError classifies whatever a request returned.
func asError(op broker.Op, tp record.TopicPartition, err error) *broker.Error {
	var be *broker.Error
	if errors.As(err, &be) {
		return be
	}
	return NewError(op, codeOf(err), tp, err)
}

// codeOf is the code of a bare error. An answer that cannot be read, or that carries another request's correlation id, is
// not an outage but a bug of somebody's, and trying again would hide it.
func codeOf(err error) int16 {
	var code sarama.KError
	if errors.As(err, &code) {
		return int16(code)
	}
	var decoding sarama.PacketDecodingError
	if errors.As(err, &decoding) || errors.Is(err, sarama.ErrInsufficientData) {
		return transaction.Malformed
	}
	return transaction.Transport
}
