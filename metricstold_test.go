package millrace_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/exposition"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// ticking passes records on, and is called at every 10 ms of their time.
type ticking struct {
	ctx   *topology.Context[string, string]
	ticks *atomic.Int64
}

func (p *ticking) Init(ctx *topology.Context[string, string]) error {
	p.ctx = ctx
	_, err := ctx.Schedule(10, topology.StreamTime, func(int64) error { p.ticks.Add(1); return nil })
	return err
}

func (p *ticking) Close() error { return nil }

func (p *ticking) Process(r record.Record[string, string]) error { return p.ctx.Forward(r) }

// ticked counts lines by their keys, behind a processor that is called at times, beside a table.
func ticked(t *testing.T, ticks *atomic.Int64) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	b.AddGlobalStore(topology.NewGlobalStore("countries", topology.NewTopic("countries", codec.String, codec.String)))
	s := topology.Process(topology.From(b, lines), "ticking", func() topology.Processor[string, string, string, string] { return &ticking{ticks: ticks} })
	topology.Count(topology.Through(s, topology.NewRepartition("again", codec.String, codec.String)), counts)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// lately feeds lines with keys of their own, from one number to another, a millisecond after the other.
func lately(t *testing.T, w *writer, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		w.put(record.TopicPartition{Topic: "lines", Partition: int32(i % 4)}, record.Raw{Key: fmt.Append(nil, i), Value: []byte("x"), Timestamp: int64(i)})
	}
	w.flush()
}

// A node that begins without local state tells how much it has restored and in what time, how often and how long it was called
// at times, what its table has left out, what was scanned, what it has on disk, and of questions that nobody waits for.
func TestMetricsTellOfRestoresAndPunctuations(t *testing.T) {
	c := cluster(t)
	if err := c.Kfake().CreateTopic("countries", 1, nil); err != nil {
		t.Fatal(err)
	}
	w := newWriter(t, c, "")
	w.put(record.TopicPartition{Topic: "countries"}, record.Raw{Value: []byte("no key"), Timestamp: 1}, record.Raw{Key: []byte("at"), Value: []byte("Austria"), Timestamp: 1})
	lately(t, w, 0, 100)
	var ticks atomic.Int64
	topo := ticked(t, &ticks)
	first := start(t, topo, onto(t, c)...)
	if err := first.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.stop()
	written := len(visible(t, c, "app-counts-changelog"))
	ticks.Store(0)

	shown, err := exposition.New()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n := start(t, topo, onto(t, c, millrace.WithStateDir(dir), millrace.WithMeterProvider(shown))...)
	lately(t, w, 100, 200)
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, err := range query.All(t.Context(), n, counts) {
		if err != nil {
			t.Fatal(err)
		}
		rows++
	}
	n.ActorSystem().Root.Send(n.StorePID("counts", 0), &querypb.Get{Key: []byte("1")})
	var f figures
	await(t.Context(), t, func() bool { f = scrape(t, n.Node); return f.sum("millrace_query_dropped_total") == 1 }, func() string { return fmt.Sprint(f["millrace_query_dropped_total"]) })
	called := ticks.Load()
	f.expect(t, map[string]float64{
		"millrace_restore_records_total store=counts":           float64(written),
		"millrace_restore_ends_total store=counts outcome=done": 4,
		"millrace_thread_punctuations_total thread=thread-1":    float64(called),
		"millrace_global_records_total store=countries":         2,
	})
	for reason, want := range map[string]float64{"null key": 1, "deserialization": 0} {
		if got := f.sum("millrace_global_skipped_total", "store=countries", "reason="+reason); got != want {
			t.Errorf("%v were left out for %s, not %v", got, reason, want)
		}
	}
	if written < 100 || rows != 200 || called < 4 {
		t.Errorf("%d records in the changelog, %d rows, %d calls", written, rows, called)
	}
	if turns := f.observed("millrace_thread_punctuate_seconds", "thread=thread-1"); turns == 0 || turns > uint64(called) {
		t.Errorf("%d turns with %d calls were timed", turns, called)
	}
	if batches := f.observed("millrace_restore_batch_seconds", "store=counts"); batches < 4 || batches > uint64(written) {
		t.Errorf("%d batches with %d records were timed", batches, written)
	}
	for _, name := range []string{"millrace_thread_punctuate_seconds", "millrace_restore_batch_seconds", "millrace_restore_duration_seconds_total", "millrace_store_scans_total"} {
		if got := f.sum(name); !(got > 0) {
			t.Errorf("%s is %v", name, got)
		}
	}
	n.stop()
	again := start(t, topo, onto(t, c, millrace.WithStateDir(dir), millrace.WithMeterProvider(shown))...) // what is flushed when it opens is on disk
	if got := scrape(t, again.Node).sum("millrace_store_disk_bytes", "store=counts"); !(got > 0) {
		t.Errorf("%v bytes are on disk", got)
	}
}

// A thread that does not step shows, for as long as it does not.
func TestMetricsTellOfAStuckThread(t *testing.T) {
	c, let := cluster(t), make(chan struct{})
	shown, err := exposition.New()
	if err != nil {
		t.Fatal(err)
	}
	topo, entered := blocking(t, let)
	n := start(t, topo, onto(t, c, millrace.WithStuckAfter(50*time.Millisecond), millrace.WithMeterProvider(shown))...)
	shows := func(want float64) {
		var f figures
		await(t.Context(), t, func() bool { f = scrape(t, n.Node); return f.sum("millrace_thread_stuck", "thread=thread-1") == want },
			func() string { return fmt.Sprint(f["millrace_thread_stuck"]) })
	}
	shows(0)
	feed(t, c, "block")
	<-entered
	shows(1)
	close(let)
	shows(0)
}
