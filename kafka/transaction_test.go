package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
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

var _ = kerr.InvalidRecord
var _ = kfake.Fault{}
var _ kmsg.Key
