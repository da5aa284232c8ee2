package howto

import (
	"testing"

	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var (
	priceTopic = topology.NewTopic("prices", codec.String, codec.Int64)
	sales      = topology.NewTopic("sales", codec.String, codec.Int64)
	totals     = topology.NewTopic("totals", codec.String, codec.Int64)
	priceTable = topology.NewKeyValueStore("prices", codec.String, codec.Int64)
)

// prices keeps a topic as a table.
type prices struct {
	table *topology.KeyValue[string, int64]
}

func (p *prices) Init(ctx *topology.Context[topology.Void, topology.Void]) (err error) {
	p.table, err = priceTable.In(ctx)
	return err
}

func (p *prices) Process(r record.Record[string, int64]) error {
	if r.NoValue {
		return p.table.Delete(r.Key)
	}
	return p.table.Put(r.Key, r.Value, r.Timestamp)
}

func (p *prices) Close() error { return nil }

// till joins what is sold with the table.
type till struct {
	ctx   *topology.Context[string, int64]
	table *topology.KeyValue[string, int64]
}

func (p *till) Init(ctx *topology.Context[string, int64]) (err error) {
	p.ctx = ctx
	p.table, err = priceTable.In(ctx)
	return err
}

func (p *till) Process(r record.Record[string, int64]) error {
	price, found, err := p.table.Get(r.Key)
	if err != nil || !found {
		return err
	}
	return p.ctx.Forward(record.New(r.Key, price*r.Value, r.Timestamp))
}

func (p *till) Close() error { return nil }

func TestTableAndJoin(t *testing.T) {
	b := topology.NewBuilder()
	topology.Consume(topology.From(b, priceTopic), "prices",
		func() topology.Processor[string, int64, topology.Void, topology.Void] { return &prices{} }, priceTable)
	topology.To(topology.Process(topology.From(b, sales), "till",
		func() topology.Processor[string, int64, string, int64] { return &till{} }, priceTable), totals)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if len(top.SubTopologies) != 1 {
		t.Fatalf("two readers of one store are %d sub-topologies", len(top.SubTopologies))
	}
	d := millracetest.NewDriver(t, top, millracetest.AllPartitions(3))
	millracetest.Send(d, priceTopic, millracetest.R("pen", int64(150)), millracetest.R("ink", int64(300)))
	millracetest.Send(d, sales, millracetest.R("pen", int64(2)), millracetest.R("sofa", int64(1)))
	millracetest.Send(d, priceTopic, millracetest.Tombstone[string, int64]("ink"))
	if got := millracetest.Latest(millracetest.Read(d, totals)); len(got) != 1 || got["pen"] != 300 {
		t.Error(got)
	}
	if _, found, err := query.Get(t.Context(), d, priceTable, "ink"); found || err != nil {
		t.Error(found, err)
	}
}
