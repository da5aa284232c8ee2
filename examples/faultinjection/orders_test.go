package faultinjection

import (
	"context"
	"errors"
	"testing"

	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var (
	orders = topology.NewTopic("orders", codec.String, codec.String)
	counts = topology.NewKeyValueStore("orders-by-customer", codec.String, codec.Int64)
)

func TestOrdersSurviveATreeThatIsBroken(t *testing.T) {
	b := topology.NewBuilder()
	topology.Count(topology.From(b, orders), counts)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	cluster := millracetest.NewCluster(t, "shop")
	cluster.CreateTopic("orders", 2)
	node := cluster.Start(top)

	// A commit fails after Kafka has it, and a processor panics.
	node.Faults.At(fault.CommitEnd).Error(errors.New("the process was about to write it down"))
	node.Faults.At(fault.TaskProcess).Nth(3).Panic("a bug")
	millracetest.Produce(cluster, orders, millracetest.R("ann", "book"), millracetest.R("bob", "pen"), millracetest.R("ann", "ink"))
	node.Faults.AwaitFired(t, fault.CommitEnd, 1)
	node.Faults.AwaitFired(t, fault.TaskProcess, 1)
	node.Drain()

	// A thread was replaced at each, and never left the group: RUNNING, REBALANCING, RUNNING.
	replaced := func() (n uint64) {
		for _, thread := range node.Threads() {
			n += thread.Epoch - 1
		}
		return n
	}
	node.Await("both were replaced", func() bool { return replaced() >= 2 })
	node.AwaitReady()
	saw := func(thread string) bool {
		return node.Probe().Saw(thread, lifecycle.ThreadRunning, lifecycle.ThreadRebalancing, lifecycle.ThreadRunning)
	}
	node.Await("a thread was replaced", func() bool { return saw("thread-1") || saw("thread-2") })

	// Each order counted once, whatever broke.
	ctx := context.Background()
	if n, _, err := query.Get(ctx, node, counts, "ann"); n != 2 || err != nil {
		t.Errorf("ann has %d orders, %v\n%s", n, err, node.Probe())
	}
	node.Stop()
	if _, _, err := query.Get(ctx, node, counts, "ann"); !errors.Is(err, query.ErrStreamThreadNotRunning) {
		t.Errorf("a stopped node answers with %v", err)
	}
}
