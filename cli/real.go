package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/exposition"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// real is the world outside of tests.
type real struct{}

var _ world = real{}

// Embed implements world.
func (real) Embed() ([]string, func() error, error) {
	c, err := embedded.Start()
	if err != nil {
		return nil, nil, err
	}
	return c.Addrs(), func() error { c.Close(); return nil }, nil
}

// Connect implements world.
func (real) Connect(ctx context.Context, cfg kafka.Config) (cluster, error) {
	if err := kafka.Reach(ctx, cfg); err != nil {
		return nil, err
	}
	admin, err := kafka.NewAdmin(cfg)
	if err != nil {
		return nil, err
	}
	return &realCluster{cfg, admin}, nil
}

// Node implements world.
func (real) Node(appID string, t *topology.Topology, s nodeSettings) (node, error) {
	opts, err := s.node()
	if err != nil {
		return nil, err
	}
	metrics, err := exposition.New()
	if err != nil {
		return nil, err
	}
	n, err := millrace.New(appID, t, append(opts, millrace.WithMeterProvider(metrics))...)
	if err != nil {
		return nil, &UsageError{Detail: err.Error(), Cause: err}
	}
	return &realNode{n, filepath.Join(s.stateDir, appID, "process")}, nil
}

// realCluster is a cluster for the feed.
type realCluster struct {
	cfg   kafka.Config
	admin *kafka.Admin
}

// Close implements cluster.
func (c *realCluster) Close() error { c.admin.Close(); return nil }

// Create implements cluster.
func (c *realCluster) Create(ctx context.Context, topics []string, partitions int32) ([]string, error) {
	have, err := c.admin.Topics(ctx, topics...)
	if err != nil {
		return nil, err
	}
	var specs []kafka.TopicSpec
	for _, t := range topics {
		if _, ok := have[t]; !ok {
			specs = append(specs, kafka.TopicSpec{Name: t, Partitions: partitions, Replication: -1})
		}
	}
	return c.admin.CreateMissing(ctx, specs)
}

// Delete implements cluster.
func (c *realCluster) Delete(ctx context.Context, topics []string) error {
	return c.admin.DeleteTopics(ctx, topics...)
}

// Tails implements cluster.
func (c *realCluster) Tails(ctx context.Context, topic string) ([]*record.Raw, error) {
	infos, err := c.admin.Topics(ctx, topic)
	if err != nil {
		return nil, err
	}
	var tps []record.TopicPartition
	for i := range infos[topic].Partitions {
		tps = append(tps, record.TopicPartition{Topic: topic, Partition: i})
	}
	ends, err := c.admin.Ends(ctx, tps, false)
	if err != nil {
		return nil, err
	}
	reader, err := kafka.NewChangelog(c.cfg)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	if len(tps) == 0 {
		return nil, fmt.Errorf("there is no topic %s", topic)
	}
	tails := make([]*record.Raw, len(tps))
	for i, tp := range tps {
		if tails[i], err = tail(ctx, reader, tp, ends[tp]); err != nil {
			return nil, err
		}
	}
	return tails, nil
}

// tail is the last record of a partition, nil if there is none. The offset before the end may be a marker or compacted
// away, so it looks further and further back.
func tail(ctx context.Context, reader *kafka.Changelog, tp record.TopicPartition, all kafka.Range) (last *record.Raw, err error) {
	for back := int64(1); last == nil && all.HighWatermark > all.Start; back *= 64 {
		from := max(all.Start, all.HighWatermark-back)
		err := reader.Read(ctx, tp, from, all.HighWatermark, false, func(b broker.Batch) error {
			if n := len(b.Records); n > 0 {
				last = marks(b.Records[n-1])
			}
			return nil
		})
		if err != nil || from == all.Start {
			return last, err
		}
	}
	return last, nil
}

// marks copies the headers and the offset out of a batch, whose memory is used again.
func marks(r record.Raw) *record.Raw {
	headers := make(record.Headers, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = record.Header{Key: strings.Clone(h.Key), Value: bytes.Clone(h.Value)}
	}
	return &record.Raw{Offset: r.Offset, Timestamp: r.Timestamp, Headers: headers}
}

// Sink implements cluster.
func (c *realCluster) Sink(topic string) (sink, error) {
	s := &realSink{topic: topic, flushed: make(chan broker.Flushed, 1)}
	var err error
	s.producer, err = kafka.NewProducer(kafka.ProducerConfig{Config: c.cfg, MaxRecordBytes: 1<<20 - 1<<10}, func(e broker.Event) {
		if f, ok := e.(broker.Flushed); ok {
			s.flushed <- f
		}
	})
	return s, err
}

// realSink writes to one topic.
type realSink struct {
	topic    string
	producer *kafka.Producer
	flushed  chan broker.Flushed
	appended uint64
}

const (
	sinkBuffer = 16 << 20 // bytes that may wait for acknowledgements
	tickEvery  = 1024     // records between looks at the clock
)

// Append implements sink.
func (s *realSink) Append(ctx context.Context, partition int32, r *record.Raw) error {
	if s.appended%tickEvery == 0 {
		if err := s.room(ctx); err != nil {
			return err
		}
	}
	s.appended++
	return s.producer.Append(record.TopicPartition{Topic: s.topic, Partition: partition}, r)
}

// room waits while too much is unacknowledged.
func (s *realSink) room(ctx context.Context) error {
	s.producer.Tick(time.Now())
	if s.producer.Buffered() < sinkBuffer {
		return nil
	}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for s.producer.Buffered() >= sinkBuffer {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Flush implements sink.
func (s *realSink) Flush(ctx context.Context) error {
	s.producer.Flush(s.appended)
	select {
	case f := <-s.flushed:
		var errs []error
		if f.Err != nil {
			errs = append(errs, f.Err)
		}
		for _, e := range f.Refused {
			errs = append(errs, e.Err)
		}
		return errors.Join(errs...)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close implements sink.
func (s *realSink) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.producer.Close(ctx)
}

// realNode is a node for the verbs.
type realNode struct {
	*millrace.Node
	// processFile is where the state directory keeps its process id.
	processFile string
}

// Shutdown implements node.
func (n *realNode) Shutdown(ctx context.Context, leave bool) error {
	return n.Node.Shutdown(ctx, millrace.Leave(leave))
}

// Watch implements node.
func (n *realNode) Watch(ctx context.Context) iter.Seq[stateChange] {
	return func(yield func(stateChange) bool) {
		for c := range n.Node.Watch(ctx) {
			if !yield(stateChange{thread: c.Thread, old: c.Old, new: c.New, cause: c.Cause}) {
				return
			}
		}
	}
}

// Counts implements node.
func (n *realNode) Counts(ctx context.Context, store topology.KeyValueStore[string, int64]) iter.Seq2[count, error] {
	return func(yield func(count, error) bool) {
		for e, err := range query.All(ctx, n.Node, store) {
			if err != nil {
				err = fmt.Errorf("the counts cannot be read: %w", err)
			}
			if !yield(count{e.Key, e.Value}, err) {
				return
			}
		}
	}
}
