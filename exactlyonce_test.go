package millrace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// writer is a producer whose answers are waited for.
type writer struct {
	*kafka.Producer
	t      testing.TB
	events chan broker.Event
}

func newWriter(t testing.TB, c *embedded.Cluster, transactionalID string) *writer {
	t.Helper()
	w := &writer{t: t, events: make(chan broker.Event, 64)}
	var err error
	w.Producer, err = kafka.NewProducer(kafka.ProducerConfig{
		Config: kafka.Config{Brokers: c.Addrs()}, TransactionalID: transactionalID, MaxRecordBytes: 4 << 20,
	}, func(e broker.Event) { w.events <- e })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *writer) put(tp record.TopicPartition, records ...record.Raw) {
	w.t.Helper()
	for i := range records {
		if err := w.Append(tp, &records[i]); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *writer) flush() {
	w.t.Helper()
	w.Flush(1)
	for e := range w.events {
		if f, ok := e.(broker.Flushed); ok {
			if f.Err != nil || len(f.Refused) > 0 {
				w.t.Fatal(f.Err, f.Refused)
			}
			return
		}
	}
}

func (w *writer) abort() {
	w.t.Helper()
	w.Abort(2)
	for e := range w.events {
		if a, ok := e.(broker.TransactionAborted); ok {
			if a.Err != nil {
				w.t.Fatal(a.Err)
			}
			return
		}
	}
}

const changelog = "app-counts-changelog"

// abortInto leaves an aborted transaction at the end of every partition of the changelog.
func abortInto(t testing.TB, c *embedded.Cluster) {
	t.Helper()
	w := newWriter(t, c, "somebody")
	for p := range int32(4) {
		w.put(record.TopicPartition{Topic: changelog, Partition: p}, record.Raw{Key: []byte("a"), Value: make([]byte, 16), Timestamp: 1})
	}
	w.flush()
	w.abort()
}

func TestH3RestoreEndsBehindMarkers(t *testing.T) {
	for _, last := range []struct {
		name string
		do   func(testing.TB, *embedded.Cluster)
	}{
		{"commit marker", func(testing.TB, *embedded.Cluster) {}},
		{"abort marker", abortInto},
	} {
		t.Run(last.name, func(t *testing.T) {
			c, kept := cluster(t), t.TempDir()
			n := start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(kept))
			feed(t, c, "a", "b a", "c a", "b", "a")
			if err := n.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			n.stop()
			last.do(t, c)
			for _, dir := range []string{kept, t.TempDir()} {
				n := start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(dir))
				if got := n.counts(t.Context()); !maps.Equal(got, map[string]int64{"a": 4, "b": 2, "c": 1}) {
					t.Error(got)
				}
				n.stop()
			}
		})
	}
}

func TestH3ChangelogThatHoldsOnlyAnAbortedTransaction(t *testing.T) {
	c := cluster(t)
	if err := c.Kfake().CreateTopic(changelog, 4, map[string]string{"cleanup.policy": "compact"}); err != nil {
		t.Fatal(err)
	}
	abortInto(t, c)
	n := start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()))
	if got := n.counts(t.Context()); len(got) != 0 {
		t.Fatal("what was aborted was restored:", got)
	}
}

// keyed counts lines by their key.
func keyed(t testing.TB) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	topology.To(topology.Count(topology.From(b, lines), counts), out)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func line(key string) record.Raw {
	return record.Raw{Key: []byte(key), Value: []byte("x"), Timestamp: 1}
}

// A restore may take longer than a transaction may be open, so none is begun before it is done: it would be found expired.
func TestH4NoTransactionIsOpenWhileAThreadRestores(t *testing.T) {
	c := cluster(t)
	opts := []millrace.Option{millrace.WithBrokers(c.Addrs()...), millrace.WithThreads(1)}
	n := start(t, keyed(t), append(opts, millrace.WithStateDir(t.TempDir()))...)
	w := newWriter(t, c, "")
	for i := range 1000 {
		w.put(record.TopicPartition{Topic: "lines", Partition: int32(i % 4)}, line(fmt.Sprint(i)))
	}
	w.flush()
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.stop()

	var restoring, early, late atomic.Bool
	restoring.Store(true)
	gate := make(chan struct{})
	time.AfterFunc(time.Second, func() { restoring.Store(false); close(gate) }) // longer than many commit intervals
	c.Kfake().ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		for _, topic := range r.(*kmsg.FetchRequest).Topics {
			if topic.Topic == changelog {
				c.Kfake().SleepControl(func() { <-gate })
			}
		}
		return nil, nil, false
	})
	for _, key := range []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn} {
		c.Kfake().ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.Kfake().KeepControl()
			early.Store(early.Load() || restoring.Load())
			late.Store(late.Load() || !restoring.Load())
			return nil, nil, false
		})
	}
	n = start(t, keyed(t), append(opts, millrace.WithStateDir(t.TempDir()))...)
	if restoring.Load() {
		t.Fatal("it was RUNNING before its changelogs could be read")
	}
	w.put(record.TopicPartition{Topic: "lines"}, line("0"))
	w.flush()
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := n.counts(t.Context()); len(got) != 1000 || got["0"] != 2 {
		t.Error(len(got), got["0"])
	}
	if !late.Load() {
		t.Error("no transaction was seen at all")
	}
	if early.Load() {
		t.Error("a transaction was begun while everything was being restored")
	}
	if x := n.Transactions(); x.Aborted+x.Fenced > 0 || n.Threads()[0].Epoch != 1 {
		t.Errorf("%+v, epoch %d", x, n.Threads()[0].Epoch)
	}
}

// through copies lines and counts how many it has processed.
func through(t testing.TB, processed *atomic.Int64) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	topology.To(topology.MapValues(topology.From(b, lines), func(string) int64 { return processed.Add(1) }), out)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func TestH6PartitionThatComesBackIsCommittedAgain(t *testing.T) {
	c, dir := cluster(t), t.TempDir()
	var processed atomic.Int64
	a := start(t, through(t, &processed), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(dir), millrace.WithThreads(1))
	for range 2 {
		feed(t, c, "1", "2", "3", "4")
		b := start(t, through(t, &processed), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithThreads(1))
		await(t.Context(), t, func() bool { return len(a.Owned()) == 2 && len(b.Owned()) == 2 }, func() string { return fmt.Sprint(a.Owned(), b.Owned()) })
		feed(t, c, "1", "2", "3", "4")
		b.stop()
		await(t.Context(), t, func() bool { return len(a.Owned()) == 4 }, func() string { return fmt.Sprint(a.Owned()) })
	}
	feed(t, c, "1", "2", "3", "4", "5", "6", "7", "8", "9", "10")
	if err := a.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.stop()
	if got := len(visible(t, c, "word-counts")); got != 26 {
		t.Errorf("%d records came out of 26", got)
	}
	processed.Store(0)
	a = start(t, through(t, &processed), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(dir), millrace.WithThreads(1))
	if err := a.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := processed.Load(); n != 0 {
		t.Errorf("%d records were processed again after a clean stop", n)
	}
}

// Coordinators move and connections break, in the middle of transactions and between them.
func TestH14CoordinatorsMoveAndProcessingGoesOn(t *testing.T) {
	c := cluster(t)
	var processed atomic.Int64
	n := start(t, through(t, &processed), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithCommitInterval(20*time.Millisecond))
	keys := []kmsg.Key{kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.Heartbeat}
	fed, cuts := 0, map[kmsg.Key]*atomic.Int64{}
	for round := range 3 {
		for i, key := range keys {
			if cuts[key] == nil {
				cuts[key] = &atomic.Int64{}
			}
			cut := cuts[key]
			c.Kfake().ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
				cut.Add(1)
				return nil, errors.New("cut"), true
			})
			if i%2 == round%2 {
				c.Kfake().RehashCoordinators()
			}
			feed(t, c, "1", "2", "3", "4")
			fed += 4
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := n.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if got := len(visible(t, c, "word-counts")); got != fed {
		t.Errorf("%d records came out of %d", got, fed)
	}
	for key, cut := range cuts { // a heart beats when it is time
		await(ctx, t, func() bool { return cut.Load() > 0 }, func() string { return fmt.Sprintf("no request of key %d was cut", key) })
	}
	for _, th := range n.Threads() {
		if th.Epoch != 1 {
			t.Errorf("%s was restarted: %v", th.Name, th.Cause)
		}
	}
	if x := n.Transactions(); x.Producers != 2 {
		t.Errorf("%+v", x)
	}
}

func TestH18DeadLettersOfNullsAndOfALargeRecord(t *testing.T) {
	c := cluster(t)
	for _, topic := range []string{"big", "dead"} {
		if err := c.Kfake().CreateTopic(topic, 4, map[string]string{"max.message.bytes": "4194304"}); err != nil {
			t.Fatal(err)
		}
	}
	b := topology.NewBuilder()
	b.Always(topology.Deserialization, topology.DeadLetter)
	b.Always(topology.Processing, topology.DeadLetter)
	b.DeadLetterTopic("dead")
	big := topology.NewTopic("big", lines.KeyCodec(), lines.ValueCodec())
	topology.To(topology.FlatMap(topology.From(b, big), func(record.Record[string, string], func(record.Record[string, int64]) error) error {
		return errors.New("nothing is good enough")
	}), out)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	header := record.Headers{{Key: "h", Value: []byte("kept")}}
	sent := []record.Raw{
		{Key: []byte("k"), Headers: header}, {Value: []byte("v"), Headers: header}, {Headers: header},
		{Key: []byte("k"), Value: bytes.Repeat([]byte("x"), 1<<20), Headers: header},
	}
	w := newWriter(t, c, "")
	w.put(record.TopicPartition{Topic: "big"}, sent...)
	w.flush()
	n := start(t, topo, millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithMaxRecordBytes(2<<20))
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	letters := visible(t, c, "dead")
	if len(letters) != len(sent) {
		t.Fatalf("%d dead letters of %d records", len(letters), len(sent))
	}
	for _, l := range letters {
		h, _ := l.Headers.Last("h")
		why, _ := l.Headers.Last("__millrace.errors.offset")
		i := strings.Index("0123", string(why))
		if i < 0 || len(why) != 1 {
			t.Fatalf("source offset %q", why)
		}
		if s := sent[i]; (l.Key == nil) != (s.Key == nil) || (l.Value == nil) != (s.Value == nil) || !bytes.Equal(l.Value, s.Value) || string(h) != "kept" {
			t.Errorf("record %d: key %q, %d bytes of value, header %q", i, l.Key, len(l.Value), h)
		}
	}
}
