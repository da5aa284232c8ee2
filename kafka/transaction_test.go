package kafka_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/record"
)

func newTransactional(t *testing.T, addrs []string, change func(*kafka.ProducerConfig)) *writer {
	return newWriter(t, addrs, func(c *kafka.ProducerConfig) {
		c.TransactionalID = "app-1"
		if change != nil {
			change(c)
		}
	})
}

// outsider is the membership that no group checks: no member, no generation.
var outsider = broker.Membership{Group: "g", Generation: -1}

func at(offset int64) broker.Offsets {
	return broker.Offsets{record.TopicPartition{Topic: "t", Partition: 0}: {At: offset, Metadata: "m"}}
}

func (w *writer) commit(t *testing.T, offsets broker.Offsets, of broker.Membership) broker.TransactionEnded {
	t.Helper()
	w.token++
	w.Commit(w.token, offsets, of)
	return next(t, w.inbox, "transaction ended", func(e broker.Event) (broker.TransactionEnded, bool) {
		f, ok := e.(broker.TransactionEnded)
		if ok && f.Token != w.token {
			t.Fatalf("ended %d, want %d", f.Token, w.token)
		}
		return f, ok
	})
}

func (w *writer) abort(t *testing.T) broker.TransactionAborted {
	t.Helper()
	w.token++
	w.Abort(w.token)
	return next(t, w.inbox, "transaction aborted", func(e broker.Event) (broker.TransactionAborted, bool) {
		f, ok := e.(broker.TransactionAborted)
		if ok && f.Token != w.token {
			t.Fatalf("aborted %d, want %d", f.Token, w.token)
		}
		return f, ok
	})
}

func (w *writer) fence(t *testing.T, id string) broker.Fenced {
	t.Helper()
	w.token++
	w.Fence(w.token, id)
	return next(t, w.inbox, "fenced", func(e broker.Event) (broker.Fenced, bool) { f, ok := e.(broker.Fenced); return f, ok })
}

func TestTransactionsCommitAndAbort(t *testing.T) {
	c := groupCluster(t, 3)
	w := newTransactional(t, c.Addrs(), func(c *kafka.ProducerConfig) { c.BatchBytes = 300 })
	n := 0
	for round := range 5 {
		for p := range int32(3) {
			w.put(t, tp(p), n, 40)
		}
		if f := w.flush(t); f.Err != nil {
			t.Fatal(f.Err)
		}
		if round%2 == 1 {
			if a := w.abort(t); a.Err != nil {
				t.Fatal(a.Err)
			}
			continue
		}
		if e := w.commit(t, at(int64(round)), outsider); e.Err != nil {
			t.Fatal(e.Err)
		}
		n += 40
	}
	for p := range int32(3) {
		inOrder(t, logOf(t, c.Addrs(), tp(p), true), n)
	}
	if got := w.Counts(); got.Committed != 3 || got.Aborted != 2 || got.Reinits != 0 {
		t.Fatalf("%+v", got)
	}
}

// transact puts records, flushes and commits, and wants all of it to work.
func (w *writer) transact(t *testing.T, from, n int) {
	t.Helper()
	w.put(t, tp(0), from, n)
	if f := w.flush(t); f.Err != nil || len(f.Refused) > 0 {
		t.Fatalf("%+v", f)
	}
	if e := w.commit(t, at(int64(from+n)), outsider); e.Err != nil {
		t.Fatal(e.Err)
	}
}

// refusing answers the next requests of a kind with a code.
func refusing(c *embedded.Cluster, key kmsg.Key, err *kerr.Error, count int) *kfake.FaultHandle {
	return c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err, Count: count})
}

// Whatever is answered to one request of a transaction, the object goes on after an abort at most, and a reader of committed
// records sees every record that was committed, once.
func TestTransactionsOutliveEveryCode(t *testing.T) {
	codes := []*kerr.Error{
		kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.ConcurrentTransactions, kerr.RequestTimedOut,
		kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping, kerr.UnknownProducerID, kerr.ProducerFenced,
		kerr.TransactionAbortable, kerr.OutOfOrderSequenceNumber, kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed,
		kerr.TransactionalIDAuthorizationFailed, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.FencedInstanceID, kerr.RebalanceInProgress,
		kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.KafkaStorageError, kerr.UnknownServerError,
		kerr.UnsupportedVersion, kerr.PolicyViolation, kerr.ReplicaNotAvailable, kerr.FencedLeaderEpoch, kerr.InvalidTopicException, kerr.InvalidRequiredAcks,
		kerr.NetworkException, kerr.BrokerNotAvailable,
	}
	for _, key := range []kmsg.Key{kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		for _, code := range codes {
			t.Run(key.Name()+"/"+code.Message, func(t *testing.T) {
				t.Parallel()
				c := groupCluster(t, 1)
				w := newTransactional(t, c.Addrs(), func(c *kafka.ProducerConfig) { c.DeliveryTimeout = 20 * time.Second })
				w.transact(t, 0, 10)
				fault := refusing(c, key, code, 2)
				defer fault.Remove()
				if key == kmsg.InitProducerID {
					w.abort(t) // nothing open: asks nobody
				}
				for tries := 0; !w.try(t, 10, 10); tries++ {
					if tries == 5 {
						t.Fatal("it does not recover")
					}
					for a := w.abort(t); a.Err != nil; a = w.abort(t) {
						t.Log(a.Err)
					}
				}
				w.transact(t, 20, 10)
				inOrder(t, logOf(t, c.Addrs(), tp(0), true), 30)
			})
		}
	}
}

// try is transact that may fail.
func (w *writer) try(t *testing.T, from, n int) bool {
	w.put(t, tp(0), from, n)
	if f := w.flush(t); f.Err != nil || len(f.Refused) > 0 {
		return false
	}
	e := w.commit(t, at(int64(from+n)), outsider)
	if e.Err != nil {
		t.Log(e.Err)
	}
	return e.Err == nil
}
