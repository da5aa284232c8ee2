package millrace_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/record"
)

// These cases are run under both guarantees: markers and last stable offsets are where exactly once differs.
func bothGuarantees(t *testing.T, run func(t *testing.T, c *embedded.Cluster, opts ...millrace.Option)) {
	for _, g := range []millrace.Guarantee{millrace.ExactlyOnce, millrace.AtLeastOnce} {
		t.Run(g.String(), func(t *testing.T) {
			c := cluster(t)
			run(t, c, millrace.WithBrokers(c.Addrs()...), millrace.WithGuarantee(g))
		})
	}
}

// emptied deletes every record of a topic of four partitions: log start = log end > 0.
func emptied(t *testing.T, c *embedded.Cluster, topic string) {
	t.Helper()
	for p := range int32(4) {
		if err := c.Kfake().DeleteRecords(topic, p, -1); err != nil {
			t.Fatal(err)
		}
		if i := c.Kfake().PartitionInfo(topic, p); i.LogStartOffset != i.HighWatermark || i.HighWatermark == 0 {
			t.Fatalf("%s-%d holds %d to %d", topic, p, i.LogStartOffset, i.HighWatermark)
		}
	}
}

func feedKeys(t *testing.T, c *embedded.Cluster, n int) {
	t.Helper()
	w := newWriter(t, c, "")
	for i := range n {
		w.put(record.TopicPartition{Topic: "lines", Partition: int32(i % 4)}, line(fmt.Sprint(i)))
	}
	w.flush()
}

func TestH7EmptiedChangelogIsAnEmptyStore(t *testing.T) {
	bothGuarantees(t, func(t *testing.T, c *embedded.Cluster, opts ...millrace.Option) {
		dir := t.TempDir()
		n := start(t, keyed(t), append(opts, millrace.WithStateDir(dir))...)
		feedKeys(t, c, 40)
		if err := n.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.stop()
		emptied(t, c, changelog)
		n = start(t, keyed(t), append(opts, millrace.WithStateDir(t.TempDir()))...)
		if got := n.counts(t.Context()); len(got) != 0 {
			t.Error("restored from an empty log:", got)
		}
		feedKeys(t, c, 8)
		if err := n.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := n.counts(t.Context()); len(got) != 8 || got["7"] != 1 {
			t.Error(got)
		}
	})
}

func TestH8NothingNewInTheChangelog(t *testing.T) {
	bothGuarantees(t, func(t *testing.T, c *embedded.Cluster, opts ...millrace.Option) {
		opts = append(opts, millrace.WithStateDir(t.TempDir()))
		feedKeys(t, c, 40)
		for i := range int64(10) {
			n := start(t, keyed(t), opts...)
			feedKeys(t, c, 4)
			if err := n.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := n.counts(t.Context()); len(got) != 40 || got["0"] != i+2 || got["39"] != 1 {
				t.Fatalf("start %d: %d keys, 0=%d, 39=%d", i+1, len(got), got["0"], got["39"])
			}
			n.stop()
		}
	})
}

func TestH15OnePartitionFallsOutOfItsLog(t *testing.T) {
	bothGuarantees(t, func(t *testing.T, c *embedded.Cluster, opts ...millrace.Option) {
		dir := t.TempDir()
		var processed atomic.Int64
		n := start(t, through(t, &processed), append(opts, millrace.WithStateDir(dir))...)
		feedKeys(t, c, 40)
		if err := n.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.stop()
		feedKeys(t, c, 40)
		if err := c.Kfake().DeleteRecords("lines", 0, 15); err != nil {
			t.Fatal(err)
		}
		n = start(t, through(t, &processed), append(opts, millrace.WithStateDir(dir))...)
		if err := n.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Ten records of the first feed from each partition; of the second all, but the five that are gone.
		if got := len(visible(t, c, "word-counts")); got != 75 {
			t.Errorf("%d records came out, not 75", got)
		}
		for _, th := range n.Threads() {
			if th.Epoch != 1 {
				t.Errorf("%s was restarted: %v", th.Name, th.Cause)
			}
		}
	})
}
