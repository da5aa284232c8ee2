package millrace_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// spans is a provider that keeps what has ended.
type spans struct {
	*tracetest.InMemoryExporter
	*sdk.TracerProvider
}

func newSpans() spans {
	e := tracetest.NewInMemoryExporter()
	return spans{e, sdk.NewTracerProvider(sdk.WithSyncer(e))}
}

// named are the spans of a name.
func (s spans) named(name string) (found tracetest.SpanStubs) {
	for _, span := range s.GetSpans() {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

// linked are the span ids that spans link to, each once, in order.
func linked(of tracetest.SpanStubs) (ids []string) {
	for _, span := range of {
		for _, l := range span.Links {
			ids = append(ids, l.SpanContext.SpanID().String())
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// own are the ids of spans, in order.
func own(of tracetest.SpanStubs) (ids []string) {
	for _, span := range of {
		ids = append(ids, span.SpanContext.SpanID().String())
	}
	slices.Sort(ids)
	return ids
}

func attributeOf(s tracetest.SpanStub, key string) (value string) {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			value = a.Value.String()
		}
	}
	return value
}

// sent is a line with the trace context of its sender, whose span has the id i; none for 0.
func sent(i int) record.Raw {
	r := record.Raw{Value: []byte("word"), Timestamp: int64(i)}
	if i > 0 {
		r.Headers = record.Headers{{Key: "traceparent", Value: parentOf(i)}, {Key: "tracestate", Value: []byte("v=1")}, {Key: "other", Value: []byte("x")}}
	}
	return r
}

func parentOf(i int) []byte { return fmt.Appendf(nil, "00-%032x-%016x-01", 1000+i, i) }

// A batch is linked to who has sent its records, what it sends leads to the batch, also over a repartition topic, and a commit
// is linked to its batches.
func TestTraces(t *testing.T) {
	c, s := cluster(t), newSpans()
	w := newWriter(t, c, "")
	w.put(record.TopicPartition{Topic: "lines"}, sent(1), sent(2), sent(2), sent(0), sent(1))
	malformed := record.Raw{Value: []byte("word"), Headers: record.Headers{{Key: "traceparent", Value: []byte(strings.Repeat("0", 300))}, {Key: "tracestate"}}}
	w.put(record.TopicPartition{Topic: "lines"}, malformed)
	w.flush()
	n := start(t, wordCount(t), onto(t, c, millrace.WithTracerProvider(s))...)
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.stop()
	first, second, commits := s.named("process lines"), s.named("process app-words-repartition"), s.named("commit")
	if got := linked(first); !slices.Equal(got, []string{fmt.Sprintf("%016x", 1), fmt.Sprintf("%016x", 2)}) {
		t.Error("the batches of lines are linked to", got)
	}
	if got, want := linked(second), own(first); !slices.Equal(got, want) {
		t.Errorf("the batches of words are linked to %v, which is not %v", got, want)
	}
	if got, want := linked(commits), own(append(first, second...)); !slices.Equal(got, want) {
		t.Errorf("the commits are linked to %v, which is not %v", got, want)
	}
	records := 0
	for _, span := range first {
		var n int
		if _, err := fmt.Sscan(attributeOf(span, "messaging.batch.message_count"), &n); err != nil {
			t.Error(err)
		}
		records += n
		if span.SpanKind != trace.SpanKindConsumer || span.Parent.IsValid() || span.Status.Code != codes.Unset ||
			attributeOf(span, "millrace.task") != "0_0" || attributeOf(span, "messaging.consumer.group.name") != "app" {
			t.Errorf("%+v", span)
		}
		for _, l := range span.Links {
			if l.SpanContext.TraceState().Get("v") != "1" || !l.SpanContext.IsRemote() {
				t.Error(l)
			}
		}
	}
	if records != 6 {
		t.Error(records, "records in all")
	}
}

// More senders than a span has links are counted, and nothing else is.
func TestTracesLinkToABoundedNumber(t *testing.T) {
	s := newSpans()
	span := millrace.BatchSpan(s, []record.TopicPartition{{Topic: "a"}, {Topic: "b"}})
	for i := range 80 {
		r := sent(i % 70)
		span.Take(record.TopicPartition{}, &r)
	}
	span.End(80, nil)
	got := s.named("process")
	if len(got) != 1 || len(got[0].Links) != 64 || attributeOf(got[0], "millrace.links.omitted") != "5" {
		t.Fatalf("%+v", got)
	}
}

// What a batch and a commit fail of is on their spans; so is what a processor is given.
func TestTracesOfFailures(t *testing.T) {
	c, s := cluster(t), newSpans()
	seen, failing := atomic.Value{}, once()
	b := topology.NewBuilder()
	topology.Consume(topology.From(b, lines), "look", func() topology.Processor[string, string, topology.Void, topology.Void] {
		return &looking{failing, &seen, nil}
	})
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var failed atomic.Bool
	hook := fault.Hook(func(at fault.Site) error {
		if at.Point == fault.CommitEnd && failed.CompareAndSwap(false, true) {
			return errBroken
		}
		return nil
	})
	feed(t, c, "fail")
	n := start(t, topo, onto(t, c, millrace.WithTracerProvider(s), millrace.WithFaults(hook))...)
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.stop()
	for _, name := range []string{"process lines", "commit"} {
		bad := s.named(name)
		bad = slices.DeleteFunc(bad, func(s tracetest.SpanStub) bool { return s.Status.Code != codes.Error })
		if len(bad) == 0 {
			t.Error("no failure of", name)
		}
		for _, b := range bad { // a commit may be under way when the batch fails
			if !strings.Contains(b.Status.Description, errBroken.Error()) || len(b.Events) != 1 {
				t.Errorf("%s has failed: %+v", name, b)
			}
		}
	}
	if id, _ := seen.Load().(trace.SpanID); !slices.Contains(own(s.named("process lines")), id.String()) {
		t.Error("the processor has seen the span", id)
	}
}

// looking is a processor that keeps the span that it was called in.
type looking struct {
	f    func(string) error
	seen *atomic.Value
	ctx  *topology.Context[topology.Void, topology.Void]
}

func (l *looking) Init(ctx *topology.Context[topology.Void, topology.Void]) error {
	l.ctx = ctx
	return nil
}

func (l *looking) Process(r record.Record[string, string]) error {
	l.seen.Store(trace.SpanContextFromContext(l.ctx.Context()).SpanID())
	return l.f(r.Value)
}

func (l *looking) Close() error { return nil }
