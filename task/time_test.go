package task_test

import (
	"testing"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/topology"
)

// Stream time, and the partition time that a restart brings it back with, follow a topic's timestamp extractor: the
// record's own timestamp counts for nothing then, be it higher or lower.
func TestStreamTimeFollowsTheExtractor(t *testing.T) {
	in := topology.NewTopic("in", codec.String, codec.Int64).WithTimestamp(func(r record.Record[string, int64]) int64 { return r.Value })
	b := topology.NewBuilder()
	topology.Peek(topology.From(b, in), func(record.Record[string, int64]) {})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	state, out := newPorts()
	k := start(t, task.Config{
		Sources: []record.TopicPartition{tp("in", 0)}, State: state, Producer: out,
		Chain: func(h topology.Host) (task.Chain, error) { return top.SubTopologies[0].Instantiate(h) },
	})
	for at, row := range []struct{ own, extracted, want int64 }{{1_000, 5, 5}, {2, 70, 70}, {9_000, 60, 70}, {100, -1, 70}} {
		value, _ := codec.Int64.Encode(nil, row.extracted)
		r := record.Raw{Key: []byte("k"), Value: value, Timestamp: row.own, Offset: int64(at)}
		k.Add(broker.Batch{Source: tp("in", 0), Records: []record.Raw{r}, From: int64(at), Next: int64(at) + 1, HighWatermark: 4})
		if _, err := k.Process(now, 1); err != nil {
			t.Fatal(err)
		}
		if got := task.StreamTime(k); got != row.want {
			t.Errorf("after %+v stream time is %d", row, got)
		}
	}
	u, err := k.Prepare(now)
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := task.ParseMetadata(u.Offsets[tp("in", 0)].Metadata); !ok || m.PartitionTime != 70 {
		t.Errorf("committed with %v", m)
	}
}

// What comes and goes between two commits is in neither the changelog nor the unit, and is not emitted. What was there
// before leaves its deletion, whichever way the processor got hold of it.
func TestWhatCameAndWentLeavesNothing(t *testing.T) {
	s := &script{}
	state, out := newPorts()
	state.Put(0, "row", []byte("v"), 1)
	k := start(t, config(s, state, out))
	var emitted []string
	s.flush = func() error {
		return s.host.Store("s0").Changed(func(c *topology.Cell) error {
			emitted = append(emitted, c.Key)
			return nil
		})
	}
	within(t, k, s, func() {
		put(t, s, "s0", "brief", "v", 5)
		c, _ := s.host.Store("s0").Cell([]byte("brief"))
		if err := s.host.Store("s0").Set(c, nil, 6); err != nil {
			t.Error(err)
		}
		for c, err := range s.host.Store("s0").Range([]byte("row"), nil, false) {
			for _, value := range [][]byte{[]byte("w"), nil} {
				if err != nil || s.host.Store("s0").Set(c, value, 7) != nil {
					t.Error(err)
				}
			}
		}
		if got := s.host.Store("s0").Time(); got != 7 {
			t.Errorf("time %d", got)
		}
	})
	commit(t, k, state)
	if log := out.Log[tp("s0-changelog", 0)]; len(log) != 1 || string(log[0].Key) != "row" || log[0].Value != nil {
		t.Errorf("%+v", log)
	}
	if len(emitted) != 1 || emitted[0] != "row" {
		t.Errorf("emitted %q", emitted)
	}
	if err := task.Audit(k); err != nil {
		t.Error(err)
	}
}
