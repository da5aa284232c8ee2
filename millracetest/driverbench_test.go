package millracetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// Sessions look for their neighbours in the store's state at each record, so each Send meets the engine.
var (
	sessions = topology.NewSessionStore("sessions", codec.String, codec.Int64, time.Hour)
	lengths  = topology.NewTopic("lengths", codec.SessionWindowed(codec.String), codec.Int64)
	louder   = topology.NewTopic("louder", codec.String, codec.String)
)

// The Driver is to be at least as quick as the one that Kafka Streams has for its tests, by whatever a Send has: 10^5 records/s
// on one core (-cpu 1).
func BenchmarkDriver(b *testing.B) {
	for _, job := range []struct {
		name  string
		build func(*topology.Builder)
	}{
		{"stateless", func(b *topology.Builder) {
			topology.To(topology.Map(topology.From(b, lines), func(r text) (text, error) { r.Value += "!"; return r, nil }), louder)
		}},
		{"count", func(b *topology.Builder) { topology.To(topology.Count(topology.From(b, lines), counts), totals) }},
		{"sessions", func(b *topology.Builder) {
			topology.To(topology.CountSessions(topology.From(b, lines), topology.SessionWindows(time.Minute), sessions), lengths)
		}},
	} {
		for _, batch := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/records-a-send=%d", job.name, batch), func(b *testing.B) { benchmarkDriver(b, job.build, batch) })
		}
	}
}

func benchmarkDriver(b *testing.B, build func(*topology.Builder), batch int) {
	builder := topology.NewBuilder()
	build(builder)
	top, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	d := millracetest.NewDriver(b, top)
	records := make([]millracetest.Record[string, string], max(batch, 100))
	for i := range records {
		records[i] = millracetest.R(fmt.Sprint("key-", i%100), "v")
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		at := n % len(records)
		millracetest.Send(d, lines, records[at:at+batch]...)
		n += batch
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}
