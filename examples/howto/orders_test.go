package howto

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/exposition"
	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/remote"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// The Kafka client's metrics library keeps one ticker for the whole process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

type Order struct {
	Item  string `json:"item"`
	Cents int64  `json:"cents"`
}

var (
	orders  = topology.NewTopic("orders", codec.String, codec.JSON[Order]())
	spent   = topology.NewKeyValueStore("spent", codec.String, codec.Int64)
	perHour = topology.NewWindowStore("per-hour", codec.String, codec.Int64, time.Hour, 48*time.Hour)
)

// build adds up what each customer has spent, and counts the orders of each hour.
func build() (*topology.Topology, error) {
	b := topology.NewBuilder()
	b.DeadLetterTopic("orders-dead")
	b.Always(topology.Deserialization, topology.DeadLetter)

	s := topology.From(b, orders)
	topology.Aggregate(s, spent, func() int64 { return 0 },
		func(_ string, o Order, sum int64) (int64, error) { return sum + o.Cents, nil })
	topology.CountWindows(s, topology.TumblingWindows(time.Hour).WithGrace(time.Minute), perHour)
	return b.Build()
}

// serve runs a node inside a service until ctx ends or the node does.
func serve(ctx context.Context, brokers []string, dir string, ready chan<- *millrace.Node) error {
	t, err := build()
	if err != nil {
		return err // every mistake in the topology, each with the name of what is wrong
	}
	metrics, err := exposition.New()
	if err != nil {
		return err
	}
	node, err := millrace.New("shop", t,
		millrace.WithBrokers(brokers...),
		millrace.WithStateDir(dir),
		millrace.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))),
		millrace.WithMeterProvider(metrics))
	if err != nil {
		return err // every setting that is wrong, and what would be right
	}
	go func() {
		if node.Ready(ctx) == nil {
			ready <- node // every store of its tasks is restored
		}
	}()
	return node.Run(ctx) // nil when ctx has ended and everything is committed and closed
}

// spentBy is what a customer has spent.
func spentBy(ctx context.Context, c query.Client, customer string) (int64, error) {
	cents, found, err := query.Get(ctx, c, spent, customer)
	switch {
	case errors.Is(err, query.ErrRetryable):
		return 0, err // it will be there again: here, or where the failure's Owner says
	case err != nil:
		return 0, err // ask another node, or correct the question: the failure's Retry says which
	case !found:
		return 0, nil // an absent key is no failure
	}
	return cents, nil
}

// patient asks as long as the failures say that it helps, and ctx lasts.
func patient(ctx context.Context, c query.Client, customer string) (int64, error) {
	return query.RetryGet(ctx, query.Policy{}, func(ctx context.Context) (int64, error) {
		return spentBy(ctx, c, customer)
	})
}

// lastDay is how many orders a customer has placed in each hour since a time.
func lastDay(ctx context.Context, c query.Client, customer string, since time.Time) (map[time.Time]int64, error) {
	hours := map[time.Time]int64{}
	for e, err := range query.FetchRange(ctx, c, perHour, customer, since.UnixMilli(), since.Add(24*time.Hour).UnixMilli()) {
		if err != nil {
			return nil, err // the last thing that is yielded; never a shorter result
		}
		hours[time.UnixMilli(e.Key.Start).UTC()] = e.Value
	}
	return hours, nil
}

// fromOutside asks the nodes of the application from another process.
func fromOutside(ctx context.Context, addrs []string, token string, config *tls.Config) (int64, error) {
	c, err := remote.Dial(ctx, addrs, remote.WithToken(token), remote.WithTLS(config))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return patient(ctx, c, "ann")
}

// secured are the options of a node on a cluster with TLS and passwords, that other machines may ask.
func secured(brokers []string, roots, own *tls.Config, password, token string) []millrace.Option {
	return []millrace.Option{
		millrace.WithBrokers(brokers...),
		millrace.WithTLS(roots),
		millrace.WithSASL("SCRAM-SHA-512", "shop", password),
		millrace.WithReplication(3),
		millrace.WithRemote("10.0.0.1:7000", remote.WithTLS(own), remote.WithToken(token)),
	}
}

func TestSpending(t *testing.T) {
	top, err := build()
	if err != nil {
		t.Fatal(err)
	}
	d := millracetest.NewDriver(t, top, millracetest.StartAt(time.Date(2026, 11, 30, 11, 0, 0, 0, time.UTC)))
	millracetest.Send(d, orders, millracetest.R("ann", Order{"book", 1200}), millracetest.R("bob", Order{"pen", 150}))
	d.Advance(time.Hour)
	millracetest.Send(d, orders, millracetest.R("ann", Order{"ink", 300}))
	d.Crash() // what a power cut leaves on the disk, and the changelogs

	if cents, err := spentBy(t.Context(), d, "ann"); cents != 1500 || err != nil {
		t.Errorf("ann has spent %d, %v", cents, err)
	}
	hours, err := lastDay(t.Context(), d, "ann", d.Now().Add(-2*time.Hour))
	if eleven := d.Now().Add(-time.Hour); err != nil || !maps.Equal(hours, map[time.Time]int64{eleven: 1, d.Now(): 1}) {
		t.Errorf("%v, %v", hours, err)
	}
}

// What serve promises, on a cluster in this process.
func TestServe(t *testing.T) {
	cluster := millracetest.NewCluster(t, "shop")
	cluster.CreateTopic("orders", 2)
	cluster.CreateTopic("orders-dead", 1)
	ctx, stop := context.WithCancel(t.Context())
	ready, done := make(chan *millrace.Node, 1), make(chan error, 1)
	go func() { done <- serve(ctx, cluster.Brokers(), t.TempDir(), ready) }()
	node := <-ready
	millracetest.Produce(cluster, orders, millracetest.R("ann", Order{"book", 1200}))
	if err := node.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if cents, err := patient(ctx, node, "ann"); cents != 1200 || err != nil {
		t.Error(cents, err)
	}
	if cents, err := patient(ctx, node, "eve"); cents != 0 || err != nil {
		t.Error(cents, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := spentBy(t.Context(), node, "ann"); !errors.Is(err, query.ErrStreamThreadNotRunning) {
		t.Error(err)
	}
	if _, err := fromOutside(t.Context(), []string{"127.0.0.1:1"}, strings.Repeat("x", 16), &tls.Config{}); !errors.Is(err, query.ErrStreamThreadNotRunning) {
		t.Error(err)
	}
	top, err := build()
	if err != nil {
		t.Fatal(err)
	}
	for token, says := range map[string]string{strings.Repeat("x", 16): "<nil>", "short": "use 16 or more"} {
		err := millrace.Check("shop", top, secured([]string{"k1:9093"}, &tls.Config{}, nil, "secret", token)...)
		if !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("token %s: %v", token, err)
		}
	}
}
