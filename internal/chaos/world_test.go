package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/chaos/oracle"
	"github.com/millrace-io/millrace/internal/chaos/wire"
	"github.com/millrace-io/millrace/kafka/embedded"
)

// quiet makes a world without faults: one node in this process, on the embedded broker.
func quiet(t *testing.T) oracle.World {
	t.Helper()
	broker, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r := &run{settings: settings{guarantee: millrace.AtLeastOnce, brokers: members}, client: wire.New(broker.Addrs()),
		feeder: newFeeder(broker.Addrs(), 1, 2000), observer: newObserver(broker.Addrs())}
	defer r.client.Close()
	if err := r.createTopics(broker.Addrs()); err != nil {
		t.Fatal(err)
	}
	top, err := build()
	if err != nil {
		t.Fatal(err)
	}
	node, err := millrace.New(application, top, millrace.WithBrokers(broker.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithGuarantee(r.guarantee))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Run(context.Background()) }()
	defer func() {
		if err := errors.Join(node.Shutdown(ctx), <-ended); err != nil {
			t.Error(err)
		}
	}()
	if err := node.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	r.feeder.start(ctx)
	r.observer.start(ctx)
	if err := r.await(ctx, "some inputs", 5*time.Minute, func(context.Context) error {
		if r.feeder.fed.Load() < 1000 {
			return errors.New("not yet")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return r.settle(t, ctx, node)
}

// settle does what gather does, with a node that is here.
func (r *run) settle(t *testing.T, ctx context.Context, node *millrace.Node) oracle.World {
	t.Helper()
	if err := r.feeder.stop(); err != nil {
		t.Fatal(err)
	}
	if err := node.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if s := statusOf(node); s.State != "RUNNING" || len(s.Owned) != tasks || len(s.Threads) == 0 {
		t.Errorf("the node says of itself: %+v", s)
	}
	stores, err := dump(ctx, node)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.observer.finish(); err != nil {
		t.Fatal(err)
	}
	w, err := r.world(ctx, stores)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Without faults at least once is exactly once. The same world with a record more in the books, or a shard less, is
// refused, so what is compared is what the brokers and the stores really hold.
func TestAQuietWorldIsRight(t *testing.T) {
	w := quiet(t)
	w.Guarantee = oracle.ExactlyOnce
	if found := oracle.Check(w); len(found) > 0 {
		t.Fatalf("%d violations: %v", len(found), found[0])
	}
	for _, j := range w.Jobs {
		if len(j.Inputs) < 300 || len(j.Outputs) < len(j.Inputs) || len(j.Stores) != partitions || len(j.Changelog) != partitions {
			t.Errorf("%s: %d inputs, %d outputs, %d shards, %d changelogs", j.Name, len(j.Inputs), len(j.Outputs), len(j.Stores), len(j.Changelog))
		}
	}
	if len(w.Offsets) != tasks {
		t.Errorf("%d offsets", len(w.Offsets))
	}
	w.Jobs[0].Inputs = w.Jobs[0].Inputs[1:]
	w.Jobs[1].Stores = w.Jobs[1].Stores[1:]
	rules := map[oracle.Rule]bool{}
	for _, v := range oracle.Check(w) {
		rules[v.Rule] = true
	}
	for _, r := range []oracle.Rule{oracle.InputChanged, oracle.Invented, oracle.Unserved, oracle.StoreOver} {
		if !rules[r] {
			t.Errorf("no %s among %v", r, rules)
		}
	}
}
