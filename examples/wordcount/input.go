package main

import (
	"bufio"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/record"
)

// input writes the lines of requests into the source topic. The mutex makes the request that holds it the producer's
// owner.
type input struct {
	mu       sync.Mutex
	producer *kafka.Producer
	flushed  chan broker.Flushed
	token    uint64
}

// openInput makes the topics if they are missing.
func openInput(ctx context.Context, brokers []string) (*input, error) {
	cfg := kafka.Config{Brokers: brokers}
	admin, err := kafka.NewAdmin(cfg)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if err := admin.CreateTopics(ctx, []kafka.TopicSpec{{Name: lines.Name(), Partitions: 4, Replication: -1}, {Name: totals.Name(), Partitions: 4, Replication: -1}}); err != nil {
		return nil, err
	}
	in := &input{flushed: make(chan broker.Flushed, 1)}
	in.producer, err = kafka.NewProducer(kafka.ProducerConfig{Config: cfg}, func(e broker.Event) {
		if f, ok := e.(broker.Flushed); ok {
			in.flushed <- f
		}
	})
	return in, err
}

func (in *input) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = in.producer.Close(ctx)
}

// ServeHTTP answers 204 when every line of the body is in the log.
func (in *input) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in.mu.Lock()
	defer in.mu.Unlock()
	body := bufio.NewScanner(r.Body)
	var err error
	for body.Scan() && err == nil {
		err = in.producer.Append(record.TopicPartition{Topic: lines.Name()}, &record.Raw{Value: body.Bytes(), Timestamp: time.Now().UnixMilli()})
	}
	in.token++
	in.producer.Flush(in.token)
	f := <-in.flushed
	if err != nil || body.Err() != nil || f.Err != nil || len(f.Refused) > 0 {
		http.Error(w, "not every line was taken", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
