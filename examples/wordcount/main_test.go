package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/record"
)

// The Kafka client's metrics library keeps one ticker for the whole process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// poll asks until the answer is want: counting goes on meanwhile.
func poll(t *testing.T, client *http.Client, url, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	got := ""
	for !strings.HasPrefix(got, want) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: last answer %q, want one that begins with %q", url, got, want)
		}
		if r, err := client.Get(url); err == nil {
			b, _ := io.ReadAll(r.Body)
			r.Body.Close()
			got = strings.TrimSpace(string(b))
		}
	}
}

// feed makes the topic and writes lines into it.
func feed(t *testing.T, addrs []string, topic string, lines ...string) {
	t.Helper()
	cfg := kafka.Config{Brokers: addrs}
	admin, err := kafka.NewAdmin(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.CreateTopics(t.Context(), []kafka.TopicSpec{{Name: topic, Partitions: 4, Replication: -1}}); err != nil {
		t.Fatal(err)
	}
	flushed := make(chan broker.Flushed, 1)
	p, err := kafka.NewProducer(kafka.ProducerConfig{Config: cfg}, func(e broker.Event) {
		if f, ok := e.(broker.Flushed); ok {
			flushed <- f
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	for i, line := range lines {
		if err := p.Append(record.TopicPartition{Topic: topic, Partition: int32(i % 4)}, &record.Raw{Value: []byte(line)}); err != nil {
			t.Fatal(err)
		}
	}
	p.Flush(1)
	if f := <-flushed; f.Err != nil || len(f.Refused) > 0 {
		t.Fatal(f.Err, f.Refused)
	}
}

func TestServiceCounts(t *testing.T) {
	c, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	feed(t, c.Addrs(), lines.Name(), "the quick the", "", "THE lazy")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, l, millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir())) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	base := "http://" + l.Addr().String()
	poll(t, client, base+"/counts/the", "3")
	poll(t, client, base+"/counts/absent", "0")
	poll(t, client, base+"/stores/counts/keys/quick", `{"found":true,"key":"quick","value":"1","partition":1,"position":[{`)
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
