package main

import (
	"errors"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

const (
	inputTopic     = "in"
	wordsTopic     = appID + "-words-repartition"
	countsStore    = "counts"
	changelogTopic = appID + "-" + countsStore + "-changelog"
	outputTopic    = "out"
	// splitTask and countTask are the sub-topologies.
	splitTask, countTask = 0, 1
)

var topics = []string{inputTopic, wordsTopic, changelogTopic, outputTopic}

// errUser is what user code fails with.
var errUser = errors.New("sim: user code fails here")

var (
	input  = topology.NewTopic(inputTopic, codec.String, codec.String)
	words  = topology.NewRepartition("words", codec.String, codec.String)
	counts = topology.NewKeyValueStore(countsStore, codec.String, codec.Int64)
	output = topology.NewTopic(outputTopic, codec.String, codec.Int64)
)

// build makes the topology of a node: records are given another key, go through a repartition topic, and are counted by it.
// Each of the two functions may fail, before or after what it is for.
func build(n *node) *topology.Topology {
	b := topology.NewBuilder()
	keyed := topology.FlatMap(topology.From(b, input), func(r record.Record[string, string], emit func(record.Record[string, string]) error) error {
		if n.world.plan.FailFirst {
			if err := n.userCode(); err != nil {
				return err
			}
		}
		if err := emit(record.Record[string, string]{Key: keyOf(r.Value), Value: r.Value, Timestamp: r.Timestamp}); err != nil || n.world.plan.FailFirst {
			return err
		}
		return n.userCode()
	})
	var opts []topology.AggregateOption
	if n.world.plan.EveryUpdate {
		opts = append(opts, topology.EveryUpdate())
	}
	add := func(_, _ string, sum int64) (int64, error) { return sum + 1, n.userCode() }
	counted := topology.Aggregate(topology.Through(keyed, words), counts, func() int64 { return 0 }, add, opts...)
	topology.To(counted, output)
	t, err := b.Build()
	if err != nil {
		n.world.fail("the topology cannot be built: %v", err)
	}
	return t.Bind(appID)
}
