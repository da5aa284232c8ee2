package main

import (
	"fmt"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

const (
	// application is the application id, and so the group.
	application = "storm"
	inputTopic  = application + "-lines"
	partitions  = 6
	keysPerPart = 200
)

var (
	lines  = topology.NewTopic(inputTopic, codec.String, codec.Bytes)
	counts = topology.NewKeyValueStore("counts", codec.String, codec.Int64)
)

// The values of records, which say whether they are counted.
const (
	dropped byte = iota
	counted
)

func build() (*topology.Topology, error) {
	b := topology.NewBuilder()
	topology.Count(topology.Filter(topology.From(b, lines), func(r record.Record[string, []byte]) bool { return r.Value[0] == counted }), counts)
	return b.Build()
}

// keysOf are the keys of each partition.
func keysOf() (keys [partitions][]string) {
	for i, full := 0, 0; full < partitions; i++ {
		key := fmt.Sprintf("key%d", i)
		p := record.Partition([]byte(key), partitions)
		if len(keys[p]) == keysPerPart {
			continue
		}
		if keys[p] = append(keys[p], key); len(keys[p]) == keysPerPart {
			full++
		}
	}
	return keys
}
