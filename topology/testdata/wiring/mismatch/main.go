// Command mismatch sends strings to a processor of integers. It must not compile.
package main

import (
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

type double struct {
	ctx *topology.Context[string, int64]
}

func (d *double) Init(ctx *topology.Context[string, int64]) error { d.ctx = ctx; return nil }
func (d *double) Process(r record.Record[string, int64]) error    { r.Value *= 2; return d.ctx.Forward(r) }
func (d *double) Close() error                                    { return nil }

func newDouble() topology.Processor[string, int64, string, int64] { return &double{} }

func main() {
	b := topology.NewBuilder()
	numbers := topology.From(b, topology.NewTopic("numbers", codec.String, codec.String))
	topology.To(topology.Process(numbers, "double", newDouble), topology.NewTopic("out", codec.String, codec.Int64))
}
