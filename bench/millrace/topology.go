package main

import (
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

func build(s settings, p *measure.Progress) (*topology.Topology, error) {
	b := topology.NewBuilder()
	in := topology.NewTopic(s.in, codec.String, codec.String)
	input := meter(topology.From(b, in), "seen", &p.Seen)
	switch s.does {
	case "pass":
		texts(topology.MapValues(input, strings.ToUpper), s.out, p)
	case "map":
		texts(topology.Map(topology.Filter(input, keep), shorten), s.out, p)
	case "count":
		count(input, s, p)
	case "windows":
		windows(input, s, p)
	case "words":
		words := topology.Through(topology.FlatMap(input, split), topology.NewRepartition("words", codec.String, codec.String))
		count(meter(words, "counted", &p.Counted), s, p)
	default:
		return nil, fmt.Errorf("there is no job %q", s.does)
	}
	return b.Build()
}

func texts(changed topology.Stream[string, string], out string, p *measure.Progress) {
	topology.To(meter(changed, "outputs", &p.Outputs), topology.NewTopic(out, codec.String, codec.String))
}

func keep(r record.Record[string, string]) bool { return r.Key[len(r.Key)-1]%2 == 0 }

func shorten(r record.Record[string, string]) (record.Record[string, string], error) {
	r.Value = r.Value[:work.Kept]
	return r, nil
}

var (
	counts   = topology.NewKeyValueStore("counts", codec.String, codec.Int64)
	windowed = topology.NewWindowStore("counts", codec.String, codec.Int64, work.WindowSize, 2*work.WindowSize)
)

func (s settings) emission() (opts []topology.AggregateOption) {
	if s.everyUpdate {
		opts = append(opts, topology.EveryUpdate())
	}
	return opts
}

func count(in topology.Stream[string, string], s settings, p *measure.Progress) {
	changed := topology.Count(in, counts, s.emission()...)
	topology.To(meter(changed, "outputs", &p.Outputs), topology.NewTopic(s.out, codec.String, codec.Int64))
}

func windows(in topology.Stream[string, string], s settings, p *measure.Progress) {
	changed := topology.CountWindows(in, topology.TumblingWindows(work.WindowSize), windowed, s.emission()...)
	out := topology.NewTopic(s.out, codec.TimeWindowed(codec.String, work.WindowSize), codec.Int64)
	topology.To(meter(changed, "outputs", &p.Outputs), out)
}

func split(r record.Record[string, string], emit func(record.Record[string, string]) error) error {
	for word := range strings.SplitSeq(r.Value, " ") {
		if err := emit(record.New(word, word, r.Timestamp)); err != nil {
			return err
		}
	}
	return nil
}

// counter counts what goes by; each task has one, so that tasks do not share a cache line.
type counter[K, V any] struct {
	n    *measure.Counter
	next *topology.Context[K, V]
}

func (c *counter[K, V]) Init(next *topology.Context[K, V]) error { c.next = next; return nil }
func (c *counter[K, V]) Close() error                            { return nil }
func (c *counter[K, V]) Process(r record.Record[K, V]) error {
	c.n.Add(1)
	return c.next.Forward(r)
}

func meter[K, V any](s topology.Stream[K, V], name string, sum *measure.Sum) topology.Stream[K, V] {
	return topology.Process(s, name, func() topology.Processor[K, V, K, V] { return &counter[K, V]{n: sum.New()} })
}
