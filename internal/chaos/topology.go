package main

import (
	"strings"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// application is the application id, and so the group.
const application = "chaos"

const (
	partitions = 4
	// tasks: the lines, the words, and the amounts have a sub-topology each.
	tasks = 3 * partitions
	// idHeader is the header that names an input; it goes along with the record to what is made of it.
	idHeader = "id"
)

const (
	linesTopic   = application + "-lines"
	amountsTopic = application + "-amounts"
	countsTopic  = application + "-counts"
	sumsTopic    = application + "-sums"
)

// amount is the value of an input of the keyed sum. An aggregation does not see headers, so the id is in it too.
type amount struct {
	ID     string
	Amount int64
}

// sum is a value of the keyed sum's store.
type sum struct {
	Sum, Count int64
	Last       string
}

var (
	lines   = topology.NewTopic(linesTopic, codec.Bytes, codec.String)
	words   = topology.NewRepartition("words", codec.String, codec.Bytes)
	counts  = topology.NewKeyValueStore("counts", codec.String, codec.Int64)
	amounts = topology.NewTopic(amountsTopic, codec.String, codec.JSON[amount]())
	sums    = topology.NewKeyValueStore("sums", codec.String, codec.JSON[sum]())
)

// build is both jobs. They emit every update, because one update per commit would hide what was lost or doubled within a
// commit's interval behind the last value.
func build() (*topology.Topology, error) {
	b := topology.NewBuilder()
	split := topology.FlatMap(topology.From(b, lines), func(line record.Record[[]byte, string], emit func(record.Record[string, []byte]) error) error {
		for word := range strings.FieldsSeq(line.Value) {
			if err := emit(record.Record[string, []byte]{Key: word, Timestamp: line.Timestamp, Headers: line.Headers}); err != nil {
				return err
			}
		}
		return nil
	})
	counted := topology.Count(topology.Through(split, words), counts, topology.EveryUpdate())
	topology.To(counted, topology.NewTopic(countsTopic, codec.String, codec.Int64))

	add := func(_ string, a amount, s sum) (sum, error) { return sum{s.Sum + a.Amount, s.Count + 1, a.ID}, nil }
	summed := topology.Aggregate(topology.From(b, amounts), sums, func() sum { return sum{} }, add, topology.EveryUpdate())
	topology.To(summed, topology.NewTopic(sumsTopic, codec.String, codec.JSON[sum]()))
	return b.Build()
}
