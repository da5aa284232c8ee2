package kafka_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"
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

// reader is a fetcher with what it has brought, as its one owner would keep it: a batch that is not at the position is
// dropped.
type reader struct {
	*kafka.Fetcher
	t     *testing.T
	inbox *broker.Inbox
	at    map[record.TopicPartition]int64
	got   map[record.TopicPartition][]record.Raw
	fails []broker.FetchFailed
	batch map[record.TopicPartition]broker.Batch
	hold  bool // give no credit back, but count it
	hear  func(broker.Event)

	outstanding int
}

func newReader(t *testing.T, addrs []string, change func(*kafka.FetcherConfig)) *reader {
	cfg := kafka.FetcherConfig{Config: kafka.Config{Brokers: addrs}}
	if change != nil {
		change(&cfg)
	}
	r := &reader{t: t, inbox: broker.NewInbox(), at: map[record.TopicPartition]int64{}, got: map[record.TopicPartition][]record.Raw{}, batch: map[record.TopicPartition]broker.Batch{}}
	f, err := kafka.NewFetcher(cfg, r.inbox.Put)
	if err != nil {
		t.Fatal(err)
	}
	r.Fetcher = f
	t.Cleanup(f.Close)
	return r
}

func (r *reader) start(from record.TopicPartition, at int64) {
	r.at[from] = at
	r.Start(from, at)
}

func (r *reader) take() {
	for _, e := range r.inbox.Poll(nil) {
		switch e := e.(type) {
		case broker.Fetched:
			for _, b := range e.Batches {
				if b.From != r.at[b.Source] {
					continue
				}
				r.at[b.Source], r.batch[b.Source] = b.Next, b
				r.got[b.Source] = append(r.got[b.Source], b.Records...)
				if !r.hold {
					r.Credit(b.Source, b.Bytes)
				} else {
					r.outstanding += b.Bytes
				}
			}
		case broker.FetchFailed:
			r.fails = append(r.fails, e)
		default:
			if r.hear != nil {
				r.hear(e)
			}
		}
	}
}

func (r *reader) until(what string, holds func() bool) {
	r.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		r.take()
		if holds() {
			return
		}
		select {
		case <-r.inbox.Wake():
		case <-deadline.C:
			r.t.Fatalf("never: %s; at %v, failed %v", what, r.at, r.fails)
		}
	}
}

func (r *reader) has(from record.TopicPartition, n int) func() bool {
	return func() bool { return len(r.got[from]) >= n }
}

func TestFetcherRetriesWithoutLossOrDuplicate(t *testing.T) {
	for _, code := range []*kerr.Error{
		kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition, kerr.ReplicaNotAvailable, kerr.KafkaStorageError,
		kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.OffsetNotAvailable, kerr.RequestTimedOut, kerr.CorruptMessage,
	} {
		t.Run(code.Message, func(t *testing.T) {
			c := groupCluster(t, 2)
			w := newWriter(t, c.Addrs(), nil)
			w.put(t, tp(0), 0, 100)
			w.put(t, tp(1), 0, 100)
			w.flush(t)
			fault := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Partitions: []int32{0}, Err: code, Count: 3})
			defer fault.Remove()
			r := newReader(t, c.Addrs(), nil)
			r.start(tp(0), 0)
			r.start(tp(1), 0)
			r.until("both are read", func() bool { return r.has(tp(0), 100)() && r.has(tp(1), 100)() })
			inOrder(t, r.got[tp(0)], 100)
			inOrder(t, r.got[tp(1)], 100)
			if fault.Hits() != 3 || len(r.fails) > 0 {
				t.Fatalf("%d faults, failed %v", fault.Hits(), r.fails)
			}
		})
	}
}

func TestFetcherFollowsLeadersAndReconnects(t *testing.T) {
	c := groupCluster(t, 3)
	w := newWriter(t, c.Addrs(), nil)
	r := newReader(t, c.Addrs(), func(c *kafka.FetcherConfig) { c.PartitionBytes = 200 })
	var fetches atomic.Int64
	c.Kfake().ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		if fetches.Add(1)%7 == 0 {
			return nil, errors.New("dropped"), true
		}
		return nil, nil, false
	})
	for p := range int32(3) {
		r.start(tp(p), 0)
	}
	for round := range 10 {
		for p := range int32(3) {
			w.put(t, tp(p), round*30, 30)
		}
		w.flush(t)
		c.Kfake().ShufflePartitionLeaders()
	}
	r.until("all is read", func() bool {
		return r.has(tp(0), 300)() && r.has(tp(1), 300)() && r.has(tp(2), 300)()
	})
	for p := range int32(3) {
		inOrder(t, r.got[tp(p)], 300)
	}
	if fetches.Load() < 7 {
		t.Fatal("nothing was disturbed")
	}
}

// Case H15: three of four go on, and the fourth says what is the matter.
func TestFetcherOutOfRangeStopsOnePartitionOnly(t *testing.T) {
	c := groupCluster(t, 4)
	w := newWriter(t, c.Addrs(), nil)
	for p := range int32(4) {
		w.put(t, tp(p), 0, 10)
	}
	w.flush(t)
	if err := c.Kfake().DeleteRecords("t", 3, 4); err != nil {
		t.Fatal(err)
	}
	r := newReader(t, c.Addrs(), nil)
	for p := range int32(4) {
		r.start(tp(p), 0)
	}
	r.until("the fourth failed", func() bool { return len(r.fails) > 0 })
	f := r.fails[0]
	if f.Source != tp(3) || f.Position != 0 || f.LogStart != 4 || f.HighWatermark != 10 || f.Err.Code != broker.CodeOffsetOutOfRange {
		t.Fatalf("%+v", f)
	}
	for p := range int32(3) {
		w.put(t, tp(p), 10, 10)
	}
	w.flush(t)
	r.until("three go on", func() bool { return r.has(tp(0), 20)() && r.has(tp(1), 20)() && r.has(tp(2), 20)() })
	if len(r.got[tp(3)]) > 0 || len(r.fails) != 1 {
		t.Fatalf("the fourth moved: %v, %v", r.got[tp(3)], r.fails)
	}
	r.start(tp(3), f.LogStart)
	r.until("the fourth is read from its log's start", r.has(tp(3), 6))
}

// fetchAnswer answers for partition 0 of the topic, empty but for what fill puts in.
func fetchAnswer(req kmsg.Request, fill func(*kmsg.FetchResponseTopicPartition)) kmsg.Response {
	res := req.(*kmsg.FetchRequest).ResponseKind().(*kmsg.FetchResponse)
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic = "t"
	p := kmsg.NewFetchResponseTopicPartition()
	fill(&p)
	topic.Partitions = append(topic.Partitions, p)
	res.Topics = append(res.Topics, topic)
	return res
}

// Compaction keeps a batch whose records are all gone. A reader must step over it.
func TestReadersStepOverEmptyBatches(t *testing.T) {
	empty := kmsg.RecordBatch{FirstOffset: 0, Length: 49, Magic: 2, LastOffsetDelta: 9, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
	raw := empty.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	c := groupCluster(t, 1)
	c.Kfake().ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		return fetchAnswer(req, func(p *kmsg.FetchResponseTopicPartition) {
			p.HighWatermark, p.LastStableOffset, p.RecordBatches = 10, 10, raw
		}), nil, true
	})
	l, err := kafka.NewChangelog(kafka.Config{Brokers: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := int64(0)
	err = l.Read(within(t, patience), tp(0), 0, 10, true, func(b broker.Batch) error {
		at = b.Next
		return nil
	})
	if err != nil || at != 10 {
		t.Fatalf("at %d: %v", at, err)
	}
}

// A real broker leaves the range out of its answer (-1, -1): it is asked for.
func TestFetcherAsksForTheRange(t *testing.T) {
	c := groupCluster(t, 1)
	w := newWriter(t, c.Addrs(), nil)
	w.put(t, tp(0), 0, 10)
	w.flush(t)
	c.Kfake().ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		return fetchAnswer(req, func(p *kmsg.FetchResponseTopicPartition) {
			p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = 1, -1, -1, -1
		}), nil, true
	})
	r := newReader(t, c.Addrs(), nil)
	r.start(tp(0), 50)
	r.until("failed", func() bool { return len(r.fails) > 0 })
	if f := r.fails[0]; f.LogStart != 0 || f.HighWatermark != 10 {
		t.Fatalf("%+v", f)
	}
}

func TestFetcherNotAllowedIsFatal(t *testing.T) {
	c := groupCluster(t, 1)
	defer c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: kerr.TopicAuthorizationFailed, Count: -1}).Remove()
	r := newReader(t, c.Addrs(), nil)
	r.start(tp(0), 0)
	r.until("failed", func() bool { return len(r.fails) > 0 })
	if f := r.fails[0]; f.Err.Class != broker.Fatal || f.Err.Code != 29 {
		t.Fatalf("%+v", f)
	}
}

// What is delivered and not given back stays within the credit and one batch of the log, as it is in memory: also when
// frames are larger than records, and when the log is compressed. Only the first answer may not know that yet.
func TestFetcherStopsAtItsCredit(t *testing.T) {
	for _, codec := range []string{"none", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			c := groupCluster(t, 2)
			w := newWriter(t, c.Addrs(), func(c *kafka.ProducerConfig) { c.BatchBytes, c.Compression = 10_000, codec })
			w.put(t, tp(0), 0, 60_000)
			w.flush(t)
			const credit = 1_000_000
			r := newReader(t, c.Addrs(), func(c *kafka.FetcherConfig) { c.Credit = credit })
			r.start(tp(0), 0)
			for round := range 4 {
				if round > 0 { // the first answer has told how much comes of a byte
					if round > 1 && r.outstanding > credit+200_000 {
						t.Fatalf("%d bytes came on a credit of %d", r.outstanding, credit)
					}
					r.hold = false
					back := r.outstanding
					r.outstanding = 0
					r.Credit(tp(0), back)
				}
				r.hold = true
				before := r.outstanding
				r.until("the credit is used", func() bool { return r.outstanding > before && r.outstanding > credit*3/4 })
				// The other partition shows that fetching goes on while the first one waits for credit.
				w.put(t, tp(1), round*20, 20)
				w.flush(t)
				r.start(tp(1), int64(round*20))
				seen := len(r.got[tp(1)])
				r.until("the other partition is read", r.has(tp(1), seen+20))
			}
			r.hold = false
			r.Credit(tp(0), r.outstanding)
			r.until("the rest is read", r.has(tp(0), 60_000))
			inOrder(t, r.got[tp(0)], 60_000)
		})
	}
}

// transactions writes n records in transactions of ten, every other one aborted. The committed ones are numbered.
func transactions(t *testing.T, addrs []string, to record.TopicPartition, n int) {
	t.Helper()
	x := newTransactor(t, addrs, "tx")
	for i := 0; i < n; i += 10 {
		x.open(to, i/2, 10)
		x.end(i%20 == 0)
	}
}

func TestReadCommittedLeavesAbortedRecordsOut(t *testing.T) {
	c := groupCluster(t, 1)
	transactions(t, c.Addrs(), tp(0), 200)
	r := newReader(t, c.Addrs(), func(c *kafka.FetcherConfig) { c.ReadCommitted, c.PartitionBytes = true, 300 })
	r.start(tp(0), 0)
	r.until("the end is reached", func() bool { return r.at[tp(0)] == 220 })
	inOrder(t, r.got[tp(0)], 100)
	inOrder(t, logOf(t, c.Addrs(), tp(0), true), 100)
	if all := logOf(t, c.Addrs(), tp(0), false); len(all) != 200 {
		t.Fatalf("read_uncommitted sees %d of 200; control records are never seen", len(all))
	}
}

// Above the last stable offset a broker answers at once, whatever MaxWait says.
func TestReadCommittedAboveTheStableOffsetDoesNotSpin(t *testing.T) {
	c := groupCluster(t, 1)
	w := newWriter(t, c.Addrs(), nil)
	w.put(t, tp(0), 0, 10)
	w.flush(t)
	var fetches atomic.Int64
	// The embedded broker would wait; this answers as a real one does.
	c.Kfake().ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		fetches.Add(1)
		return fetchAnswer(req, func(p *kmsg.FetchResponseTopicPartition) { p.HighWatermark = 10 }), nil, true
	})
	r := newReader(t, c.Addrs(), func(c *kafka.FetcherConfig) { c.ReadCommitted = true })
	r.start(tp(0), 10)
	seldom(t, &fetches, func() { <-within(t, 600*time.Millisecond).Done() })
	l, err := kafka.NewChangelog(kafka.Config{Brokers: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	seldom(t, &fetches, func() {
		err = l.Read(within(t, 600*time.Millisecond), tp(0), 0, 10, true, func(broker.Batch) error { return nil })
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("an open transaction's records were passed: %v", err)
	}
}

// Cases H3, H7 and H8: the target is a marker, the log is empty, nothing is new.
func TestChangelogReachesItsTarget(t *testing.T) {
	c := groupCluster(t, 3)
	transactions(t, c.Addrs(), tp(0), 20) // ends in an abort marker
	w := newWriter(t, c.Addrs(), nil)
	w.put(t, tp(1), 0, 500)
	w.flush(t)
	if err := c.Kfake().DeleteRecords("t", 1, 500); err != nil {
		t.Fatal(err)
	}
	l, err := kafka.NewChangelog(kafka.Config{Brokers: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := within(t, patience)
	ends, err := l.Ends(ctx, tps(0, 1, 2))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(ends[tp(0)], ends[tp(1)], ends[tp(2)]), "{0 22} {500 500} {0 0}"; got != want {
		t.Fatalf("ends %s, want %s", got, want)
	}
	for p, want := range map[int32]int{0: 10, 1: 0, 2: 0} {
		at, n := ends[tp(p)].Start, 0
		err := l.Read(ctx, tp(p), at, ends[tp(p)].HighWatermark, true, func(b broker.Batch) error {
			if b.From != at {
				t.Errorf("a batch from %d at position %d", b.From, at)
			}
			at, n = b.Next, n+len(b.Records)
			return nil
		})
		if err != nil || at != ends[tp(p)].HighWatermark || n != want {
			t.Errorf("partition %d: %d records, at %d, %v", p, n, at, err)
		}
	}
	var out *kafka.OutOfRangeError
	err = l.Read(ctx, tp(1), 300, 500, true, func(broker.Batch) error { return nil })
	if !errors.As(err, &out) || out.Start != 500 || out.LogEnd != 500 || out.Position != 300 {
		t.Fatalf("%v", err)
	}
	stop := errors.New("enough")
	if err := l.Read(ctx, tp(0), 0, 22, true, func(broker.Batch) error { return stop }); !errors.Is(err, stop) {
		t.Fatalf("%v", err)
	}
}

func BenchmarkFetcher(b *testing.B) {
	c, err := embedded.Start(kfake.SeedTopics(1, "t"), kfake.SyntheticFetch(kfake.SyntheticBatch{Records: 5000}))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	in := broker.NewInbox()
	f, err := kafka.NewFetcher(kafka.FetcherConfig{Config: kafka.Config{Brokers: c.Addrs()}}, in.Put)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	f.Start(tp(0), 0)
	b.ReportAllocs()
	pending := 0
	for b.Loop() {
		for pending == 0 {
			<-in.Wake()
			for _, e := range in.Poll(nil) {
				if e, ok := e.(broker.Fetched); ok {
					for _, batch := range e.Batches {
						pending += len(batch.Records)
						f.Credit(batch.Source, batch.Bytes)
					}
				}
			}
		}
		pending--
	}
}
