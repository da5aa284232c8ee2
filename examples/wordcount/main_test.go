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

	"github.com/millrace-io/millrace/kafka/embedded"
)

// The Kafka client's metrics library keeps one ticker for the whole process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// poll asks until the answer is want: counting goes on behind the answer to the POST.
func poll(t *testing.T, client *http.Client, url, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	got := ""
	for got != want {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: last answer %q, want %q", url, got, want)
		}
		if r, err := client.Get(url); err == nil {
			b, _ := io.ReadAll(r.Body)
			r.Body.Close()
			got = strings.TrimSpace(string(b))
		}
	}
}

func TestServiceCounts(t *testing.T) {
	broker, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	for name, brokers := range map[string]string{"embedded broker": "", "given brokers": strings.Join(broker.Addrs(), ",")} {
		t.Run(name, func(t *testing.T) { serves(t, brokers) })
	}
}

func serves(t *testing.T, brokers string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	dir := t.TempDir()
	go func() { done <- run(ctx, brokers, dir, l) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	base := "http://" + l.Addr().String()
	r, err := client.Post(base+"/lines", "text/plain", strings.NewReader("the quick the\nTHE lazy\n"))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusNoContent {
		t.Fatal(r.Status)
	}
	poll(t, client, base+"/counts/the", "3")
	poll(t, client, base+"/counts/absent", "0")
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
