package millrace

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/task"
)

// Purge does at once what a running node does every half minute.
func (n *Node) Purge(ctx context.Context) { n.purge(ctx) }

// WatchThreadsIn looks at every thread's pulse as if it were so much later: a test that waited for a short patience to end
// would see threads given up that are only slow.
func (n *Node) WatchThreadsIn(d time.Duration) {
	t := n.live()
	for _, s := range t.all() {
		t.judge(s, time.Now().Add(d))
	}
}

// AddSlot is AddThread as far as it comes when the node ends meanwhile: the thread gets no actor.
func (n *Node) AddSlot() error {
	_, err := n.live().newSlot()
	return err
}

// WithDirectory changes how the state directory is opened.
func WithDirectory(f func(*store.DirectoryOptions)) Option {
	return func(o *options) { o.directory = f }
}

// BatchSpan begins the span of a batch from sources.
func BatchSpan(p trace.TracerProvider, sources []record.TopicPartition) task.Span {
	n := &Node{app: "app"}
	n.opts.traces = p
	return newTracer(n).Batch(record.TaskID{}, sources)
}
