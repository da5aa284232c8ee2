package topology_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

var (
	lines  = topology.NewTopic("lines", codec.String, codec.String)
	words  = topology.NewRepartition("words", codec.String, codec.String)
	counts = topology.NewKeyValueStore("counts", codec.String, codec.Int64)
	output = topology.NewTopic("word-counts", codec.String, codec.Int64)
)

type (
	text  = record.Record[string, string]
	count = record.Record[string, int64]
)

// The word count with operators.
func Example() {
	b := topology.NewBuilder()
	split := topology.FlatMap(topology.From(b, lines), func(line text, emit func(text) error) error {
		for _, word := range strings.Fields(strings.ToLower(line.Value)) {
			if err := emit(record.New(word, word, line.Timestamp)); err != nil {
				return err
			}
		}
		return nil
	})
	topology.To(topology.Count(topology.Through(split, words), counts), output)
	t, err := b.Build()
	fmt.Println(err)
	fmt.Print(t.Bind("app").Describe())
	// Output:
	// <nil>
	// Topologies:
	//    Sub-topology: 0
	//     Source: source-0000000000 (topics: [lines])
	//       --> flat-map-0000000001
	//     Processor: flat-map-0000000001 (stores: [])
	//       --> sink-0000000002
	//       <-- source-0000000000
	//     Sink: sink-0000000002 (topic: app-words-repartition)
	//       <-- flat-map-0000000001
	//    Sub-topology: 1
	//     Source: source-0000000003 (topics: [app-words-repartition])
	//       --> count-0000000004
	//     Processor: count-0000000004 (stores: [counts])
	//       --> sink-0000000005
	//       <-- source-0000000003
	//     Sink: sink-0000000005 (topic: word-counts)
	//       <-- count-0000000004
}

// counter is the counting half of the word count by hand: a processor with a store.
type counter struct {
	ctx    *topology.Context[string, int64]
	counts *topology.KeyValue[string, int64]
}

func (c *counter) Init(ctx *topology.Context[string, int64]) (err error) {
	c.ctx = ctx
	c.counts, err = counts.In(ctx)
	return err
}

func (c *counter) Process(r text) error {
	n, _, err := c.counts.Get(r.Key)
	if err != nil {
		return err
	}
	if err := c.counts.Put(r.Key, n+1, r.Timestamp); err != nil {
		return err
	}
	return c.ctx.Forward(count{Key: r.Key, Value: n + 1, Timestamp: r.Timestamp})
}

func (c *counter) Close() error { return nil }

func ExampleProcess() {
	b := topology.NewBuilder()
	keyed := topology.FromRepartition(b, words)
	topology.ToRepartition(topology.SelectKey(topology.From(b, lines), func(line text) string { return line.Value }), words)
	supply := func() topology.Processor[string, string, string, int64] { return &counter{} }
	topology.To(topology.Process(keyed, "counter", supply, counts), output)
	t, err := b.Build()
	fmt.Println(err, len(t.SubTopologies))
	// Output: <nil> 2
}

// Records that cannot be read or processed go to a topic of their own, with where and why in their headers. Build knows
// that the topic must not come back.
func ExampleBuilder_DeadLetterTopic() {
	b := topology.NewBuilder()
	topology.To(topology.From(b, lines), topology.NewTopic("copies", codec.String, codec.String))
	b.Always(topology.Deserialization, topology.DeadLetter)
	b.OnProcessingError(func(c topology.ErrorContext, err error) topology.Response {
		if c.Input == nil { // a punctuation or a flush
			return topology.Fail
		}
		return topology.DeadLetter
	})
	b.DeadLetterTopic("lines")
	_, err := b.Build()
	fmt.Println(err)
	// Output: topology: "lines": dead-letter topic is read: the application reads its dead-letter topic as source "source-0000000000", where its records would fail again; use another topic
}

// Page views per page and minute, written once, when the minute and five seconds of grace are over.
func ExampleCountWindows() {
	b := topology.NewBuilder()
	views := topology.NewTopic("views", codec.String, codec.Bytes)
	perMinute := topology.NewWindowStore("views-per-minute", codec.String, codec.Int64, time.Minute, time.Hour)
	results := topology.NewTopic("views-per-minute", codec.TimeWindowed(codec.String, time.Minute), codec.Int64)
	minutes := topology.TumblingWindows(time.Minute).WithGrace(5 * time.Second)
	topology.To(topology.CountWindows(topology.From(b, views), minutes, perMinute, topology.OnWindowClose()), results)
	t, err := b.Build()
	fmt.Println(err)
	fmt.Print(t.Describe())
	// Output:
	// <nil>
	// Topologies:
	//    Sub-topology: 0
	//     Source: source-0000000000 (topics: [views])
	//       --> count-windows-0000000001
	//     Processor: count-windows-0000000001 (stores: [views-per-minute (window 1m0s, retention 1h0m0s)])
	//       windows: tumbling 1m0s, grace 5s, emit on window close
	//       --> sink-0000000002
	//       <-- source-0000000000
	//     Sink: sink-0000000002 (topic: views-per-minute)
	//       <-- count-windows-0000000001
}

// Visits: the clicks of a user with at most half an hour between them. One clock that is more than a minute ahead does not
// end everybody's visit.
func ExampleCountSessions() {
	b := topology.NewBuilder()
	clicks := topology.NewTopic("clicks", codec.String, codec.Bytes)
	visits := topology.NewSessionStore("visits", codec.String, codec.Int64, 24*time.Hour)
	counted := topology.CountSessions(topology.From(b, clicks), topology.SessionWindows(30*time.Minute), visits, topology.MaxTimestampJump(time.Minute))
	topology.To(counted, topology.NewTopic("visits", codec.SessionWindowed(codec.String), codec.Int64))
	b.Always(topology.Processing, topology.DeadLetter)
	b.DeadLetterTopic("clicks-ahead")
	t, err := b.Build()
	fmt.Println(err, t.SubTopologies[0].Stores[0].ChangelogConfig["cleanup.policy"])
	// Output: <nil> compact,delete
}

// lastHour is a processor that reads a window store: how often a page was seen in the last hour.
type lastHour struct {
	ctx     *topology.Context[string, int64]
	minutes *topology.Window[string, int64]
}

func (p *lastHour) Init(ctx *topology.Context[string, int64]) (err error) {
	p.ctx = ctx
	p.minutes, err = perMinute.In(ctx)
	return err
}

func (p *lastHour) Process(r text) error {
	hour, start := time.Hour.Milliseconds(), r.Timestamp-r.Timestamp%time.Minute.Milliseconds()
	n, _, err := p.minutes.Fetch(r.Key, start)
	if err != nil {
		return err
	}
	if err := p.minutes.Put(r.Key, start, n+1, r.Timestamp); err != nil {
		return err
	}
	var sum int64
	for w, err := range p.minutes.FetchBetween(r.Key, max(0, start-hour+1), start) {
		if err != nil {
			return err
		}
		sum += w.Value
	}
	return p.ctx.Forward(count{Key: r.Key, Value: sum, Timestamp: r.Timestamp})
}

func (p *lastHour) Close() error { return nil }

var perMinute = topology.NewWindowStore("per-minute", codec.String, codec.Int64, time.Minute, 2*time.Hour)

func ExampleWindowStore_In() {
	b := topology.NewBuilder()
	supply := func() topology.Processor[string, string, string, int64] { return &lastHour{} }
	topology.To(topology.Process(topology.From(b, lines), "last-hour", supply, perMinute), output)
	t, err := b.Build()
	fmt.Println(err, t.SubTopologies[0].Stores[0].Kind)
	// Output: <nil> window
}

// Orders are completed with what a global store knows of their customers. Orders and customers need not be partitioned
// alike, since every node holds all customers.
func ExampleJoinGlobal() {
	orders := topology.NewTopic("orders", codec.Int64, codec.String) // order number → customer
	completed := topology.NewTopic("completed-orders", codec.Int64, codec.String)
	customers := topology.NewGlobalStore("customers", topology.NewTopic("customers", codec.String, codec.String))

	b := topology.NewBuilder()
	customer := func(r record.Record[int64, string]) (string, bool) { return r.Value, r.Value != "" }
	topology.To(topology.JoinGlobal(topology.From(b, orders), customers, customer, func(r record.Record[int64, string], address string) (string, error) {
		return r.Value + ", " + address, nil
	}), completed)
	t, err := b.Build()
	fmt.Println(err)
	fmt.Print(t.Bind("shop").Describe())
	// Output:
	// <nil>
	// Topologies:
	//    Global store: customers (topic: customers)
	//    Sub-topology: 0
	//     Source: source-0000000000 (topics: [orders])
	//       --> join-global-0000000001
	//     Processor: join-global-0000000001 (stores: [customers (global)])
	//       --> sink-0000000002
	//       <-- source-0000000000
	//     Sink: sink-0000000002 (topic: completed-orders)
	//       <-- join-global-0000000001
}
