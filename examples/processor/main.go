// Command processor is the word count with a hand-written processor, and with the command line of package cli. Try
//
//	go run ./examples/processor dev
package main

import (
	"strings"

	"github.com/millrace-io/millrace/cli"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var (
	words  = topology.NewRepartition("words", codec.String, codec.String)
	counts = topology.NewKeyValueStore("counts", codec.String, codec.Int64)
)

type text = record.Record[string, string]

// counter counts how often each key comes by.
type counter struct {
	counts *topology.KeyValue[string, int64]
}

func (c *counter) Init(ctx *topology.Context[topology.Void, topology.Void]) (err error) {
	c.counts, err = counts.In(ctx)
	return err
}

func (c *counter) Process(word text) error {
	n, _, err := c.counts.Get(word.Key)
	if err != nil {
		return err
	}
	return c.counts.Put(word.Key, n+1, word.Timestamp)
}

func (c *counter) Close() error { return nil }

func wordCount(app string) (*topology.Topology, error) {
	b := topology.NewBuilder()
	lines := topology.From(b, topology.NewTopic(app+"-lines", codec.String, codec.String))
	split := topology.FlatMap(lines, func(line text, emit func(text) error) error {
		for _, word := range strings.Fields(strings.ToLower(line.Value)) {
			if err := emit(record.New(word, word, line.Timestamp)); err != nil {
				return err
			}
		}
		return nil
	})
	topology.Consume(topology.Through(split, words), "counter",
		func() topology.Processor[string, string, topology.Void, topology.Void] { return &counter{} }, counts)
	return b.Build()
}

func main() { cli.Main(app) }

// app is what the command line runs. Its demonstration has text to count.
var app = cli.App{Name: "processor-example", Topology: wordCount, Demo: &cli.Demo{
	Lines: func(app string) string { return app + "-lines" }, Counts: counts, Text: "count by hand\nby and by\n", Key: "by",
}}
