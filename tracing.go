package millrace

import (
	"bytes"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/thread"
	"github.com/millrace-io/millrace/topology"
)

// WithTracerProvider traces the node with OpenTelemetry's interface: a span for each batch of records, linked to the spans that
// their headers name (W3C trace context, at most 64 of them), and one for each commit, linked to its batches.
// docs/metrics.md says what they hold. Without a provider, or with nil, no header is looked at.
func WithTracerProvider(p trace.TracerProvider) Option { return func(o *options) { o.traces = p } }

// maxLinks bounds the links of one span. What is left out is counted.
const maxLinks = 64

// Headers longer than this are no trace context: its first version has 55 bytes, and a state has 512 that must be kept.
const (
	longestTraceParent = 256
	longestTraceState  = 8 << 10
)

// Names of the headers, as W3C gives them.
const (
	traceParent = "traceparent"
	traceState  = "tracestate"
)

// tracer makes the spans of a node. It has no state: each span is its loop's.
type tracer struct {
	of    trace.Tracer
	group attribute.KeyValue
}

// newTracer is nil if nobody wants spans.
func newTracer(n *Node) *tracer {
	if n.opts.traces == nil {
		return nil
	}
	return &tracer{n.opts.traces.Tracer(scopeName), attribute.String("messaging.consumer.group.name", n.app)}
}

// ofTasks and ofThreads are the tracer as rooms take it: their nil means that nothing is traced.
func (t *tracer) ofTasks() task.Tracer {
	if t == nil {
		return nil
	}
	return t
}

func (t *tracer) ofThreads() thread.Tracer {
	if t == nil {
		return nil
	}
	return t
}

var kafkaSystem = attribute.String("messaging.system", "kafka")

// Batch implements task.Tracer. A batch has records of many traces, so it is the root of its own, as OpenTelemetry's
// conventions for messaging have it; links lead to the others.
func (t *tracer) Batch(id record.TaskID, sources []record.TopicPartition) task.Span {
	name := "process"
	attributes := []attribute.KeyValue{kafkaSystem, t.group, attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.operation.name", "process"), attribute.String("millrace.task", id.String())}
	if topic, one := oneTopic(sources); one {
		name += " " + topic
		attributes = append(attributes, attribute.String("messaging.destination.name", topic))
	}
	ctx, span := t.of.Start(context.Background(), name, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...))
	return &batchSpan{ctx: ctx, span: span, recording: span.IsRecording()}
}

// oneTopic is the topic of all sources, if they have one.
func oneTopic(sources []record.TopicPartition) (topic string, one bool) {
	for i, tp := range sources {
		if i > 0 && tp.Topic != topic {
			return "", false
		}
		topic = tp.Topic
	}
	return topic, topic != ""
}

// batchSpan is the span of a batch. It is one loop's.
type batchSpan struct {
	ctx       context.Context
	span      trace.Span
	recording bool
	// own are the headers for what the batch sends, made when they are asked for.
	own  record.Headers
	made bool
	// seen are the contexts that it is linked to, last the header of the record before, omitted how many records had one that
	// there was no room for.
	seen    []trace.SpanContext
	last    []byte
	omitted int
}

// Context implements task.Span.
func (s *batchSpan) Context() context.Context { return s.ctx }

// Headers implements task.Span. A span that is not sampled leaves records the context that they came with: its own would
// end their trace.
func (s *batchSpan) Headers() record.Headers {
	if !s.made {
		s.made = true
		if s.span.SpanContext().IsSampled() {
			carrier := propagation.MapCarrier{}
			propagation.TraceContext{}.Inject(s.ctx, carrier)
			s.own = record.Headers{{Key: traceParent, Value: []byte(carrier[traceParent])}, {Key: traceState}}
			if state := carrier[traceState]; state != "" { // a root has one only from its sampler
				s.own[1].Value = []byte(state)
			}
		}
	}
	return s.own
}

// Take implements task.Span.
func (s *batchSpan) Take(_ record.TopicPartition, r *record.Raw) {
	if !s.recording || len(r.Headers) == 0 {
		return
	}
	parent, ok := r.Headers.Last(traceParent)
	if !ok || bytes.Equal(parent, s.last) {
		return
	}
	s.last = append(s.last[:0], parent[:min(len(parent), longestTraceParent)]...)
	sender := senderOf(r.Headers)
	switch {
	case !sender.IsValid() || s.linked(sender):
	case len(s.seen) == maxLinks:
		s.omitted++
	default:
		s.seen = append(s.seen, sender)
		s.span.AddLink(trace.Link{SpanContext: sender})
	}
}

func (s *batchSpan) linked(to trace.SpanContext) bool {
	for i := range s.seen {
		if s.seen[i].SpanID() == to.SpanID() && s.seen[i].TraceID() == to.TraceID() {
			return true
		}
	}
	return false
}

// Answered implements task.Span. What is answered with Fail is the error of End.
func (s *batchSpan) Answered(why error, r topology.Response) {
	if r == topology.Fail {
		return
	}
	s.span.RecordError(why, trace.WithAttributes(attribute.String("millrace.response", r.String())))
}

// End implements task.Span.
func (s *batchSpan) End(n int, err error) {
	s.span.SetAttributes(attribute.Int("messaging.batch.message_count", n))
	if s.omitted > 0 {
		s.span.SetAttributes(attribute.Int("millrace.links.omitted", s.omitted))
	}
	s.seen, s.last = nil, nil // the span itself is kept until its commit
	end(s.span, err)
}

// end ends a span as its error says.
func end(s trace.Span, err error) {
	if err != nil {
		s.RecordError(err)
		s.SetStatus(codes.Error, err.Error())
	}
	s.End()
}

// Commit implements thread.Tracer.
func (t *tracer) Commit(name string, began time.Time, batches []task.Span) thread.CommitSpan {
	var links []trace.Link
	for _, b := range batches[:min(len(batches), maxLinks)] {
		links = append(links, trace.LinkFromContext(b.Context()))
	}
	_, span := t.of.Start(context.Background(), "commit", trace.WithNewRoot(), trace.WithTimestamp(began), trace.WithLinks(links...),
		trace.WithAttributes(kafkaSystem, t.group, attribute.String("millrace.thread", name), attribute.Int("millrace.batches", len(batches))))
	return commitSpan{span}
}

type commitSpan struct{ trace.Span }

// End implements thread.CommitSpan.
func (s commitSpan) End(err error) { end(s.Span, err) }

// senderOf is the span that has sent a record, by its headers: invalid if they name none. They come from outside, so what is
// longer than a context can be is not parsed.
func senderOf(h record.Headers) trace.SpanContext {
	carrier := propagation.MapCarrier{}
	if v, _ := h.Last(traceParent); len(v) <= longestTraceParent {
		carrier[traceParent] = string(v)
	}
	if v, _ := h.Last(traceState); len(v) <= longestTraceState {
		carrier[traceState] = string(v)
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
