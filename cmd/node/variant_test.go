package main

import (
	"errors"
	"os"
	"strings"

	"github.com/millrace-io/millrace/cli"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// events is the source topic of the variants; keys and values are text.
func events(app string) topology.Topic[string, string] {
	return topology.NewTopic(app+"-events", codec.String, codec.String)
}

// keeper keeps the last text of each key; a record without a value deletes it.
type keeper struct {
	store topology.KeyValueStore[string, string]
	kept  *topology.KeyValue[string, string]
}

func (k *keeper) Init(ctx *topology.Context[topology.Void, topology.Void]) (err error) {
	k.kept, err = k.store.In(ctx)
	return err
}

func (k *keeper) Process(r record.Record[string, string]) error {
	if r.NoValue {
		return k.kept.Delete(r.Key)
	}
	return k.kept.Put(r.Key, r.Value, r.Timestamp)
}

func (k *keeper) Close() error { return nil }

// variant is an application that has the stores of the name: "counts,latest:text" has a count of each key's records and
// the last text of each key. They are what an application looks like after a store was added, removed or renamed.
//
// "brittle:FILE" counts each key's records, and fails at the value "fail" as long as the file is there.
func variant(name string) cli.App {
	if file, ok := strings.CutPrefix(name, "brittle:"); ok {
		return cli.App{Name: "variant", Topology: func(app string) (*topology.Topology, error) { return brittle(app, file) }}
	}
	return cli.App{Name: "variant", Topology: func(app string) (*topology.Topology, error) {
		b := topology.NewBuilder()
		in := topology.From(b, events(app))
		for _, s := range strings.Split(name, ",") {
			if store, ok := strings.CutSuffix(s, ":text"); ok {
				handle := topology.NewKeyValueStore(store, codec.String, codec.String)
				topology.Consume(in, "keep-"+store, func() topology.Processor[string, string, topology.Void, topology.Void] { return &keeper{store: handle} }, handle)
				continue
			}
			topology.Count(in, topology.NewKeyValueStore(s, codec.String, codec.Int64))
		}
		return b.Build()
	}}
}

func brittle(app, file string) (*topology.Topology, error) {
	b := topology.NewBuilder()
	b.DeadLetterTopic(app + "-dead")
	b.Always(topology.Production, topology.DeadLetter)
	checked := topology.Map(topology.From(b, events(app)), func(r record.Record[string, string]) (record.Record[string, string], error) {
		if _, err := os.Stat(file); err == nil && r.Value == "fail" {
			return r, errors.New("it is brittle")
		}
		return r, nil
	})
	topology.Count(checked, topology.NewKeyValueStore("kept", codec.String, codec.Int64))
	return b.Build()
}
