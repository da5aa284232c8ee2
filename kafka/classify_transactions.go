package kafka

import (
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/transaction"
)

// Rows of the KIP-691 excerpt, by the names that it gives them.
const (
	kipPidMapping    = "InvalidPidMappingException"
	kipUnknownPid    = "UnknownProducerIdException"
	kipCluster       = "ClusterAuthorizationException"
	kipTxnId         = "TransactionalIdAuthorizationException"
	kipFormat        = "UnsupportedForMessageFormatException"
	kipTopic         = "TopicAuthorizationException"
	kipGroup         = "GroupAuthorizationException"
	kipInstance      = "FencedInstanceIdException"
	kipCommitFailed  = "CommitFailedException"
	kipEpoch         = "InvalidProducerEpochException"
	kipFenced        = "ProducerFencedException"
	kipSequence      = "OutOfOrderSequenceException"
	kipTxnState      = "InvalidTxnStateException"
	kipInvalidRecord = "InvalidRecordException"
	kipAcks          = "InvalidRequiredAcksException"
	kipReplicas      = "NotEnoughReplicasException"
	kipReplicasAfter = "NotEnoughReplicasAfterAppendException"
	kipTooLarge      = "RecordBatchTooLargeException"
	kipInvalidTopic  = "InvalidTopicException"
	kipCorrupt       = "CorruptRecordException"
	kipUnknownTopic  = "UnknownTopicOrPartitionException"
	kipNotLeader     = "NotLeaderOrFollowerException"
	kipTimeout       = "TimeoutException"
	kipPartitions    = "KafkaException 5" // partition-level errors of addPartitions
)

// Tests that prove where a line leaves the excerpt's type, on a real broker where one can be brought to say it.
const (
	provesTimeout   = "TestTraps/TransactionTimedOutRecoversOnTheSameObject"
	provesFence     = "TestTraps/FencedProducerComesBackOnlyByTakingOver"
	provesZombie    = "TestTraps/ZombieDoesNotHurtTheOwner"
	provesExpired   = "TestExpiredTransactionalIDGetsANewProducerID"
	provesRecord    = "TestTraps/RecordErrorsLeaveTheTransactionUsable"
	provesMember    = "TestTraps/StaleMemberDoesNotCommit"
	provesUnknown   = "TestTraps/UnknownTopicCostsItsRecordsOnly"
	provesLostTopic = "TestTraps/TopicDeletedInMidTransaction"
	provesDeath     = "TestCommitOutlivesItsCoordinator"
	provesRepeated  = "TestRepeatedCommitTellsTheOutcome"
	provesInjected  = "TestTransactionsOutliveEveryCode" // only injection can produce it
	provesFound     = "TestCommitThatNobodyAnswersForIsFoundCommitted"
	provesLate      = "TestRecordsWithoutTheirOffsetsDoNotCount"
	provesQuorum    = "TestReplicasLostAndRegained"
)

// transactional are the requests of a producer, one line per request, code and situation.
var transactional = concat(initLines, addLines, produceLines, offsetLines, endLines)

func concat(lists ...[]row) (all []row) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func on(op broker.Op, code int16, class broker.Class, kip, why, test string) row {
	return row{ops: only(op), code: code, class: class, why: why, kip: kip, test: test}
}

func when(in transaction.Situation, r row) row {
	r.in = in
	return r
}

var initLines = []row{
	on(broker.OpInitProducerID, 14, broker.Retry, "", "coordinator is loading", ""),
	on(broker.OpInitProducerID, 15, broker.Retry, "", "no coordinator yet: 9 to 11 s after one dies, under a second in a new cluster", ""),
	on(broker.OpInitProducerID, 16, broker.Retry, "", "the coordinator moved", ""),
	on(broker.OpInitProducerID, 51, broker.Retry, "", "an open transaction is being aborted: 5 to 40 ms", ""),
	on(broker.OpInitProducerID, 90, broker.Migrated, kipFenced, "another producer has the id; only a take-over helps", provesFence),
	on(broker.OpInitProducerID, 47, broker.Migrated, kipEpoch, "the older code for 90", provesFence),
	on(broker.OpInitProducerID, 49, broker.Abort, kipPidMapping, "nobody owns the id: take it without the old epoch (a real broker answers 0)", provesExpired),
	on(broker.OpInitProducerID, 50, broker.Fatal, "", "the transaction time-out is above the broker's transaction.max.timeout.ms", ""),
	on(broker.OpInitProducerID, 53, broker.Fatal, kipTxnId, "not even an abort is allowed", ""),
	on(broker.OpInitProducerID, 31, broker.Fatal, kipCluster, "idempotent writes are not allowed", ""),
	on(broker.OpFindCoordinator, 53, broker.Fatal, kipTxnId, "the transactional id is not allowed", ""),
	on(broker.OpFindCoordinator, 30, broker.Fatal, kipGroup, "the group is not allowed", ""),
}

var addLines = []row{
	on(broker.OpAddPartitions, 14, broker.Retry, "", "coordinator is loading", ""),
	on(broker.OpAddPartitions, 15, broker.Retry, "", "no coordinator yet", ""),
	on(broker.OpAddPartitions, 16, broker.Retry, "", "the coordinator moved", ""),
	on(broker.OpAddPartitions, 51, broker.Retry, "", "the markers of the last transaction are being written: 5 to 40 ms", ""),
	on(broker.OpAddPartitions, 3, broker.Retry, kipPartitions, "the topic may appear; after the delivery time-out its records are refused (Record)", provesUnknown),
	on(broker.OpAddPartitions, 55, broker.Ignore, kipPartitions, "another partition of the request was refused: ask again without it", provesUnknown),
	on(broker.OpAddPartitions, 29, broker.Fatal, kipTopic, "the topic is not allowed; what is open can still be aborted", ""),
	on(broker.OpAddPartitions, 53, broker.Fatal, kipTxnId, "not even an abort is allowed", ""),
	on(broker.OpAddPartitions, 90, broker.Abort, kipFenced, "fenced or timed out, which the code does not tell: re-init decides", provesTimeout),
	on(broker.OpAddPartitions, 47, broker.Abort, kipEpoch, "the older code for 90", provesTimeout),
	on(broker.OpAddPartitions, 48, broker.Abort, kipTxnState, "the transaction is gone, the producer is not", provesTimeout),
	on(broker.OpAddPartitions, 49, broker.Abort, kipPidMapping, "the id expired: re-init gives a new producer id", provesExpired),
	on(broker.OpAddPartitions, 59, broker.Abort, kipUnknownPid, "re-init", ""),
	on(broker.OpAddPartitions, 120, broker.Abort, "", "KIP-890: TransactionAbortable", ""),
}

var produceLines = []row{
	on(broker.OpProduce, 10, broker.Record, kipTooLarge, "above the topic's max.message.bytes; the transaction stays usable", provesRecord),
	on(broker.OpProduce, 18, broker.Record, kipTooLarge, "above the segment's size", provesRecord),
	on(broker.OpProduce, 32, broker.Record, kipInvalidRecord, "timestamp outside the topic's limits; the transaction stays usable", provesRecord),
	on(broker.OpProduce, 87, broker.Record, kipInvalidRecord, "no key for a compacted topic; the transaction stays usable", provesRecord),
	on(broker.OpProduce, 2, broker.Retry, kipCorrupt, "damaged on its way: same batch, same sequence", provesQuorum),
	on(broker.OpProduce, 3, broker.Retry, kipUnknownTopic, "metadata is stale, or the topic is gone: after the delivery time-out its records are refused (Record)", provesLostTopic),
	on(broker.OpProduce, 5, broker.Retry, kipNotLeader, "no leader at the moment", provesQuorum),
	on(broker.OpProduce, 6, broker.Retry, kipNotLeader, "the leader moved: same batch, same sequence", provesDeath),
	on(broker.OpProduce, 7, broker.Retry, kipTimeout, "the replicas were too slow; it may be in the log: same batch, same sequence", provesQuorum),
	on(broker.OpProduce, 8, broker.Retry, kipNotLeader, "the leader is starting", provesInjected),
	on(broker.OpProduce, 13, broker.Retry, kipTimeout, "network exception", provesInjected),
	on(broker.OpProduce, 19, broker.Retry, kipReplicas, "not written: same batch, same sequence", provesQuorum),
	on(broker.OpProduce, 20, broker.Retry, kipReplicasAfter, "written, but not often enough: same batch, same sequence", provesQuorum),
	on(broker.OpProduce, 56, broker.Retry, kipNotLeader, "a disk of the leader failed", provesInjected),
	on(broker.OpProduce, 74, broker.Retry, kipNotLeader, "stale leader epoch", provesInjected),
	on(broker.OpProduce, 17, broker.Fatal, kipInvalidTopic, "a topic that nobody may write to: another try would fail as this one", provesInjected),
	on(broker.OpProduce, 21, broker.Fatal, kipAcks, "the producer always asks for all: a bug", provesInjected),
	on(broker.OpProduce, 29, broker.Fatal, kipTopic, "the topic is not allowed; what is open can still be aborted", ""),
	on(broker.OpProduce, 31, broker.Fatal, kipCluster, "idempotent writes are not allowed", ""),
	on(broker.OpProduce, 53, broker.Fatal, kipTxnId, "not even an abort is allowed", ""),
	on(broker.OpProduce, 43, broker.Fatal, kipFormat, "the topic's format is older than transactions", ""),
	on(broker.OpProduce, 45, broker.Abort, kipSequence, "a gap: something is lost", ""),
	when(transaction.Behind, on(broker.OpProduce, 45, broker.Retry, kipSequence, "sent behind a batch that was not taken: no gap of ours, numbered anew", provesRecord)),
	on(broker.OpProduce, 46, broker.Ignore, "", "already in the log", ""),
	on(broker.OpProduce, 47, broker.Abort, kipEpoch, "fenced or timed out, which the code does not tell: re-init decides", provesTimeout),
	on(broker.OpProduce, 90, broker.Abort, kipFenced, "fenced or timed out: re-init decides; never seen from 2.7 on", provesTimeout),
	on(broker.OpProduce, 48, broker.Abort, kipTxnState, "the transaction is gone, the producer is not", provesTimeout),
	on(broker.OpProduce, 49, broker.Abort, kipPidMapping, "the producer id is not known: re-init", provesExpired),
	on(broker.OpProduce, 59, broker.Abort, kipUnknownPid, "re-init", ""),
	on(broker.OpProduce, 120, broker.Abort, "", "KIP-890: TransactionAbortable", ""),
}

var offsetLines = []row{
	on(broker.OpAddOffsets, 14, broker.Retry, "", "coordinator is loading", ""),
	on(broker.OpAddOffsets, 15, broker.Retry, "", "no coordinator yet", ""),
	on(broker.OpAddOffsets, 16, broker.Retry, "", "the coordinator moved", ""),
	on(broker.OpAddOffsets, 51, broker.Retry, "", "the markers of the last transaction are being written", ""),
	on(broker.OpAddOffsets, 30, broker.Fatal, kipGroup, "the group is not allowed; what is open can still be aborted", ""),
	on(broker.OpAddOffsets, 53, broker.Fatal, kipTxnId, "not even an abort is allowed", ""),
	on(broker.OpAddOffsets, 90, broker.Abort, kipFenced, "fenced or timed out: re-init decides", provesTimeout),
	on(broker.OpAddOffsets, 47, broker.Abort, kipEpoch, "the older code for 90", provesTimeout),
	on(broker.OpAddOffsets, 48, broker.Abort, kipTxnState, "the transaction is gone, the producer is not", provesTimeout),
	on(broker.OpAddOffsets, 49, broker.Abort, kipPidMapping, "the id expired: re-init gives a new producer id", provesExpired),
	on(broker.OpAddOffsets, 59, broker.Abort, kipUnknownPid, "re-init", ""),
	on(broker.OpAddOffsets, 120, broker.Abort, "", "KIP-890: TransactionAbortable", ""),

	on(broker.OpTxnOffsetCommit, 14, broker.Retry, "", "coordinator is loading", ""),
	on(broker.OpTxnOffsetCommit, 15, broker.Retry, "", "no coordinator yet: in a new cluster even in mid-transaction; going on would commit without the offsets", ""),
	on(broker.OpTxnOffsetCommit, 16, broker.Retry, "", "the coordinator moved", ""),
	on(broker.OpTxnOffsetCommit, 51, broker.Retry, "", "the markers of the last transaction are being written", ""),
	on(broker.OpTxnOffsetCommit, 3, broker.Retry, "", "the coordinator has not heard of the topic yet", ""),
	on(broker.OpTxnOffsetCommit, 22, broker.Migrated, kipCommitFailed, "a generation that is over: not committed, the tasks are somebody else's", provesLate),
	on(broker.OpTxnOffsetCommit, 25, broker.Migrated, kipCommitFailed, "a member that was thrown out: not committed, the tasks are somebody else's", provesMember),
	on(broker.OpTxnOffsetCommit, 82, broker.Migrated, kipInstance, "another process has the instance id: not committed, the tasks are its", provesMember),
	on(broker.OpTxnOffsetCommit, 27, broker.Abort, "", "a rebalance; not seen from a real broker", ""),
	on(broker.OpTxnOffsetCommit, 12, broker.Fatal, "", "the metadata is above the broker's offset.metadata.max.bytes", ""),
	on(broker.OpTxnOffsetCommit, 28, broker.Fatal, "", "the offsets are too large for the broker's log", ""),
	on(broker.OpTxnOffsetCommit, 29, broker.Fatal, kipTopic, "the input topic is not allowed", ""),
	on(broker.OpTxnOffsetCommit, 30, broker.Fatal, kipGroup, "the group is not allowed; what is open can still be aborted", ""),
	on(broker.OpTxnOffsetCommit, 53, broker.Fatal, kipTxnId, "not even an abort is allowed", ""),
	on(broker.OpTxnOffsetCommit, 47, broker.Abort, kipEpoch, "as ProducerFenced: fenced or timed out, re-init decides", provesTimeout),
	on(broker.OpTxnOffsetCommit, 90, broker.Abort, kipFenced, "fenced or timed out: re-init decides", provesTimeout),
	on(broker.OpTxnOffsetCommit, 48, broker.Abort, kipTxnState, "the transaction is gone, the producer is not", provesTimeout),
	on(broker.OpTxnOffsetCommit, 49, broker.Abort, kipPidMapping, "the id expired: re-init gives a new producer id", provesExpired),
	on(broker.OpTxnOffsetCommit, 59, broker.Abort, kipUnknownPid, "re-init", ""),
	on(broker.OpTxnOffsetCommit, 120, broker.Abort, "", "KIP-890: TransactionAbortable", ""),
}

// EndTxn is the one request whose lost answer matters for ever, so a code has another meaning once an answer was lost, and
// another one in an abort.
var endLines = []row{
	on(broker.OpEndTxn, 14, broker.Retry, "", "coordinator is loading: not carried out", ""),
	on(broker.OpEndTxn, 51, broker.Retry, "", "it is being carried out", ""),
	on(broker.OpEndTxn, transaction.Transport, broker.CommitUnknown, "", "it may have been carried out: the same again", provesDeath),
	on(broker.OpEndTxn, 7, broker.CommitUnknown, kipTimeout, "a time-out says nothing about the outcome: the same again", provesInjected),
	on(broker.OpEndTxn, 15, broker.CommitUnknown, "", "the log of transactions did not take it in time, or took it after all: the same again", ""),
	on(broker.OpEndTxn, 16, broker.CommitUnknown, "", "the coordinator moved, perhaps after it had taken it: the same again", provesDeath),
	on(broker.OpEndTxn, 90, broker.Abort, kipFenced, "fenced or timed out, not committed: re-init decides", provesTimeout),
	on(broker.OpEndTxn, 47, broker.Abort, kipEpoch, "the older code for 90", provesTimeout),
	on(broker.OpEndTxn, 48, broker.Abort, kipTxnState, "nothing is open: not committed", provesTimeout),
	on(broker.OpEndTxn, 49, broker.Abort, kipPidMapping, "the id expired: re-init gives a new producer id", provesExpired),
	on(broker.OpEndTxn, 59, broker.Abort, kipUnknownPid, "re-init", ""),
	on(broker.OpEndTxn, 120, broker.Abort, "", "KIP-890: TransactionAbortable", ""),
	on(broker.OpEndTxn, 53, broker.Fatal, kipTxnId, "not even an abort is allowed", ""),

	when(transaction.Repeated, on(broker.OpEndTxn, transaction.Transport, broker.Retry, "", "the same again, for twice the transaction time-out; then committed offsets tell", provesFound)),
	when(transaction.Repeated, on(broker.OpEndTxn, 7, broker.Retry, kipTimeout, "the same again", provesInjected)),
	when(transaction.Repeated, on(broker.OpEndTxn, 15, broker.Retry, "", "the same again", provesDeath)),
	when(transaction.Repeated, on(broker.OpEndTxn, 16, broker.Retry, "", "the same again", provesDeath)),
	when(transaction.Repeated, on(broker.OpEndTxn, 48, broker.Abort, kipTxnState, "it was aborted: not committed", provesRepeated)),
	when(transaction.Repeated, on(broker.OpEndTxn, 90, broker.CommitUnknown, kipFenced, "another epoch: committed before that, or timed out; committed offsets tell", provesRepeated)),
	when(transaction.Repeated, on(broker.OpEndTxn, 47, broker.CommitUnknown, kipEpoch, "the older code for 90", provesRepeated)),
	when(transaction.Repeated, on(broker.OpEndTxn, 49, broker.CommitUnknown, kipPidMapping, "the id expired since; committed offsets tell", provesRepeated)),

	when(transaction.ToAbort, on(broker.OpEndTxn, 48, broker.Ignore, kipTxnState, "nothing is open; re-init, since that was not expected", provesInjected)),
	when(transaction.ToAbort, on(broker.OpEndTxn, transaction.Transport, broker.Abort, "", "re-init ends it as well", provesDeath)),
	when(transaction.ToAbort, on(broker.OpEndTxn, 7, broker.Abort, kipTimeout, "re-init ends it as well", provesInjected)),
	when(transaction.ToAbort, on(broker.OpEndTxn, 15, broker.Retry, "", "no coordinator yet", "")),
	when(transaction.ToAbort, on(broker.OpEndTxn, 16, broker.Retry, "", "the coordinator moved", "")),
}
