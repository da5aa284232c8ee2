package millracetest

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// Produce writes records to a topic of the cluster and waits until they are in its log. A record that is not At a time has
// the clock's.
func Produce[K, V any](c *Cluster, to topology.Topic[K, V], records ...Record[K, V]) {
	c.tb.Helper()
	ctx, cancel := patient()
	defer cancel()
	infos, err := c.admin.Topics(ctx, to.Name())
	n := infos[to.Name()].Partitions
	if err != nil || n == 0 {
		c.tb.Fatalf("millracetest: topic %q has %d partitions: create it first (%v)", to.Name(), n, err)
	}
	events := make(chan broker.Flushed, 1)
	p, err := kafka.NewProducer(kafka.ProducerConfig{Config: kafka.Config{Brokers: c.Brokers()}}, func(e broker.Event) {
		if f, ok := e.(broker.Flushed); ok {
			events <- f
		}
	})
	if err != nil {
		c.tb.Fatalf("millracetest: %v", err)
	}
	defer func() { _ = p.Close(context.Background()) }()
	for i, r := range records {
		raw, err := encode(to, r)
		if !r.timed {
			raw.Timestamp = time.Now().UnixMilli()
		}
		if err == nil {
			err = p.Append(record.TopicPartition{Topic: to.Name(), Partition: r.into(raw, n)}, &raw)
		}
		if err != nil {
			c.tb.Fatalf("millracetest: record %d for %s: %v", i, to.Name(), err)
		}
	}
	p.Flush(1)
	select {
	case f := <-events:
		if f.Err != nil || len(f.Refused) > 0 {
			c.tb.Fatalf("millracetest: writing to %s: %v, refused: %v", to.Name(), f.Err, f.Refused)
		}
	case <-ctx.Done():
		c.tb.Fatalf("millracetest: writing to %s takes longer than %s", to.Name(), Patience)
	}
}

// Consume gives everything that is committed in a topic of the cluster, from its beginning, by partition and in the order of
// each.
func Consume[K, V any](c *Cluster, from topology.Topic[K, V]) (all []Output[K, V]) {
	c.tb.Helper()
	ctx, cancel := patient()
	defer cancel()
	infos, err := c.admin.Topics(ctx, from.Name())
	if err != nil {
		c.tb.Fatalf("millracetest: topic %q: %v", from.Name(), err)
	}
	for p := range infos[from.Name()].Partitions {
		tp := record.TopicPartition{Topic: from.Name(), Partition: p}
		raw, _, err := c.committed(ctx, tp)
		if err != nil {
			c.tb.Fatalf("millracetest: reading %s: %v", tp, err)
		}
		for _, r := range raw {
			decoded, err := decode(from, r)
			if err != nil {
				c.tb.Fatalf("millracetest: %s offset %d: %v", tp, r.Offset, err)
			}
			all = append(all, Output[K, V]{decoded, p, r.Offset})
		}
	}
	return all
}

// committed are the records that a reader of committed ones finds, and where the log starts.
func (c *Cluster) committed(ctx context.Context, tp record.TopicPartition) (all []record.Raw, start int64, err error) {
	r, err := kafka.NewChangelog(kafka.Config{Brokers: c.Brokers()})
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	ends, err := r.Ends(ctx, []record.TopicPartition{tp})
	if err != nil {
		return nil, 0, err
	}
	err = r.Read(ctx, tp, ends[tp].Start, ends[tp].HighWatermark, true, func(b broker.Batch) error {
		for _, rec := range b.Records {
			all = append(all, copied(&rec))
		}
		return nil
	})
	return all, ends[tp].Start, err
}
