package thread

import (
	"time"

	"github.com/millrace-io/millrace/task"
)

// Tracer begins spans. Without one a loop traces nothing.
type Tracer interface {
	// Commit begins the span of a commit of a thread, at a moment that may have passed. It ends the interval in which these
	// batches were processed.
	Commit(thread string, began time.Time, batches []task.Span) CommitSpan
}

// CommitSpan is of one commit.
type CommitSpan interface {
	// End comes once: nil when the state has what Kafka has, or why the commit was not made, or nobody knows.
	End(err error)
}

// trace begins the span of a commit whose units are prepared.
func (l *Loop) trace(c *commit) {
	if l.cfg.Tracer == nil {
		return
	}
	var batches []task.Span
	for _, u := range c.units {
		batches = append(batches, u.Spans...)
	}
	c.span = l.cfg.Tracer.Commit(l.slot.Name, c.began, batches)
}

// traced ends the span, if there is one that has not ended.
func (c *commit) traced(err error) {
	if c.span != nil {
		c.span.End(err)
		c.span = nil
	}
}
