package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
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

// spy notes the requests of some kinds, in the order in which the brokers see them.
//
// The mutex protects the notes: the brokers write, the test reads.
type spy struct {
	mu   sync.Mutex
	seen []string
	wake chan struct{}
}

func watch(c *embedded.Cluster, keys ...kmsg.Key) *spy {
	s := &spy{wake: make(chan struct{}, 1)}
	for _, key := range keys {
		c.Kfake().ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.Kfake().KeepControl()
			note := key.Name()
			if add, ok := r.(*kmsg.AddPartitionsToTxnRequest); ok {
				for _, topic := range add.Topics {
					note += fmt.Sprint(" ", len(topic.Partitions))
				}
			}
			s.mu.Lock()
			s.seen = append(s.seen, note)
			s.mu.Unlock()
			select {
			case s.wake <- struct{}{}:
			default:
			}
			return nil, nil, false
		})
	}
	return s
}

func (s *spy) notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// await waits until the notes satisfy f.
func (s *spy) await(t *testing.T, what string, f func([]string) bool) {
	t.Helper()
	deadline := time.After(patience)
	for !f(s.notes()) {
		select {
		case <-s.wake:
		case <-deadline:
			t.Fatalf("never: %s; seen %v", what, s.notes())
		}
	}
}

func count(notes []string, what string) (n int) {
	for _, s := range notes {
		if s == what {
			n++
		}
	}
	return n
}

// A partition is added while its records are still being collected, once in a transaction, and with others in one request.
func TestPartitionsAreAddedEarlyAndOnce(t *testing.T) {
	c := groupCluster(t, 20)
	loading := refusing(c, kmsg.InitProducerID, kerr.CoordinatorLoadInProgress, -1) // until all partitions are touched
	w := newTransactional(t, c.Addrs(), func(c *kafka.ProducerConfig) { c.Linger = time.Hour })
	s := watch(c, kmsg.AddPartitionsToTxn, kmsg.Produce)
	for p := range int32(20) {
		w.put(t, tp(p), 0, 5)
	}
	loading.Remove()
	added := func(notes []string) (n int) {
		for _, note := range notes {
			var one int
			if _, err := fmt.Sscanf(note, "AddPartitionsToTxn %d", &one); err == nil {
				n += one
			}
		}
		return n
	}
	s.await(t, "all partitions are added without a flush", func(notes []string) bool { return added(notes) == 20 })
	if n := len(s.notes()); n != 1 {
		t.Fatalf("20 partitions took %v", s.notes())
	}
	for range 3 {
		for p := range int32(20) {
			w.put(t, tp(p), 0, 5)
		}
	}
	if f := w.flush(t); f.Err != nil {
		t.Fatal(f.Err)
	}
	if n := added(s.notes()); n != 20 {
		t.Fatalf("20 partitions were added %d times", n)
	}
}

// The records of the next interval wait until EndTxn has answered 0: a broker would take them into the transaction that is
// being committed. (The embedded one would refuse them.)
func TestNextIntervalWaitsForTheEndOfTheLast(t *testing.T) {
	c := groupCluster(t, 1)
	w := newTransactional(t, c.Addrs(), nil)
	w.transact(t, 0, 10)
	s := watch(c, kmsg.EndTxn, kmsg.Produce, kmsg.AddPartitionsToTxn)
	w.put(t, tp(0), 10, 10)
	w.flush(t)
	fault := refusing(c, kmsg.EndTxn, kerr.ConcurrentTransactions, -1)
	w.token++
	w.Commit(w.token, at(20), outsider)
	w.put(t, tp(0), 20, 10)
	w.token++
	w.Flush(w.token)
	s.await(t, "several EndTxn", func(notes []string) bool { return count(notes, "EndTxn") > 4 })
	if n := count(s.notes(), "Produce"); n != 1 {
		t.Fatalf("%v", s.notes())
	}
	fault.Remove()
	next(t, w.inbox, "the commit", func(e broker.Event) (broker.TransactionEnded, bool) {
		f, ok := e.(broker.TransactionEnded)
		return f, ok
	})
	next(t, w.inbox, "the flush", func(e broker.Event) (broker.Flushed, bool) { f, ok := e.(broker.Flushed); return f, ok })
	if e := w.commit(t, at(30), outsider); e.Err != nil {
		t.Fatal(e.Err)
	}
	inOrder(t, logOf(t, c.Addrs(), tp(0), true), 30)
}

// An abort leaves the flush and the commit before it without an answer, and nothing of what they were for is ever seen.
func TestAbortSilencesWhatCameBefore(t *testing.T) {
	for _, id := range []string{"", "app-1"} {
		t.Run("id="+id, func(t *testing.T) {
			c := groupCluster(t, 1)
			w := newWriter(t, c.Addrs(), func(c *kafka.ProducerConfig) { c.TransactionalID = id })
			fault := refusing(c, kmsg.Produce, kerr.NotEnoughReplicas, -1)
			s := watch(c, kmsg.Produce)
			w.put(t, tp(0), 100, 10)
			w.Flush(77)
			s.await(t, "a batch is sent", func(notes []string) bool { return len(notes) > 0 })
			w.put(t, tp(0), 200, 10)
			w.token = 78
			w.Abort(78)
			w.put(t, tp(0), 0, 10)
			fault.Remove()
			next(t, w.inbox, "aborted", func(e broker.Event) (bool, bool) {
				if f, ok := e.(broker.Flushed); ok {
					t.Fatalf("%+v", f)
				}
				a, ok := e.(broker.TransactionAborted)
				return a.Token == 78 && a.Err == nil, ok
			})
			if f := w.flush(t); f.Err != nil {
				t.Fatal(f.Err)
			}
			if id == "" { // what a broker has seen is finished, what none has is not sent
				if n := len(logOf(t, c.Addrs(), tp(0), false)); n != 20 {
					t.Fatalf("the log has %d records", n)
				}
				return
			}
			if e := w.commit(t, at(1), outsider); e.Err != nil {
				t.Fatal(e.Err)
			}
			inOrder(t, logOf(t, c.Addrs(), tp(0), true), 10)
		})
	}
}

// One record of a pipeline is refused: the others, those behind it included, are in the transaction, and so is what an
// answer to the refusal adds to it, although the next interval has begun.
func TestRefusedRecordDoesNotCostTheTransaction(t *testing.T) {
	c := groupCluster(t, 2)
	w := newTransactional(t, c.Addrs(), func(c *kafka.ProducerConfig) { c.BatchBytes = 200 })
	w.transact(t, 0, 1)
	fault := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord, Count: -1, When: func(r kmsg.Request) bool {
		return holdsValue(r.(*kmsg.ProduceRequest), number(5))
	}})
	defer fault.Remove()
	w.put(t, tp(0), 1, 50)
	f := w.flush(t)
	if f.Err != nil || len(f.Refused) != 1 || f.Refused[0].Err.Class != broker.Record {
		t.Fatalf("%+v", f)
	}
	w.put(t, tp(1), 100, 1)
	before := w.Buffered()
	w.token++
	w.Amend(w.token, []broker.Outgoing{{To: tp(1), Record: record.Raw{Value: []byte("v")}}, {To: tp(0), Record: record.Raw{Value: make([]byte, 2<<20)}}})
	refused := next(t, w.inbox, "amended", func(e broker.Event) (broker.Flushed, bool) { f, ok := e.(broker.Flushed); return f, ok })
	if refused.Token != w.token || refused.Err == nil || refused.Err.Class != broker.Record || w.Buffered() != before {
		t.Fatalf("%+v", refused)
	}
	w.token++
	w.Amend(w.token, []broker.Outgoing{{To: tp(1), Record: record.Raw{Value: []byte("dead letter")}}})
	amended := next(t, w.inbox, "amended", func(e broker.Event) (broker.Flushed, bool) { f, ok := e.(broker.Flushed); return f, ok })
	if amended.Token != w.token || amended.Err != nil || amended.Ends[tp(1)] != 1 {
		t.Fatalf("%+v", amended)
	}
	if e := w.commit(t, at(51), outsider); e.Err != nil {
		t.Fatal(e.Err)
	}
	if got := w.Counts(); got.Aborted != 0 || got.Reinits != 0 {
		t.Fatalf("%+v", got)
	}
	if n := len(logOf(t, c.Addrs(), tp(0), true)); n != 50 {
		t.Fatalf("the log has %d records", n)
	}
	if letters := logOf(t, c.Addrs(), tp(1), true); len(letters) != 1 || string(letters[0].Value) != "dead letter" {
		t.Fatalf("%+v", letters)
	}
}

func TestRecordWithoutKeyIsRefusedBeforeACompactedTopicSeesIt(t *testing.T) {
	c := groupCluster(t, 1)
	admin, err := kafka.NewAdmin(kafka.Config{Brokers: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.CreateTopics(t.Context(), []kafka.TopicSpec{{Name: "table", Partitions: 1, Replication: 1, Configs: map[string]string{"cleanup.policy": "compact"}}}); err != nil {
		t.Fatal(err)
	}
	w := newTransactional(t, c.Addrs(), nil)
	table := record.TopicPartition{Topic: "table"}
	be, ok := w.Append(table, &record.Raw{Value: []byte("v")}).(*broker.Error)
	if !ok || be.Class != broker.Record || be.Code != 87 {
		t.Fatalf("%v", be)
	}
	for _, r := range []record.Raw{{Key: []byte{}, Value: []byte("v")}, {Key: []byte("k")}} {
		if err := w.Append(table, &r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Append(tp(0), &record.Raw{Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	if f := w.flush(t); f.Err != nil || f.Ends[table] != 2 {
		t.Fatalf("%+v", f)
	}
}

// A producer that was fenced hears of it, and its records never count; its abort gives the id back to it on the same object.
func TestFenceEndsAnothersTransaction(t *testing.T) {
	c := groupCluster(t, 1)
	w := newTransactional(t, c.Addrs(), nil)
	w.transact(t, 0, 10)
	w.put(t, tp(0), 10, 10)
	if f := w.flush(t); f.Err != nil {
		t.Fatal(f.Err)
	}
	other := newWriter(t, c.Addrs(), func(c *kafka.ProducerConfig) { c.TransactionalID = "app-2" })
	if f := other.fence(t, "app-1"); f.Err != nil || f.Token != other.token {
		t.Fatalf("%+v", f)
	}
	if e := w.commit(t, at(20), outsider); e.Err == nil || e.Err.Class != broker.Abort {
		t.Fatalf("%+v", e)
	}
	for a := w.abort(t); a.Err != nil; a = w.abort(t) {
		if a.Err.Class != broker.Migrated {
			t.Fatal(a.Err)
		}
	}
	w.transact(t, 10, 10)
	inOrder(t, logOf(t, c.Addrs(), tp(0), true), 20)
}

func TestFenceGivesUpWhenItIsNotAllowed(t *testing.T) {
	c := groupCluster(t, 1)
	w := newTransactional(t, c.Addrs(), nil)
	w.transact(t, 0, 1)
	fault := refusing(c, kmsg.InitProducerID, kerr.TransactionalIDAuthorizationFailed, -1)
	defer fault.Remove()
	if f := w.fence(t, "app-2"); f.Err == nil || f.Err.Class != broker.Fatal {
		t.Fatalf("%+v", f)
	}
}

// Closing with a transaction open is no error and takes no time; the next producer of the name ends it.
func TestCloseWithATransactionPendingIsNoError(t *testing.T) {
	c := groupCluster(t, 1)
	w := newTransactional(t, c.Addrs(), nil)
	w.put(t, tp(0), 0, 10)
	if f := w.flush(t); f.Err != nil {
		t.Fatal(f.Err)
	}
	w.put(t, tp(0), 10, 10)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, e := range w.inbox.Poll(nil) {
		if _, ok := e.(broker.ConnectionChanged); !ok {
			t.Fatalf("%+v", e)
		}
	}
	heir := newTransactional(t, c.Addrs(), nil)
	heir.transact(t, 0, 5)
	inOrder(t, logOf(t, c.Addrs(), tp(0), true), 5)
}

// A code that nobody knows costs the transaction once and is Fatal when it is repeated; after a commit it counts anew.
func TestUnheardOfCodeIsFatalWhenRepeated(t *testing.T) {
	c := groupCluster(t, 1)
	w := newTransactional(t, c.Addrs(), nil)
	strange := &kerr.Error{Message: "STRANGE", Code: 4711}
	fails := func(want broker.Class) {
		t.Helper()
		fault := refusing(c, kmsg.Produce, strange, 1)
		defer fault.Remove()
		w.put(t, tp(0), 99, 1)
		if f := w.flush(t); f.Err == nil || f.Err.Class != want || f.Err.Code != 4711 {
			t.Fatalf("%+v", f.Err)
		}
		if a := w.abort(t); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	fails(broker.Abort)
	fails(broker.Fatal)
	w.transact(t, 0, 10)
	fails(broker.Abort)
}
