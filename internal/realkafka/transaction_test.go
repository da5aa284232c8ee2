//go:build realkafka

package realkafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/internal/realkafka"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
)

// producer is a transactional producer under test, with its inbox and the token of its last request.
type producer struct {
	*kafka.Producer
	t     *testing.T
	inbox *broker.Inbox
	token uint64
}

func newProducer(t *testing.T, c *realkafka.Cluster, id string, change ...func(*kafka.ProducerConfig)) *producer {
	t.Helper()
	cfg := kafka.ProducerConfig{Config: kafka.Config{Brokers: c.Brokers()}, TransactionalID: id}
	for _, f := range change {
		f(&cfg)
	}
	p := &producer{t: t, inbox: broker.NewInbox()}
	var err error
	if p.Producer, err = kafka.NewProducer(cfg, p.inbox.Put); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Error("close:", err)
		}
	})
	return p
}

// heard waits for the next event of a type and drops others.
func heard[T broker.Event](p *producer) T {
	p.t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	for {
		events := p.inbox.Poll(nil)
		for i, e := range events {
			if v, ok := e.(T); ok {
				for _, rest := range events[i+1:] {
					p.inbox.Put(rest)
				}
				return v
			}
		}
		select {
		case <-p.inbox.Wake():
		case <-deadline.C:
			var what T
			p.t.Fatalf("never: %T", what)
		}
	}
}

func (p *producer) put(to record.TopicPartition, values ...string) {
	p.t.Helper()
	for _, v := range values {
		if err := p.Append(to, &record.Raw{Key: []byte("k"), Value: []byte(v), Timestamp: time.Now().UnixMilli()}); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *producer) flush() broker.Flushed {
	p.t.Helper()
	p.token++
	p.Flush(p.token)
	return heard[broker.Flushed](p)
}

func (p *producer) commit(offsets broker.Offsets, of broker.Membership) broker.TransactionEnded {
	p.t.Helper()
	p.token++
	p.Commit(p.token, offsets, of)
	return heard[broker.TransactionEnded](p)
}

func (p *producer) abort() broker.TransactionAborted {
	p.t.Helper()
	p.token++
	p.Abort(p.token)
	return heard[broker.TransactionAborted](p)
}

// must puts values and commits them.
func (p *producer) must(to record.TopicPartition, values ...string) {
	p.t.Helper()
	p.put(to, values...)
	if f := p.flush(); f.Err != nil || len(f.Refused) > 0 {
		p.t.Fatalf("%+v", f)
	}
	if e := p.commit(at(to, 1), outsider); e.Err != nil {
		p.t.Fatal(e.Err)
	}
}

var outsider = broker.Membership{Group: "g", Generation: -1}

func at(tp record.TopicPartition, offset int64) broker.Offsets {
	return broker.Offsets{tp: {At: offset}}
}

func out(partition int32) record.TopicPartition {
	return record.TopicPartition{Topic: "out", Partition: partition}
}

// committed reads what a read_committed reader sees of a partition.
func committed(t *testing.T, c *realkafka.Cluster, tp record.TopicPartition) (values []string) {
	t.Helper()
	r, err := kafka.NewChangelog(kafka.Config{Brokers: c.Brokers()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ends, err := r.Ends(ctx, []record.TopicPartition{tp})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Read(ctx, tp, ends[tp].Start, ends[tp].HighWatermark, true, func(b broker.Batch) error {
		for _, r := range b.Records {
			values = append(values, string(r.Value))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func newTopic(t *testing.T, c *realkafka.Cluster, name string, configs map[string]string) {
	t.Helper()
	a, err := kafka.NewAdmin(kafka.Config{Brokers: c.Brokers()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := a.CreateTopics(ctx, []kafka.TopicSpec{{Name: name, Partitions: 3, Replication: -1, Configs: configs}}); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("the log has %d records, want %d\n got %.400s\nwant %.400s", len(got), len(want), fmt.Sprint(got), fmt.Sprint(want))
	}
}
