// Command pageviews counts how often each page of a site is seen, minute by minute, from the lines of its access log, and
// answers in JSON. With a broker and a log of nine lines of its own:
//
//	go run ./examples/pageviews dev
//
// It says where it answers, which is 127.0.0.1:8080 if that is free:
//
//	curl 'http://127.0.0.1:8080/views?page=/pricing'
//	{"page":"/pricing","views":3,"minutes":[{"minute":"2026-11-30T11:00:00Z","views":2},{"minute":"2026-11-30T11:01:00Z","views":1}]}
//
//	curl 'http://127.0.0.1:8080/top?minute=2026-11-30T11:00:00Z'
//	[{"page":"/pricing","views":2},{"page":"/","views":1},{"page":"/docs","views":1}]
//
// The same with a log of your own, and on a cluster, where somebody writes the lines into the topic pageviews-log:
//
//	go run ./examples/pageviews dev --once --input access.log
//	go run ./examples/pageviews run --brokers 127.0.0.1:9092 --state-dir /var/lib/pageviews
//
// A node answers for the pages whose partitions it has. For another one it says who has it.
package main

import (
	_ "embed"
	"strings"
	"time"

	"github.com/millrace-io/millrace/cli"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

//go:embed access.log
var accessLog string

var (
	views   = topology.NewRepartition("views", codec.String, codec.String)
	minutes = topology.NewWindowStore("views-per-minute", codec.String, codec.Int64, time.Minute, 25*time.Hour)
	totals  = topology.NewKeyValueStore("views", codec.String, codec.Int64)
)

func logTopic(app string) string { return app + "-log" }

// line is a record of the log: "2026-11-30T11:00:03Z /pricing ann".
type line = record.Record[[]byte, string]

// view is who has seen a page.
type view = record.Record[string, string]

// seen is when, in milliseconds since the Unix epoch; below 0 for what is no line of a log, which is left out and counted.
func seen(l line) int64 {
	fields := strings.Fields(l.Value)
	if len(fields) != 3 {
		return -1
	}
	at, err := time.Parse(time.RFC3339, fields[0])
	if err != nil {
		return -1
	}
	return at.UnixMilli()
}

// pageViews counts views by the time at which they happened, whenever their lines arrive. A line may be five minutes late.
func pageViews(app string) (*topology.Topology, error) {
	b := topology.NewBuilder()
	lines := topology.From(b, topology.NewTopic(logTopic(app), codec.Bytes, codec.String).WithTimestamp(seen))
	byPage := topology.Through(topology.Map(lines, func(l line) (view, error) {
		fields := strings.Fields(l.Value)
		return record.New(fields[1], fields[2], l.Timestamp), nil
	}), views)
	topology.CountWindows(byPage, topology.TumblingWindows(time.Minute).WithGrace(5*time.Minute), minutes)
	topology.Count(byPage, totals)
	return b.Build()
}

var app = cli.App{
	Name: "pageviews", Topology: pageViews, Routes: api,
	Demo: &cli.Demo{Lines: logTopic, Counts: totals, Text: accessLog, Key: "/pricing"},
}

func main() { cli.Main(app) }
