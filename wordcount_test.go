package millrace_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var (
	lines  = topology.NewTopic("lines", codec.String, codec.String)
	words  = topology.NewRepartition("words", codec.String, codec.String)
	counts = topology.NewKeyValueStore("counts", codec.String, codec.Int64)
	out    = topology.NewTopic("word-counts", codec.String, codec.Int64)
)

func wordCount(t testing.TB) *topology.Topology {
	b := topology.NewBuilder()
	split := topology.FlatMap(topology.From(b, lines), func(r record.Record[string, string], emit func(record.Record[string, string]) error) error {
		for _, w := range strings.Fields(r.Value) {
			if err := emit(record.New(w, w, r.Timestamp)); err != nil {
				return err
			}
		}
		return nil
	})
	topology.To(topology.Count(topology.Through(split, words), counts), out)
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// cluster is an embedded broker with the word count's topics.
func cluster(t testing.TB) *embedded.Cluster {
	t.Helper()
	c, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	admin, err := kafka.NewAdmin(kafka.Config{Brokers: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	specs := []kafka.TopicSpec{{Name: "lines", Partitions: 4, Replication: -1}, {Name: "word-counts", Partitions: 4, Replication: -1}}
	if err := admin.CreateTopics(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	return c
}

// feed writes lines and waits until they are in the log.
func feed(t testing.TB, c *embedded.Cluster, texts ...string) {
	t.Helper()
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
	for i, text := range texts {
		r := &record.Raw{Value: []byte(text), Timestamp: int64(i)}
		if err := p.Append(record.TopicPartition{Topic: "lines", Partition: int32(i % 4)}, r); err != nil {
			t.Fatal(err)
		}
	}
	p.Flush(1)
	if f := <-flushed; f.Err != nil || len(f.Refused) > 0 {
		t.Fatal(f.Err, f.Refused)
	}
}

type running struct {
	*millrace.Node
	t    testing.TB
	done chan error
}

// start runs a node and waits until it is RUNNING.
func start(t testing.TB, topo *topology.Topology, opts ...millrace.Option) *running {
	t.Helper()
	n, err := millrace.New("app", topo, opts...)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{n, t, make(chan error, 1)}
	go func() { r.done <- n.Run(context.Background()) }()
	t.Cleanup(r.stop)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := n.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *running) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		r.t.Errorf("shutdown: %v", err)
	}
}

func (r *running) counts(ctx context.Context) map[string]int64 {
	r.t.Helper()
	got := map[string]int64{}
	for e, err := range query.All(ctx, r.Node, counts) {
		if err != nil {
			r.t.Fatal(err)
		}
		got[e.Key] = e.Value
	}
	return got
}

func texts(n int) (lines []string, want map[string]int64) {
	want = map[string]int64{}
	for i := range n {
		line := fmt.Sprintf("the w%d x%d the", i%97, i%13)
		lines = append(lines, line)
		for _, w := range strings.Fields(line) {
			want[w]++
		}
	}
	return lines, want
}

func TestWordCountEndToEnd(t *testing.T) {
	c := cluster(t)
	input, want := texts(5000)
	feed(t, c, input...)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	n := start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()))
	if err := n.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if got := n.counts(ctx); !maps.Equal(got, want) {
		t.Fatalf("%d words, want %d: the=%d, want %d", len(got), len(want), got["the"], want["the"])
	}
	if v, found, err := query.Get(ctx, n.Node, counts, "the"); err != nil || !found || v != want["the"] {
		t.Fatal(v, found, err)
	}
	if _, found, err := query.Get(ctx, n.Node, counts, "absent"); err != nil || found {
		t.Fatal(found, err)
	}
	if !n.OwnsAll() || n.State() != lifecycle.NodeRunning {
		t.Fatal(n.Owned(), n.State())
	}
}

func TestRestartGoesOnFromLocalState(t *testing.T) {
	c := cluster(t)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	input, want := texts(1000)
	for range 3 {
		feed(t, c, input...)
		n := start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(dir))
		if err := n.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		n.stop()
	}
	n := start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()))
	for w := range want {
		want[w] *= 3
	}
	if got := n.counts(ctx); !maps.Equal(got, want) {
		t.Fatalf("restored from the changelog: the=%d, want %d", got["the"], want["the"])
	}
}
