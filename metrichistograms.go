package millrace

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/millrace-io/millrace/thread"
)

// histogramRow is one line of docs/metrics.md. A histogram is told each latency when it is known, by whoever has measured it;
// its unit is seconds.
type histogramRow struct {
	name string
	// labels come after app.
	labels []string
	help   string
	// streams is the counterpart of Kafka Streams, empty if there is none.
	streams string
	// buckets are the upper bounds.
	buckets []float64
}

// exposed is the name in Prometheus' text form, before _bucket, _sum and _count.
func (r *histogramRow) exposed() string { return strings.ReplaceAll(r.name, ".", "_") + "_seconds" }

// Upper bounds of what waits for brokers or disks, and of what does not.
var (
	slowBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	fastBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}
)

// Names of histograms.
const (
	processLatency   = "millrace.thread.process"
	punctuateLatency = "millrace.thread.punctuate"
	commitLatency    = "millrace.thread.commit"
	restoreLatency   = "millrace.restore.batch"
	queryLatency     = "millrace.query.duration"
)

// histogramRows are all latencies. What they are told of happens once for a batch, a commit or a question, never for a record.
var histogramRows = []histogramRow{
	{processLatency, byThread, "Time of each step that took records through processors", "thread: process-latency-avg, -max", fastBuckets},
	{punctuateLatency, byThread, "Time of each turn of a task with scheduled functions that were due", "thread: punctuate-latency-avg, -max", fastBuckets},
	{commitLatency, byThread, "Time from the beginning of a commit to its last write to the stores, of those that are Committed", "thread: commit-latency-avg, -max", slowBuckets},
	{restoreLatency, byAsked, "Time in which a restore has written a batch of its changelog to the store", "store: restore-latency-avg, -max", slowBuckets},
	{queryLatency, byAsked, "Time of each answer, from the gate to the store and back", "", fastBuckets},
}

func (m *meters) makeHistograms(meter metric.Meter) error {
	m.histograms = map[string]metric.Float64Histogram{}
	var errs []error
	for _, r := range histogramRows {
		h, err := meter.Float64Histogram(r.name, metric.WithUnit("s"), metric.WithDescription(r.help), metric.WithExplicitBucketBoundaries(r.buckets...))
		m.histograms[r.name] = h
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// latency tells a histogram's series of a row's label. It may be called from any goroutine. It is nil before begin.
func (m *meters) latency(name, label string) func(time.Duration) {
	h := m.histograms[name]
	if h == nil {
		return nil
	}
	labels := []attribute.KeyValue{attribute.String("app", m.node.app)}
	for _, r := range histogramRows {
		if r.name == name {
			labels = append(labels, attribute.String(r.labels[0], label))
		}
	}
	of := []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(labels...))} // made once: a call allocates nothing
	return func(d time.Duration) { h.Record(context.Background(), d.Seconds(), of...) }
}

// latencies are those of a thread.
func (m *meters) latencies(name string) thread.Latencies {
	return thread.Latencies{Process: m.latency(processLatency, name), Punctuate: m.latency(punctuateLatency, name), Commit: m.latency(commitLatency, name)}
}
