package topology_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	. "github.com/millrace-io/millrace/topology"
)

// chain is one source's input with 1000 keys that its stores know already. Outputs count as sent and keep nothing.
func chain(t testing.TB, wire func(*Builder)) (func(*record.Raw) error, *Instance, []record.Raw) {
	t.Helper()
	b := NewBuilder()
	wire(b)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	host := newMemory()
	for _, name := range []string{"numbers", "out"} {
		host.outputs[name] = &memoryOutput{m: host, mute: true}
	}
	inst, err := top.Bind("app").SubTopologies[0].Instantiate(host)
	if err != nil {
		t.Fatal(err)
	}
	if err := inst.Init(); err != nil {
		t.Fatal(err)
	}
	f, err := inst.Source("in")
	if err != nil {
		t.Fatal(err)
	}
	raws := make([]record.Raw, 1000)
	for i := range raws {
		raws[i] = record.Raw{Key: fmt.Appendf(nil, "key-%d", i), Value: []byte("some value"), Timestamp: int64(i)}
		if err := f(&raws[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := inst.Flush(); err != nil {
		t.Fatal(err)
	}
	return f, inst, raws
}

var chains = map[string]func(*Builder){
	"pass through":       func(b *Builder) { To(From(b, in), out) },
	"keyed count":        func(b *Builder) { To(Count(From(b, in), counts), numbers) },
	"count every update": func(b *Builder) { To(Count(From(b, in), counts, EveryUpdate()), numbers) },
	"aggregate": func(b *Builder) {
		To(Aggregate(From(b, in), counts, func() int64 { return 0 }, func(_, v string, a int64) (int64, error) { return a + int64(len(v)), nil }), numbers)
	},
	"reduce": func(b *Builder) {
		lengths := NewKeyValueStore("lengths", codec.String, codec.Int64)
		s := MapValues(From(b, in), func(v string) int64 { return int64(len(v)) })
		To(Reduce(s, lengths, func(a, v int64) (int64, error) { return a + v, nil }), numbers)
	},
	"operators": func(b *Builder) {
		s := Filter(SelectKey(From(b, in), func(r text) string { return r.Value }), func(r text) bool { return r.Key != "" })
		f := FlatMap(s, func(r text, emit func(text) error) error {
			if err := emit(r); err != nil {
				return err
			}
			return emit(r)
		})
		To(Merge(f, MapValues(f, func(v string) string { return v[1:] })), out, WithPartitioner(func(string, string, int32) int32 { return 1 }))
	},
	"tumbling count": func(b *Builder) {
		CountWindows(From(b, in), TumblingWindows(time.Hour), NewWindowStore("w", codec.String, codec.Int64, time.Hour, 2*time.Hour))
	},
	"hopping count": func(b *Builder) {
		CountWindows(From(b, in), HoppingWindows(time.Hour, 20*time.Minute), NewWindowStore("w", codec.String, codec.Int64, time.Hour, 2*time.Hour))
	},
	"final count": func(b *Builder) {
		CountWindows(From(b, in), TumblingWindows(time.Hour), NewWindowStore("w", codec.String, codec.Int64, time.Hour, 2*time.Hour), OnWindowClose())
	},
	"hand-written count": func(b *Builder) {
		To(Process(From(b, in), "counter", func() Processor[string, string, string, int64] { return &counter{} }, counts), numbers)
	},
}

func TestNoAllocationPerRecord(t *testing.T) {
	for name, wire := range chains {
		f, inst, raws := chain(t, wire)
		n := testing.AllocsPerRun(20, func() {
			for i := range raws {
				if err := f(&raws[i]); err != nil {
					t.Fatal(err)
				}
			}
			if err := inst.Flush(); err != nil {
				t.Fatal(err)
			}
		})
		if n > 2 { // the fake store sorts what changed, with a closure
			t.Errorf("%s: %v allocations for 1000 records", name, n)
		}
	}
}

// BenchmarkChain is the cost of one record; a flush follows every thousand. The fake store's map is in it: see
// BenchmarkFakeStore for its share.
func BenchmarkChain(b *testing.B) {
	for _, name := range []string{"pass through", "keyed count", "count every update", "aggregate", "reduce", "operators", "hand-written count", "tumbling count", "hopping count", "final count"} {
		b.Run(name, func(b *testing.B) {
			f, inst, raws := chain(b, chains[name])
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := f(&raws[i]); err != nil {
					b.Fatal(err)
				}
				if i++; i == len(raws) {
					i = 0
					if err := inst.Flush(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkFakeStore is what a cell and a set cost in the fake store alone, with its share of the flush.
func BenchmarkFakeStore(b *testing.B) {
	s := newMemory().Store("s")
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key-%d", i)
	}
	i, value := 0, []byte("12345678")
	for b.Loop() {
		c, err := s.Cell(keys[i])
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Set(c, value, 1); err != nil {
			b.Fatal(err)
		}
		if i++; i == len(keys) {
			i = 0
			if err := s.Changed(func(*Cell) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	}
}
