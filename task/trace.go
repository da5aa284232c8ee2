package task

import (
	"context"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// Tracer begins spans. Without one a task traces nothing: no header is looked at, and nothing is allocated.
type Tracer interface {
	// Batch begins the span of a batch: the records that one call of Process takes up, from the first of them on. A call that
	// finds none has no span.
	Batch(id record.TaskID, sources []record.TopicPartition) Span
}

// Span is of one batch. Its methods are called on the task's goroutine, and nothing but Context after End.
type Span interface {
	// Context has the span in it, for what processors call.
	Context() context.Context
	// Headers are what each record carries that is sent while the batch is processed, in the place of headers of the same
	// names; one with a nil Value only takes those away. There are none if the span is not sampled.
	Headers() record.Headers
	// Take says that a record is about to be processed. What it refers to must not be kept.
	Take(source record.TopicPartition, r *record.Raw)
	// Answered says that a record has failed, and what a handler has answered.
	Answered(why error, r topology.Response)
	// End says how many records were passed, and what has ended the batch early; nil is its regular end.
	End(n int, err error)
}

// maxSpans bounds how many batches of an interval are remembered for the span of its commit.
const maxSpans = 128

// endSpan ends the span that a record of this call of Process has begun, if one has.
func (t *Task) endSpan(err error) {
	if s := t.span; s != nil {
		t.span = nil
		s.End(t.taken, err)
		if len(t.spans) < maxSpans {
			t.spans = append(t.spans, s)
		}
	}
}

// trace shows the span a record that is about to be processed.
func (t *Task) trace(b *buffer, r *record.Raw) {
	if t.span == nil {
		t.span = t.cfg.Tracer.Batch(t.cfg.ID, t.cfg.Sources)
	}
	t.span.Take(b.source, r)
}

// Context implements topology.Host.
func (h host) Context() context.Context {
	if h.t.span != nil {
		return h.t.span.Context()
	}
	return context.Background()
}

// marked is r with the headers of the span, in memory of the output: Append copies it.
func (o *output) marked(r *record.Raw, own record.Headers) *record.Raw {
	if len(own) == 0 {
		return r
	}
	o.headers = o.headers[:0]
	for _, h := range r.Headers {
		if _, replaced := own.Last(h.Key); !replaced {
			o.headers = append(o.headers, h)
		}
	}
	for _, h := range own {
		if h.Value != nil {
			o.headers = append(o.headers, h)
		}
	}
	o.raw = *r
	o.raw.Headers = o.headers
	return &o.raw
}
