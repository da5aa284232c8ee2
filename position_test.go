package millrace_test

import (
	"testing"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"

	"github.com/millrace-io/millrace"
)

// A partition that is restored elsewhere is at least where it was, records that changed nothing included.
func TestPositionsDoNotGoBackWhenAPartitionMoves(t *testing.T) {
	s := newStage(t)
	b := topology.NewBuilder()
	topology.Count(topology.Filter(topology.From(b, lines), func(r record.Record[string, string]) bool { return r.Value != "dropped" }), counts)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	at := func(n *running) int64 {
		t.Helper()
		var tracker query.Tracker
		if _, _, err := query.Get(s.ctx, n.Node, counts, keysOf(0)[0], query.Track(&tracker)); err != nil {
			t.Fatal(err)
		}
		return tracker.Position()[record.TopicPartition{Topic: "lines"}]
	}
	one := start(t, topo, millrace.WithBrokers(s.c.Addrs()...), millrace.WithStateDir(t.TempDir()))
	s.fill(0)
	if err := one.Drain(s.ctx); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.say(0, "dropped")
	}
	if err := one.Drain(s.ctx); err != nil {
		t.Fatal(err)
	}
	before := at(one)
	one.stop()
	two := start(t, topo, millrace.WithBrokers(s.c.Addrs()...), millrace.WithStateDir(t.TempDir()))
	if after := at(two); after < before {
		t.Errorf("it was at %d and is at %d", before, after)
	}
}
