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
	// why names what a real broker was seen to do.
	why string
	// in is the situation that the line is about; the zero one stands for all that have no line of their own.
	in transaction.Situation
	// kip is the row of the KIP-691 excerpt that the line carries out, if there is one.
	kip string
	// test is what proves the line where it leaves the excerpt's type because a real broker says otherwise.
	test string
}

var (
	group = []broker.Op{broker.OpJoinGroup, broker.OpSyncGroup, broker.OpHeartbeat, broker.OpLeaveGroup, broker.OpOffsetCommit, broker.OpOffsetFetch}
	found = append([]broker.Op{broker.OpFindCoordinator, opDescribeGroups, opDeleteGroups}, group...)
	reads = []broker.Op{broker.OpFetch, broker.OpListOffsets}
	admin = []broker.Op{broker.OpCreateTopics, broker.OpDeleteRecords, broker.OpDescribeConfigs, broker.OpMetadata, opDeleteTopics}
)

func of(ops []broker.Op, code int16, class broker.Class, why string) row {
	return row{ops: ops, code: code, class: class, why: why}
}

func only(op broker.Op) []broker.Op { return []broker.Op{op} }

// table gives every code that a broker was seen to answer, or that KIP-691 names, its class; the requests of a transaction
// have theirs in transactional. The first row that matches wins.
var table = append(transactional, []row{
	of(found, 14, broker.Retry, "coordinator is loading"),
	of(found, 15, broker.Retry, "no coordinator yet; 9 to 11 s after one dies"),
	of(found, 16, broker.Retry, "the coordinator moved"),
	of([]broker.Op{broker.OpOffsetCommit, broker.OpHeartbeat, broker.OpSyncGroup}, 22, broker.Migrated, "from an old generation"),
	of(only(broker.OpLeaveGroup), 25, broker.Ignore, "it has left already"),
	of(group, 25, broker.Migrated, "an unknown member"),
	of(group, 82, broker.Migrated, "another process has the instance id"),
	of(group, 27, broker.Retry, "a rebalance: after the sync"),
	of(only(broker.OpJoinGroup), 79, broker.Retry, "join again with the id"),
	of(only(broker.OpOffsetFetch), 88, broker.Retry, "a transaction's offsets are pending"),
	of(only(broker.OpOffsetFetch), 69, broker.Ignore, "nothing was committed"),
	of([]broker.Op{opDescribeGroups, opDeleteGroups}, 69, broker.Ignore, "there is no such group"),
	of(reads, 1, broker.Abort, "the reset policy decides"),
	of(reads, 2, broker.Retry, "damaged on its way"),
	of(reads, 3, broker.Retry, "metadata is stale"),
	of(reads, 5, broker.Retry, "no leader at the moment"),
	of(reads, 6, broker.Retry, "metadata is stale"),
	of(reads, 7, broker.Retry, "slow broker"),
	of(reads, 8, broker.Retry, "the leader is starting"),
	of(reads, 9, broker.Retry, "the replica is not there"),
	of(reads, 56, broker.Retry, "a disk of the leader failed"),
	of(reads, 74, broker.Retry, "stale leader epoch"),
	of(reads, 75, broker.Retry, "the broker has not heard of the leader epoch yet"),
	of(reads, 78, broker.Retry, "offsets are not available yet"),
	of(admin, 3, broker.Retry, "the topic may appear"),
	of(admin, 5, broker.Retry, "no leader at the moment"),
	of(admin, 6, broker.Retry, "metadata is stale"),
	of(admin, 7, broker.Retry, "slow controller"),
	of(admin, 36, broker.Ignore, "it exists"),
	of(admin, 41, broker.Retry, "the controller moved"),
	of(nil, transaction.Transport, broker.Retry, "no answer: close, open, look the broker up, the same again"),
	of(nil, transaction.NotSent, broker.Retry, "no coordinator or no connection: it never left"),
	{nil, transaction.Malformed, broker.Fatal, "an answer that cannot be read, or that is another request's; never retried, since that would hide a bug", 0, "RuntimeException", ""},
	of(nil, 7, broker.Retry, "slow broker, or one that waits for its replicas; outages never end a node"),
	of(nil, 8, broker.Retry, "the broker is starting"),
	of(nil, 13, broker.Retry, "network exception"),
	of(nil, 89, broker.Retry, "a quota: later"),
	{nil, 58, broker.Fatal, "the user or the password is wrong", 0, "AuthenticationException", ""},
	{nil, 35, broker.Fatal, "the broker does not speak the request's version", 0, "UnsupportedVersionException", ""},
}...)

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
