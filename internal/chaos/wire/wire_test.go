package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/record"
)

var partition = record.TopicPartition{Topic: "t"}

// fresh is a client of a new cluster with one topic.
func fresh(t *testing.T) (context.Context, *Client) {
	t.Helper()
	broker, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	admin, err := sarama.NewClusterAdmin(broker.Addrs(), settings())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.CreateTopic(partition.Topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 3}, false); err != nil {
		t.Fatal(err)
	}
	c := New(broker.Addrs())
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx, c
}

func values(names ...string) (records []record.Raw) {
	for i, n := range names {
		records = append(records, record.Raw{Key: []byte("k" + n), Value: []byte(n), Timestamp: int64(1000 - i), Headers: record.Headers{{Key: "id", Value: []byte(n)}}})
	}
	return records
}

// writer is a transactional producer that does just what it is told.
type writer struct {
	*testing.T
	client *Client
	Producer
	id string
}

func newWriter(t *testing.T, c *Client, id string) *writer {
	t.Helper()
	w := &writer{T: t, client: c, id: id, Producer: Producer{client: c, tp: partition}}
	w.everyBroker(func(b *sarama.Broker) (sarama.KError, error) {
		answer, err := b.InitProducerID(&sarama.InitProducerIDRequest{Version: 3, TransactionalID: &id, ProducerID: -1, ProducerEpoch: -1, TransactionTimeout: time.Minute})
		if err != nil {
			return 0, err
		}
		w.Producer.id, w.epoch = answer.ProducerID, answer.ProducerEpoch
		return answer.Err, nil
	})
	return w
}

// everyBroker makes a request to each broker until the coordinator takes it.
func (w *writer) everyBroker(request func(*sarama.Broker) (sarama.KError, error)) {
	w.Helper()
	var last error
	for _, address := range w.client.seeds {
		code, err := call(w.client, address, request)
		if err == nil && code == sarama.ErrNoError {
			return
		}
		last = errors.Join(err, code)
	}
	w.Fatal(last)
}

func (w *writer) write(names ...string) {
	w.Helper()
	w.everyBroker(func(b *sarama.Broker) (sarama.KError, error) {
		answer, err := b.AddPartitionsToTxn(&sarama.AddPartitionsToTxnRequest{Version: 1, TransactionalID: w.id, ProducerID: w.Producer.id,
			ProducerEpoch: w.epoch, TopicPartitions: map[string][]int32{partition.Topic: {partition.Partition}}})
		if err != nil {
			return 0, err
		}
		return answer.Errors[partition.Topic][0].Err, nil
	})
	batch := w.batch(values(names...))
	batch.IsTransactional = true
	request := &sarama.ProduceRequest{Version: 7, RequiredAcks: sarama.WaitForAll, Timeout: 1000, TransactionalID: &w.id}
	request.AddBatch(partition.Topic, partition.Partition, batch)
	w.everyBroker(func(b *sarama.Broker) (sarama.KError, error) {
		answer, err := b.Produce(request)
		if err != nil {
			return 0, err
		}
		return answer.GetBlock(partition.Topic, partition.Partition).Err, nil
	})
	w.sequence += int32(len(names))
}

func (w *writer) end(commit bool) {
	w.Helper()
	w.everyBroker(func(b *sarama.Broker) (sarama.KError, error) {
		answer, err := b.EndTxn(&sarama.EndTxnRequest{Version: 1, TransactionalID: w.id, ProducerID: w.Producer.id, ProducerEpoch: w.epoch, TransactionResult: commit})
		if err != nil {
			return 0, err
		}
		return answer.Err, nil
	})
}

func readAll(t *testing.T, ctx context.Context, c *Client) (names []string, r *Reader) {
	t.Helper()
	r, err := c.NewReader(ctx, partition)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.All(ctx, func(raw record.Raw) error { names = append(names, string(raw.Value)); return nil }); err != nil {
		t.Fatal(err)
	}
	return names, r
}

func TestReaderGivesWhatIsCommittedAndNothingElse(t *testing.T) {
	ctx, c := fresh(t)
	a, b := newWriter(t, c, "a"), newWriter(t, c, "b")
	a.write("a1", "a2")
	b.write("b1")
	a.write("a3")
	a.end(false)
	b.write("b2")
	b.end(true)
	a.write("a4")
	b.write("b3")
	b.end(false)
	a.end(true)
	plain, err := c.NewProducer(ctx, partition)
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Write(ctx, values("p1")); err != nil {
		t.Fatal(err)
	}
	names, r := readAll(t, ctx, c)
	if want := []string{"b1", "b2", "a4", "p1"}; !slices.Equal(names, want) {
		t.Errorf("read %v, want %v", names, want)
	}
	if len(r.Aborted) != 2 || r.Committed != 2 {
		t.Errorf("markers: %v aborted, %d commits; want two of each", r.Aborted, r.Committed)
	}
}

// A reader that is asked for the end while a transaction is open must not say that it is there.
func TestReaderIsNotAtTheEndBehindAnOpenTransaction(t *testing.T) {
	ctx, c := fresh(t)
	w := newWriter(t, c, "w")
	w.write("open")
	r, err := c.NewReader(ctx, partition)
	if err != nil {
		t.Fatal(err)
	}
	poll := func() (names []string) {
		if err := r.Poll(ctx, func(raw record.Raw) error { names = append(names, string(raw.Value)); return nil }); err != nil {
			t.Fatal(err)
		}
		return names
	}
	if names := poll(); len(names) > 0 || r.AtEnd() {
		t.Errorf("an open transaction is read as %v, at the end: %t", names, r.AtEnd())
	}
	ends, err := c.Ends(ctx, []record.TopicPartition{partition})
	if err != nil || ends[partition].LastStable >= ends[partition].HighWatermark {
		t.Errorf("the ends are %v, %v", ends, err)
	}
	w.end(true)
	var names []string
	for !r.AtEnd() && ctx.Err() == nil {
		names = append(names, poll()...)
	}
	if !slices.Equal(names, []string{"open"}) {
		t.Errorf("after the commit: %v", names)
	}
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	ctx, c := fresh(t)
	p, err := c.NewProducer(ctx, partition)
	if err != nil {
		t.Fatal(err)
	}
	in := append(values("one", "two"), record.Raw{Timestamp: 5000, Value: nil, Key: []byte("gone")})
	if err := p.Write(ctx, in); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(ctx, values("three")); err != nil {
		t.Fatal(err)
	}
	in = append(in, values("three")...)
	r, err := c.NewReader(ctx, partition)
	if err != nil {
		t.Fatal(err)
	}
	var out []record.Raw
	if err := r.All(ctx, func(raw record.Raw) error { out = append(out, raw); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(out) != len(in) {
		t.Fatalf("wrote %d records, read %d", len(in), len(out))
	}
	for i := range in {
		in[i].Offset = int64(i)
		if fmt.Sprint(in[i]) != fmt.Sprint(out[i]) || (in[i].Value == nil) != (out[i].Value == nil) {
			t.Errorf("wrote %v, read %v", in[i], out[i])
		}
	}
}

// A batch whose answer was lost is sent again and is in the log once.
func TestABatchThatIsSentAgainIsWrittenOnce(t *testing.T) {
	ctx, c := fresh(t)
	p, err := c.NewProducer(ctx, partition)
	if err != nil {
		t.Fatal(err)
	}
	batch := p.batch(values("once"))
	for range 3 {
		if err := c.retry(ctx, "a batch", func() error { return p.send(batch) }); err != nil {
			t.Fatal(err)
		}
	}
	p.sequence++
	if err := p.Write(ctx, values("next")); err != nil {
		t.Fatal(err)
	}
	if names, _ := readAll(t, ctx, c); !slices.Equal(names, []string{"once", "next"}) {
		t.Errorf("read %v", names)
	}
}

func TestAGapInTheSequenceIsRefused(t *testing.T) {
	ctx, c := fresh(t)
	p, err := c.NewProducer(ctx, partition)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(ctx, values("first")); err != nil {
		t.Fatal(err)
	}
	p.sequence += 5
	err = p.Write(ctx, values("later"))
	if r, ok := errors.AsType[*Refused](err); !ok || r.Code != sarama.ErrOutOfOrderSequenceNumber {
		t.Errorf("got %v", err)
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	c := New([]string{"127.0.0.1:1"})
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.NewProducer(ctx, partition); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestTopicsThatABrokerDoesNotKnowAreNotInSync(t *testing.T) {
	_, c := fresh(t)
	if err := c.InSync(1, partition.Topic); err != nil {
		t.Error(err)
	}
	if err := c.InSync(1, partition.Topic, "missing"); err == nil {
		t.Error("a topic that does not exist is in sync")
	}
	if err := c.InSync(4); err == nil {
		t.Error("three brokers have four replicas")
	}
}

// What a group has not committed is -1, what it has is the offset.
func TestCommittedOffsets(t *testing.T) {
	ctx, c := fresh(t)
	other := record.TopicPartition{Topic: partition.Topic, Partition: 1}
	coordinator, err := c.coordinator("g")
	if err != nil {
		t.Fatal(err)
	}
	request := &sarama.OffsetCommitRequest{Version: 2, ConsumerGroup: "g", ConsumerGroupGeneration: -1}
	request.AddBlock(partition.Topic, partition.Partition, 17, 0, "")
	if _, err := call(c, coordinator, func(b *sarama.Broker) (*sarama.OffsetCommitResponse, error) { return b.CommitOffset(request) }); err != nil {
		t.Fatal(err)
	}
	offsets, err := c.Committed(ctx, "g", []record.TopicPartition{partition, other})
	if err != nil || offsets[partition] != 17 || offsets[other] != -1 {
		t.Errorf("got %v, %v", offsets, err)
	}
}

func TestOpenTransactionsAreListed(t *testing.T) {
	_, c := fresh(t)
	w := newWriter(t, c, "w")
	if open := c.OpenTransactions(); len(open) > 0 {
		t.Errorf("nothing is open, and yet %v", open)
	}
	w.write("x")
	if open := c.OpenTransactions(); len(open) == 0 || !strings.Contains(open[0], "Ongoing: w of producer") {
		t.Errorf("one is open, and these are listed: %v", open)
	}
	w.end(false)
}

func TestABrokerThatDoesNotAnswerIsNamed(t *testing.T) {
	c := New([]string{"127.0.0.1:1"})
	defer c.Close()
	if open := c.OpenTransactions(); len(open) != 1 || !strings.Contains(open[0], "127.0.0.1:1") {
		t.Errorf("got %v", open)
	}
}

// The embedded broker does not tell which transactions hold offsets, so the answer is made up; that a real broker's is read
// right, the chaos run shows.
func TestWhatIsInACommit(t *testing.T) {
	with := func(state string, topics ...string) (s sarama.TransactionState) {
		s.TransactionState = state
		for _, topic := range topics {
			s.Topics = append(s.Topics, sarama.DescribeTransactionsResponseTopic{Topic: topic, Partitions: []int32{0}})
		}
		return s
	}
	for _, c := range []struct {
		state sarama.TransactionState
		want  bool
	}{
		{with(sarama.TransactionStateOngoing, "t", offsetsTopic), true},
		{with(sarama.TransactionStateOngoing, offsetsTopic), true},
		{with(sarama.TransactionStateOngoing, "t"), false},
		{with(sarama.TransactionStatePrepareCommit, "t", offsetsTopic), false},
		{with("Empty"), false},
	} {
		if holdsOffsets(c.state) != c.want {
			t.Errorf("%+v: not %t", c.state, c.want)
		}
	}
	_, client := fresh(t)
	w := newWriter(t, client, "mine")
	w.write("a")
	if ids, err := client.InCommit(func(string) bool { return true }); err != nil || len(ids) > 0 {
		t.Errorf("without offsets, %v, %v", ids, err)
	}
}
