package millracetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// Clicks of users are counted by minute; a test sends some, moves on, and looks at outputs and store.
func ExampleDriver() {
	clicks := topology.NewTopic("clicks", codec.String, codec.String)
	byMinute := topology.NewWindowStore("by-minute", codec.String, codec.Int64, time.Minute, time.Hour)
	b := topology.NewBuilder()
	topology.Peek(topology.CountWindows(topology.From(b, clicks), topology.TumblingWindows(time.Minute), byMinute),
		func(r record.Record[topology.Windowed[string], int64]) { fmt.Println(r.Key.Key, r.Key.Start, r.Value) })
	top, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	t := &testing.B{} // in a test, its own t
	d := millracetest.NewDriver(t, top, millracetest.Partitions("clicks", 4))
	defer d.Close()
	millracetest.Send(d, clicks, millracetest.R("ann", "/"), millracetest.R("bob", "/"), millracetest.R("ann", "/shop"))
	d.Advance(time.Minute)
	millracetest.Send(d, clicks, millracetest.R("ann", "/"))
	d.Crash()
	for e, err := range query.FetchRange(context.Background(), d, byMinute, "ann", 0, 60_000) {
		fmt.Println(e.Key.Key, e.Key.Start, e.Value, err)
	}
	// Output:
	// ann 0 2
	// bob 0 1
	// ann 60000 1
	// ann 0 2 <nil>
	// ann 60000 1 <nil>
}
