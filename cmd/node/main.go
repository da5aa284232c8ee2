// Command millrace (built from cmd/node) runs the demonstration: a word count. A user's own application has a main like
// this one, with another topology.
package main

import (
	_ "embed"

	"github.com/millrace-io/millrace/cli"
	"github.com/millrace-io/millrace/cli/text"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

//go:embed text.txt
var demoText string

var counts = topology.NewKeyValueStore("counts", codec.String, codec.Int64)

func linesTopic(app string) string  { return app + "-lines" }
func outputTopic(app string) string { return app + "-word-counts" }

// wordCount counts the words of lines: from the lines through a repartition topic, so that equal words meet in one task,
// into a store, and on to a topic.
func wordCount(app string) (*topology.Topology, error) {
	lines := topology.NewTopic(linesTopic(app), codec.Bytes, codec.String)
	words := topology.NewRepartition("words", codec.String, codec.Bytes)
	out := topology.NewTopic(outputTopic(app), codec.String, codec.Int64)

	b := topology.NewBuilder()
	split := topology.FlatMap(topology.From(b, lines), func(line record.Record[[]byte, string], emit func(record.Record[string, []byte]) error) error {
		for word := range text.Words(line.Value) {
			if err := emit(record.Record[string, []byte]{Key: word, Timestamp: line.Timestamp}); err != nil {
				return err
			}
		}
		return nil
	})
	topology.To(topology.Count(topology.Through(split, words), counts), out)
	return b.Build()
}

// demo is the word count with its text.
func demo() cli.App {
	return cli.App{
		Name:     "word-count",
		Topology: wordCount,
		Demo:     &cli.Demo{Lines: linesTopic, Counts: counts, Text: demoText, Key: "water"},
	}
}

func main() { cli.Main(demo()) }
