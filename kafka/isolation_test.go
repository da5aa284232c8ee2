package kafka_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/record"
)

// transactor writes in transactions, through the client library's own producer: what these tests read is not written by
// what they test.
type transactor struct {
	sarama.SyncProducer
	t *testing.T
}

func newTransactor(t *testing.T, addrs []string, id string) *transactor {
	t.Helper()
	conf := sarama.NewConfig()
	conf.Version = sarama.V4_1_0_0
	conf.Net.MaxOpenRequests = 1
	conf.Producer.Idempotent, conf.Producer.Return.Successes, conf.Producer.Return.Errors = true, true, true
	conf.Producer.RequiredAcks = sarama.WaitForAll
	conf.Producer.Partitioner = sarama.NewManualPartitioner
	conf.Producer.Transaction.ID = id
	p, err := sarama.NewSyncProducer(addrs, conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return &transactor{p, t}
}

// open begins a transaction with n records, numbered from a first one.
func (x *transactor) open(to record.TopicPartition, from, n int) {
	x.t.Helper()
	if err := x.BeginTxn(); err != nil {
		x.t.Fatal(err)
	}
	for i := range n {
		if _, _, err := x.SendMessage(&sarama.ProducerMessage{Topic: to.Topic, Partition: to.Partition, Value: sarama.ByteEncoder(number(from + i))}); err != nil {
			x.t.Fatal(err)
		}
	}
}

func (x *transactor) end(commit bool) {
	x.t.Helper()
	end := x.AbortTxn
	if commit {
		end = x.CommitTxn
	}
	if err := end(); err != nil {
		x.t.Fatal(err)
	}
}

// lag is what is left to read for now.
func (r *reader) lag(of record.TopicPartition) int64 { return r.batch[of].LastStable - r.at[of] }

// Case H20: 10 records and their commit marker, 5 aborted ones and theirs. All is read at 17, not at 10 or 16, and the lag
// is 0; a reader that goes on from there reads nothing, and has no lag either.
func TestH20LagReachesZeroBehindMarkers(t *testing.T) {
	c := groupCluster(t, 1)
	x := newTransactor(t, c.Addrs(), "x")
	x.open(tp(0), 0, 10)
	x.end(true)
	committed := func(c *kafka.FetcherConfig) { c.ReadCommitted = true }
	r := newReader(t, c.Addrs(), committed)
	r.start(tp(0), 0)
	r.until("behind the commit marker", func() bool { return r.at[tp(0)] == 11 && r.lag(tp(0)) == 0 })
	x.open(tp(0), 900, 5)
	x.end(false)
	r.until("behind the abort marker", func() bool { return r.at[tp(0)] == 17 && r.lag(tp(0)) == 0 })
	inOrder(t, r.got[tp(0)], 10)
	if high := r.batch[tp(0)].HighWatermark; high != 17 {
		t.Fatalf("the log ends at %d", high)
	}

	g := newPeer(t, c.Addrs(), "g", nil)
	await(t, "assigned", owns(1, g), g)
	g.Commit(1, broker.Offsets{tp(0): {At: r.at[tp(0)]}})
	await(t, "committed", func() bool { return len(g.commits[1]) == 1 }, g)
	g.CommittedOffsets(2, tps(0), true)
	await(t, "read back", func() bool { return g.fetched[2].Offsets != nil }, g)
	again := newReader(t, c.Addrs(), committed)
	again.start(tp(0), g.fetched[2].Offsets[tp(0)].At)
	again.until("it knows the end", func() bool { return again.batch[tp(0)].HighWatermark == 17 })
	if again.at[tp(0)] != 17 || again.lag(tp(0)) != 0 || len(again.got[tp(0)]) > 0 {
		t.Fatalf("at %d, lag %d, read %d", again.at[tp(0)], again.lag(tp(0)), len(again.got[tp(0)]))
	}
	all := newReader(t, c.Addrs(), nil)
	all.start(tp(0), 0)
	all.until("everything is read", func() bool { return all.at[tp(0)] == 17 })
	if len(all.got[tp(0)]) != 15 {
		t.Fatalf("read_uncommitted sees %d of 15", len(all.got[tp(0)]))
	}
}

// What is behind an open transaction is no lag: it cannot be read. It is once the transaction ends.
func TestReadCommittedHasNoLagBehindAnOpenTransaction(t *testing.T) {
	c := groupCluster(t, 1)
	x := newTransactor(t, c.Addrs(), "x")
	x.open(tp(0), 0, 3)
	x.end(true)
	x.open(tp(0), 3, 5)
	fetches := counted(c)
	r := newReader(t, c.Addrs(), func(c *kafka.FetcherConfig) { c.ReadCommitted = true })
	r.start(tp(0), 0)
	r.until("up to the open transaction", func() bool { return r.at[tp(0)] == 4 && r.batch[tp(0)].HighWatermark == 9 })
	if r.lag(tp(0)) != 0 || len(r.got[tp(0)]) != 3 {
		t.Fatalf("lag %d, read %d", r.lag(tp(0)), len(r.got[tp(0)]))
	}
	seldom(t, fetches, func() { <-within(t, 500*time.Millisecond).Done() })
	x.end(true)
	r.until("all is read", func() bool { return r.at[tp(0)] == 10 && r.lag(tp(0)) == 0 })
	inOrder(t, r.got[tp(0)], 8)
}

// seldom checks that there are no more than a hundred fetches in each second that something takes.
func seldom(t *testing.T, fetches *atomic.Int64, something func()) {
	t.Helper()
	began := time.Now()
	fetches.Store(0)
	something()
	if n, took := fetches.Load(), time.Since(began); float64(n) > 100*took.Seconds() {
		t.Fatalf("%d fetches in %s", n, took)
	}
}

// counted counts fetches, and lets them pass.
func counted(c *embedded.Cluster) *atomic.Int64 {
	var n atomic.Int64
	c.Kfake().ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return &n
}

// A transaction is committed and its marker is not in the changelog yet: a restore must not stop early at the last stable
// offset, which would lose committed state silently. It waits for the high watermark that it was given.
func TestRestoreMustNotStopEarly(t *testing.T) {
	for _, commit := range []bool{true, false} {
		c := groupCluster(t, 1)
		x := newTransactor(t, c.Addrs(), "x")
		x.open(tp(0), 0, 10)
		x.end(true)
		x.open(tp(0), 10, 10)
		l, err := kafka.NewChangelog(kafka.Config{Brokers: c.Addrs()})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx := within(t, patience)
		ends, err := l.Ends(ctx, tps(0))
		if err != nil || ends[tp(0)].HighWatermark != 21 {
			t.Fatal(ends, err)
		}
		fetches := counted(c)
		var records []record.Raw
		var at atomic.Int64
		ended := make(chan error, 1)
		go func() {
			ended <- l.Read(ctx, tp(0), 0, 21, true, func(b broker.Batch) error {
				records = append(records, b.Records...)
				at.Store(b.Next)
				return nil
			})
		}()
		for fetches.Load() < 6 { // one brings the first transaction; the others come back without anything
			select {
			case err := <-ended:
				t.Fatalf("it ended at %d with the marker missing: %v", at.Load(), err)
			case <-within(t, 20*time.Millisecond).Done():
			}
		}
		if at.Load() != 11 {
			t.Fatalf("it is at %d", at.Load())
		}
		x.end(commit)
		if err := <-ended; err != nil || at.Load() < 21 {
			t.Fatalf("it ended at %d: %v", at.Load(), err)
		}
		inOrder(t, records, map[bool]int{true: 20, false: 10}[commit])
	}
}

// One of its two markers never comes: the caller's context ends the wait, and says so.
func TestRestoreBehindAnOpenTransactionEndsWithItsContext(t *testing.T) {
	c := groupCluster(t, 1)
	newTransactor(t, c.Addrs(), "x").open(tp(0), 0, 10)
	l, err := kafka.NewChangelog(kafka.Config{Brokers: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, enough)
	defer cancel()
	if err := l.Read(ctx, tp(0), 0, 10, true, func(broker.Batch) error { return nil }); !errors.Is(err, enough) {
		t.Fatal(err)
	}
}
