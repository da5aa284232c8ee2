package kafka_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/record"
)

// BenchmarkTransactionAppend is BenchmarkProducerAppend with a transaction every 20,000 records: the price of exactly-once
// per record, the embedded brokers' work in this process included.
func BenchmarkTransactionAppend(b *testing.B) {
	c, err := embedded.Start(kfake.SeedTopics(4, "t"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	in := broker.NewInbox()
	p, err := kafka.NewProducer(kafka.ProducerConfig{Config: kafka.Config{Brokers: c.Addrs()}, TransactionalID: "bench"}, in.Put)
	if err != nil {
		b.Fatal(err)
	}
	r := record.Raw{Key: make([]byte, 10), Value: make([]byte, 100)}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := p.Append(tp(int32(i%4)), &r); err != nil {
			b.Fatal(err)
		}
		if i%20_000 != 0 {
			continue
		}
		p.Flush(uint64(i))
		for ended := false; !ended; {
			<-in.Wake()
			for _, e := range in.Poll(nil) {
				switch e := e.(type) {
				case broker.Flushed:
					if e.Err != nil {
						b.Fatal(e.Err)
					}
					p.Commit(e.Token, at(int64(i)), outsider)
				case broker.TransactionEnded:
					if e.Err != nil {
						b.Fatal(e.Err)
					}
					ended = true
				}
			}
		}
	}
	if err := p.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}
