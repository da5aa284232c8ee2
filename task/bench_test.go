package task_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/topology"
)

// sink is a producer that keeps nothing, so that a benchmark measures the task.
type sink struct{ records, bytes int64 }

func (s *sink) Append(_ record.TopicPartition, r *record.Raw) error {
	s.records++
	s.bytes += int64(len(r.Key) + len(r.Value))
	return nil
}
func (s *sink) Partitions(string) (int32, error) { return 4, nil }

func benchKeys(n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "user-%08d", i)
	}
	return keys
}

func benchCounter(b testing.TB, p task.Producer) (*task.Task, *counter) {
	state, _ := newPorts()
	var c *counter
	cfg := task.Config{
		Sources: []record.TopicPartition{tp("in", 0)}, State: state, Producer: p, CacheBytes: 256 << 20,
		Stores: []task.StoreConfig{{Name: "counts", Changelog: tp("counts-changelog", 0)}},
		Chain: func(h topology.Host) (task.Chain, error) {
			c = &counter{counts: h.Store("counts")}
			return c, nil
		},
	}
	k := start(b, cfg)
	return k, c
}

// Cell and Set of a key that is in memory, among so many.
func BenchmarkOverlay(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, c := benchCounter(b, &sink{})
			keys := benchKeys(n)
			rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			value := make([]byte, 8)
			touch := func(key []byte) {
				cell, err := c.counts.Cell(key)
				if err == nil {
					err = c.counts.Set(cell, value, 1)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			for _, k := range keys {
				touch(k)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				touch(keys[i%n])
			}
		})
	}
}

// A keyed count through Add and Process: batches of 1,000 records over 10,000 keys, a commit each 100,000 records.
func BenchmarkProcess(b *testing.B) {
	const size = 1_000
	k, _ := benchCounter(b, &sink{})
	keys, random := benchKeys(10_000), rand.New(rand.NewPCG(1, 2))
	records := make([]record.Raw, 100*size)
	for i := range records {
		records[i] = record.Raw{Key: keys[random.IntN(len(keys))], Timestamp: int64(i)}
	}
	at := int64(0)
	round := func() {
		for part := 0; part < len(records); part += size {
			batch := records[part : part+size]
			for i := range batch {
				batch[i].Offset = at + int64(i)
			}
			k.Add(broker.Batch{Source: tp("in", 0), Records: batch, From: at, Next: at + size, HighWatermark: at + size})
			at += size
			if n, err := k.Process(now, size); n != size || err != nil {
				b.Fatal(n, err)
			}
		}
		u, err := k.Prepare(now)
		if err != nil {
			b.Fatal(err)
		}
		k.Committed(u)
		k.Applied(u)
	}
	round()
	b.ReportAllocs()
	rounds := 0
	for b.Loop() {
		round()
		rounds++
	}
	perRecord := float64(b.Elapsed().Nanoseconds()) / float64(rounds*len(records))
	b.ReportMetric(perRecord, "ns/record")
}

// A whole commit of so many dirty keys, without Kafka and Pebble: sort, copy, changelog records, and cleaning.
func BenchmarkCommitBatch(b *testing.B) {
	for _, n := range []int{1_000, 60_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			out := &sink{}
			k, c := benchCounter(b, out)
			keys := benchKeys(n)
			rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for _, key := range keys {
					if err := c.process(&record.Raw{Key: key}); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				u, err := k.Prepare(now)
				if err != nil {
					b.Fatal(err)
				}
				k.Committed(u)
				k.Applied(u)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(out.records), "ns/key")
		})
	}
}

// The steady state allocates nothing per record: no record, cell, value or queue node.
func TestHotKeyAllocatesNothing(t *testing.T) {
	k, _ := benchCounter(t, &sink{})
	keys := benchKeys(100)
	records := make([]record.Raw, 1_000)
	at := int64(0)
	round := func() {
		for i := range records {
			records[i] = record.Raw{Key: keys[i%len(keys)], Timestamp: at, Offset: at + int64(i)}
		}
		k.Add(broker.Batch{Source: tp("in", 0), Records: records, From: at, Next: at + 1_000, HighWatermark: at + 1_000})
		at += 1_000
		if n, err := k.Process(now, 1_000); n != 1_000 || err != nil {
			t.Fatal(n, err)
		}
	}
	round()
	if allocs := testing.AllocsPerRun(20, round); allocs > 1 {
		t.Errorf("%v allocations in 1,000 records", allocs)
	}
}
