package task_test

import (
	"iter"
	"testing"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/topology"
)

// onDisk is a task's view of a real store.
type onDisk struct{ *store.TaskState }

func (s onDisk) Scan(st int, from, to []byte, reverse bool) iter.Seq2[task.Entry, error] {
	return func(yield func(task.Entry, error) bool) {
		for e, err := range s.TaskState.Scan(st, from, to, reverse) {
			if !yield(task.Entry(e), err) {
				return
			}
		}
	}
}

// A windowed count in a task over a real store: 1,000 keys, a record each millisecond, a commit each 10,000 records. Tumbling
// and hopping windows are found by their keys; sliding windows and sessions are looked up in the store for each record.
func BenchmarkWindows(b *testing.B) {
	window := topology.NewWindowStore("s", codec.String, codec.Int64, 10*time.Second, time.Minute)
	sessions := topology.NewSessionStore("s", codec.String, codec.Int64, time.Minute)
	type input = topology.Stream[string, string]
	for _, c := range []struct {
		name string
		kind string
		wire func(input)
	}{
		{"key-value", "key-value", func(s input) { topology.Count(s, topology.NewKeyValueStore("s", codec.String, codec.Int64)) }},
		{"tumbling", "window", func(s input) { topology.CountWindows(s, topology.TumblingWindows(10*time.Second), window) }},
		{"hopping 1 in 5", "window", func(s input) {
			topology.CountWindows(s, topology.HoppingWindows(10*time.Second, 2*time.Second), window)
		}},
		{"on close", "window", func(s input) {
			topology.CountWindows(s, topology.TumblingWindows(10*time.Second), window, topology.OnWindowClose())
		}},
		{"sliding", "window", func(s input) { topology.CountWindows(s, topology.SlidingWindows(10*time.Second), window) }},
		{"session", "session", func(s input) { topology.CountSessions(s, topology.SessionWindows(3*time.Second), sessions) }},
	} {
		b.Run(c.name, func(b *testing.B) { benchWindows(b, c.kind, c.wire) })
	}
}

func benchWindows(b *testing.B, kind string, wire func(topology.Stream[string, string])) {
	builder := topology.NewBuilder()
	wire(topology.From(builder, topology.NewTopic("in", codec.String, codec.String)))
	top, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	dir, err := store.OpenDirectory(b.TempDir(), "app", store.DirectoryOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	state, _, err := dir.OpenTask(store.TaskSpec{Stores: []store.StoreSpec{{Name: "s", Kind: kind, Changelog: "changelog", Retention: time.Minute}}})
	if err != nil {
		b.Fatal(err)
	}
	k := start(b, task.Config{
		Sources: []record.TopicPartition{tp("in", 0)}, State: onDisk{state}, Producer: &sink{}, CacheBytes: 64 << 20,
		Stores: []task.StoreConfig{{Name: "s", Changelog: tp("changelog", 0)}},
		Chain:  func(h topology.Host) (task.Chain, error) { return top.SubTopologies[0].Instantiate(h) },
	})
	const size, perCommit = 1_000, 10
	keys, records, at := benchKeys(1_000), make([]record.Raw, size), int64(0)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for i := range records {
			records[i] = record.Raw{Key: keys[(at+int64(i))*7919%1_000], Value: []byte{}, Timestamp: at + int64(i), Offset: at + int64(i)}
		}
		k.Add(broker.Batch{Source: tp("in", 0), Records: records, From: at, Next: at + size, HighWatermark: at + size})
		at += size
		if taken, err := k.Process(now, size); taken != size || err != nil {
			b.Fatal(taken, err)
		}
		if n++; n%perCommit == 0 {
			commitTo(b, k, state, at)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*size), "ns/record")
}

func commitTo(b *testing.B, k *task.Task, state *store.TaskState, next int64) {
	u, err := k.Prepare(now)
	if err != nil {
		b.Fatal(err)
	}
	k.Committed(u)
	out := &store.Unit{Writes: u.Writes, Position: u.Position, Changelog: []store.StoreOffset{{Store: 0, Next: next}}}
	if err := state.Apply(out); err != nil {
		b.Fatal(err)
	}
	k.Applied(u)
}
