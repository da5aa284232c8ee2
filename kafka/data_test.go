package kafka_test

import (
	"context"
	"encoding/binary"
	"fmt"
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

// patience is how long anything may take before a test gives up. Nothing is asserted about how long things take.
const patience = time.Minute

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func tp(partition int32) record.TopicPartition {
	return record.TopicPartition{Topic: "t", Partition: partition}
}

// next gives the next event that pick takes; what it does not take is dropped.
func next[T any](t *testing.T, in *broker.Inbox, what string, pick func(broker.Event) (T, bool)) T {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		events := in.Poll(nil)
		for i, e := range events {
			if v, ok := pick(e); ok {
				for _, rest := range events[i+1:] {
					in.Put(rest)
				}
				return v
			}
		}
		select {
		case <-in.Wake():
		case <-deadline.C:
			t.Fatal("never: ", what)
		}
	}
}

// writer is a producer with its inbox and the token of its last flush.
type writer struct {
	*kafka.Producer
	inbox *broker.Inbox
	token uint64
}

func newWriter(t *testing.T, addrs []string, change func(*kafka.ProducerConfig)) *writer {
	cfg := kafka.ProducerConfig{Config: kafka.Config{Brokers: addrs}}
	if change != nil {
		change(&cfg)
	}
	w := &writer{inbox: broker.NewInbox()}
	p, err := kafka.NewProducer(cfg, w.inbox.Put)
	if err != nil {
		t.Fatal(err)
	}
	w.Producer = p
	t.Cleanup(func() {
		if err := p.Close(within(t, patience)); err != nil {
			t.Error("close:", err)
		}
	})
	return w
}

// put appends records whose values are numbers.
func (w *writer) put(t *testing.T, to record.TopicPartition, from, n int) {
	t.Helper()
	for i := range n {
		if err := w.Append(to, &record.Raw{Key: fmt.Appendf(nil, "k%d", i%7), Value: number(from + i), Timestamp: 1000 + int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
}

func number(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func (w *writer) flush(t *testing.T) broker.Flushed {
	t.Helper()
	w.token++
	w.Flush(w.token)
	return next(t, w.inbox, "flushed", func(e broker.Event) (broker.Flushed, bool) {
		f, ok := e.(broker.Flushed)
		if ok && f.Token != w.token {
			t.Fatalf("flushed %d, want %d", f.Token, w.token)
		}
		return f, ok
	})
}

// logOf reads a whole partition back.
func logOf(t *testing.T, addrs []string, from record.TopicPartition, committed bool) (records []record.Raw) {
	t.Helper()
	c, err := kafka.NewChangelog(kafka.Config{Brokers: addrs})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := within(t, patience)
	ends, err := c.Ends(ctx, []record.TopicPartition{from})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Read(ctx, from, ends[from].Start, ends[from].HighWatermark, committed, func(b broker.Batch) error {
		records = append(records, b.Records...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// inOrder checks that a log holds the numbers 0 to n, each once and in order.
func inOrder(t *testing.T, records []record.Raw, n int) {
	t.Helper()
	for i, r := range records {
		if got := int(binary.BigEndian.Uint32(r.Value)); got != i {
			t.Fatalf("record %d of the log holds %d", i, got)
		}
	}
	if len(records) != n {
		t.Fatalf("the log holds %d records, want %d", len(records), n)
	}
}

func TestProducerRetriesWithoutLossOrDuplicate(t *testing.T) {
	for _, code := range []*kerr.Error{
		kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicas,
		kerr.NotEnoughReplicasAfterAppend, kerr.CorruptMessage, kerr.KafkaStorageError, kerr.FencedLeaderEpoch, kerr.OutOfOrderSequenceNumber,
		kerr.UnknownProducerID, kerr.InvalidProducerIDMapping,
	} {
		t.Run(code.Message, func(t *testing.T) {
			c := groupCluster(t, 2)
			w := newWriter(t, c.Addrs(), func(c *kafka.ProducerConfig) { c.BatchBytes = 500 })
			w.put(t, tp(0), 0, 50)
			if f := w.flush(t); f.Err != nil || f.Ends[tp(0)] != 50 {
				t.Fatalf("%+v", f)
			}
			fault := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Partitions: []int32{0}, Err: code, Count: 3})
			defer fault.Remove()
			w.put(t, tp(0), 50, 100)
			w.put(t, tp(1), 0, 100)
			if f := w.flush(t); f.Err != nil || len(f.Refused) > 0 || f.Ends[tp(1)] != 100 {
				t.Fatalf("%+v", f)
			}
			if fault.Hits() != 3 {
				t.Fatalf("the fault was met %d times", fault.Hits())
			}
			inOrder(t, logOf(t, c.Addrs(), tp(0), false), 150)
			inOrder(t, logOf(t, c.Addrs(), tp(1), false), 100)
			if n := w.Buffered(); n != 0 {
				t.Fatalf("%d bytes are still counted", n)
			}
		})
	}
}

// A broker that drops connections before and after it has written: the same batches come again, and the log has them once.
func TestProducerOutlivesLostConnectionsAndMoves(t *testing.T) {
	c := groupCluster(t, 3)
	w := newWriter(t, c.Addrs(), func(c *kafka.ProducerConfig) { c.BatchBytes = 300 })
	dropped := 0
	c.Kfake().ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.Kfake().KeepControl()
		if dropped++; dropped%3 == 0 && dropped < 30 {
			return nil, fmt.Errorf("dropped"), true
		}
		return nil, nil, false
	})
	for round := range 12 {
		for p := range int32(3) {
			w.put(t, tp(p), round*40, 40)
		}
		c.Kfake().ShufflePartitionLeaders()
		w.Tick(time.Now())
	}
	if f := w.flush(t); f.Err != nil || len(f.Refused) > 0 {
		t.Fatalf("%+v", f)
	}
	if dropped < 6 {
		t.Fatalf("only %d requests were seen: nothing was disturbed", dropped)
	}
	for p := range int32(3) {
		inOrder(t, logOf(t, c.Addrs(), tp(p), false), 480)
	}
}

func TestProducerTellsRefusedRecords(t *testing.T) {
	c := groupCluster(t, 1)
	w := newWriter(t, c.Addrs(), nil)
	// The broker refuses whatever holds record 5, as it does for a bad timestamp or a missing key: the whole batch.
	fault := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord, Count: -1, When: func(r kmsg.Request) bool {
		return holdsValue(r.(*kmsg.ProduceRequest), number(5))
	}})
	defer fault.Remove()
	w.put(t, tp(0), 0, 10)
	f := w.flush(t)
	if f.Err != nil || len(f.Refused) != 1 || f.Refused[0].Err.Class != broker.Record || f.Refused[0].Source != tp(0) {
		t.Fatalf("%+v", f)
	}
	if records := logOf(t, c.Addrs(), tp(0), false); len(records) != 9 {
		t.Fatalf("one record was refused, and the log holds %d of the other 9", len(records))
	}
	if f.Ends[tp(0)] != 9 {
		t.Fatalf("ends %v", f.Ends)
	}
}

// A real broker names the records that it refuses; the others go out again in one batch.
func TestProducerResendsWhatWasNotNamed(t *testing.T) {
	c := groupCluster(t, 1)
	w := newWriter(t, c.Addrs(), nil)
	c.Kfake().ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		res := req.(*kmsg.ProduceRequest).ResponseKind().(*kmsg.ProduceResponse)
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic = "t"
		p := kmsg.NewProduceResponseTopicPartition()
		p.ErrorCode, p.BaseOffset = 87, -1
		for _, i := range []int32{8, 9} {
			e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			e.RelativeOffset = i
			p.ErrorRecords = append(p.ErrorRecords, e)
		}
		topic.Partitions = append(topic.Partitions, p)
		res.Topics = append(res.Topics, topic)
		return res, nil, true
	})
	w.put(t, tp(0), 0, 10)
	if f := w.flush(t); f.Err != nil || len(f.Refused) != 2 || f.Ends[tp(0)] != 8 || w.Buffered() != 0 {
		t.Fatalf("%+v, %d bytes left", f, w.Buffered())
	}
	inOrder(t, logOf(t, c.Addrs(), tp(0), false), 8)
}

func holdsValue(r *kmsg.ProduceRequest, value []byte) bool {
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			for i := 0; i+len(value)+2 <= len(p.Records); i++ {
				// A value's length is a zig-zag varint in front of it.
				if p.Records[i] == byte(2*len(value)) && string(p.Records[i+1:i+1+len(value)]) == string(value) && p.Records[i+1+len(value)] == 0 {
					return true
				}
			}
		}
	}
	return false
}

func TestProducerRefusesWhatNoBrokerTakes(t *testing.T) {
	c := groupCluster(t, 1)
	w := newWriter(t, c.Addrs(), nil)
	err := w.Append(tp(0), &record.Raw{Value: make([]byte, 2<<20)})
	if be, ok := err.(*broker.Error); !ok || be.Class != broker.Record {
		t.Fatalf("%v", err)
	}
	if err := w.Append(tp(9), &record.Raw{}); err == nil {
		t.Fatal("a partition that does not exist was taken")
	}
	if _, err := kafka.NewProducer(kafka.ProducerConfig{Compression: "brotli"}, nil); err == nil {
		t.Fatal("brotli")
	}
}

func TestProducerFailsWhatIsNotAllowed(t *testing.T) {
	c := groupCluster(t, 1)
	w := newWriter(t, c.Addrs(), nil)
	fault := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	w.put(t, tp(0), 0, 1)
	if f := w.flush(t); f.Err == nil || f.Err.Class != broker.Fatal || f.Err.Code != 29 {
		t.Fatalf("%+v", f)
	}
	fault.Remove()
	w.put(t, tp(0), 0, 1)
	if f := w.flush(t); f.Err != nil {
		t.Fatalf("the object stays usable: %+v", f)
	}
}

func TestProducerGivesUpAfterItsDeliveryTimeout(t *testing.T) {
	c := groupCluster(t, 1)
	w := newWriter(t, c.Addrs(), func(c *kafka.ProducerConfig) { c.DeliveryTimeout = 2 * time.Second })
	w.put(t, tp(0), 0, 1)
	w.flush(t)
	fault := c.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	w.put(t, tp(0), 1, 1)
	if f := w.flush(t); f.Err == nil || f.Err.Class != broker.Abort || w.Buffered() != 0 {
		t.Fatalf("%+v, %d bytes left", f, w.Buffered())
	}
	fault.Remove()
	w.put(t, tp(0), 1, 1)
	if f := w.flush(t); f.Err != nil {
		t.Fatalf("%+v", f)
	}
	inOrder(t, logOf(t, c.Addrs(), tp(0), false), 2)
}

func TestProducerResetDropsWhatNoBrokerHasSeen(t *testing.T) {
	c := groupCluster(t, 1)
	w := newWriter(t, c.Addrs(), nil)
	w.put(t, tp(0), 77, 3) // in an open batch
	w.Abort(1)
	if n := w.Buffered(); n != 0 {
		t.Fatalf("%d bytes are still counted", n)
	}
	w.put(t, tp(0), 0, 2)
	if f := w.flush(t); f.Err != nil || f.Ends[tp(0)] != 2 {
		t.Fatalf("%+v", f)
	}
	inOrder(t, logOf(t, c.Addrs(), tp(0), false), 2)
}

func TestProducerKeepsNullAndEmptyApartInEveryCodec(t *testing.T) {
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			c := groupCluster(t, 1)
			w := newWriter(t, c.Addrs(), func(c *kafka.ProducerConfig) { c.Compression = codec })
			in := []record.Raw{
				{Key: []byte("k"), Value: nil, Timestamp: 2000}, {Key: nil, Value: []byte{}, Timestamp: 1000},
				{Key: []byte{}, Value: []byte("v"), Timestamp: 3000, Headers: record.Headers{{Key: "a", Value: nil}, {Key: "b", Value: []byte{}}}},
			}
			for i := range in {
				if err := w.Append(tp(0), &in[i]); err != nil {
					t.Fatal(err)
				}
			}
			w.flush(t)
			for i, r := range logOf(t, c.Addrs(), tp(0), false) {
				in[i].Offset = int64(i)
				if got, want := fmt.Sprintf("%#v", r), fmt.Sprintf("%#v", in[i]); got != want {
					t.Errorf("got %s\nwant %s", got, want)
				}
			}
		})
	}
}

func BenchmarkProducerAppend(b *testing.B) {
	c, err := embedded.Start(kfake.BlackholeProduce(), kfake.SeedTopics(4, "t"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	in := broker.NewInbox()
	p, err := kafka.NewProducer(kafka.ProducerConfig{Config: kafka.Config{Brokers: c.Addrs()}}, in.Put)
	if err != nil {
		b.Fatal(err)
	}
	r := record.Raw{Key: make([]byte, 10), Value: make([]byte, 100)}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := p.Append(tp(int32(i%4)), &r); err != nil {
			b.Fatal(err)
		}
		if i%20_000 == 0 {
			p.Flush(uint64(i))
			for flushed := false; !flushed; {
				<-in.Wake()
				for _, e := range in.Poll(nil) {
					_, ok := e.(broker.Flushed)
					flushed = flushed || ok
				}
			}
		}
	}
	if err := p.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}
