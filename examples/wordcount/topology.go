package main

import (
	"strings"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var (
	lines  = topology.NewTopic("example-lines", codec.Bytes, codec.String)
	words  = topology.NewRepartition("words", codec.String, codec.String)
	counts = topology.NewKeyValueStore("counts", codec.String, codec.Int64)
	totals = topology.NewTopic("example-counts", codec.String, codec.Int64)
)

func wordCount() (*topology.Topology, error) {
	b := topology.NewBuilder()
	split := topology.FlatMap(topology.From(b, lines), func(r record.Record[[]byte, string], emit func(record.Record[string, string]) error) error {
		for _, word := range strings.Fields(strings.ToLower(r.Value)) {
			if err := emit(record.New(word, word, r.Timestamp)); err != nil {
				return err
			}
		}
		return nil
	})
	topology.To(topology.Count(topology.Through(split, words), counts), totals)
	return b.Build()
}
