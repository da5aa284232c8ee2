package millrace_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// grown raises the lines topic to six partitions and at once writes ten records into each of the new ones.
func grown(t *testing.T, c *embedded.Cluster) {
	t.Helper()
	admin, err := kafka.NewAdmin(kafka.Config{Brokers: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.CreatePartitions(t.Context(), map[string]int32{"lines": 6}); err != nil {
		t.Fatal(err)
	}
	flushed := make(chan broker.Flushed, 1)
	p, err := kafka.NewProducer(kafka.ProducerConfig{Config: kafka.Config{Brokers: c.Addrs()}}, func(e broker.Event) {
		if f, ok := e.(broker.Flushed); ok {
			flushed <- f
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	for i := range int32(20) {
		if err := p.Append(record.TopicPartition{Topic: "lines", Partition: 4 + i%2}, &record.Raw{Value: []byte("late")}); err != nil {
			t.Fatal(err)
		}
	}
	p.Flush(1)
	if f := <-flushed; f.Err != nil {
		t.Fatal(f.Err)
	}
}

// Start position "latest" does not skip what was written to a partition before the group noticed that it was added.
func TestH5AddedPartitionsAreReadFromTheirStart(t *testing.T) {
	c := cluster(t)
	b := topology.NewBuilder()
	latest := topology.From(b, lines.WithReset(topology.Latest))
	topology.To(topology.MapValues(latest, func(string) int64 { return 1 }), out)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, topo, millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithThreads(1), millrace.WithMetadataRefresh(20*time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	feed(t, c, "a", "b", "c", "d")
	if err := n.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	grown(t, c)
	await(ctx, t, func() bool { return len(n.Owned()) == 6 }, func() string { return n.State().String() })
	if err := n.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	written := len(visible(t, c, "word-counts"))
	if written != 24 {
		t.Fatalf("%d records were processed, not 4 and 20", written)
	}
}

// visible are the records of a topic of four partitions that a committed reader sees.
func visible(t testing.TB, c *embedded.Cluster, topic string) (all []record.Raw) {
	t.Helper()
	r, err := kafka.NewChangelog(kafka.Config{Brokers: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for p := range int32(4) {
		tp := record.TopicPartition{Topic: topic, Partition: p}
		ends, err := r.Ends(t.Context(), []record.TopicPartition{tp})
		if err != nil {
			t.Fatal(err)
		}
		err = r.Read(t.Context(), tp, ends[tp].Start, ends[tp].HighWatermark, true, func(b broker.Batch) error {
			for _, rec := range b.Records {
				all = append(all, record.Raw{Key: bytes.Clone(rec.Key), Value: bytes.Clone(rec.Value), Timestamp: rec.Timestamp, Offset: rec.Offset, Headers: rec.Headers})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Under a store more partitions would give keys to stores without their history: the node ends and says so.
func TestH5AddedPartitionsUnderAStoreEndTheNode(t *testing.T) {
	c := cluster(t)
	b := topology.NewBuilder()
	topology.To(topology.Count(topology.From(b, lines), counts), out)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	n, err := millrace.New("app", topo, millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithThreads(1), millrace.WithMetadataRefresh(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	if err := n.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	grown(t, c)
	var changed *millrace.PartitionCountChangedError
	if err := <-done; !errors.As(err, &changed) || changed.Topic != "lines" || changed.Was != 4 || changed.Now != 6 {
		t.Fatal(err)
	}
	if n.State() != lifecycle.NodeError {
		t.Fatal(n.State())
	}
}
