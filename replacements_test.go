package millrace_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// descriptors is how many this process has open; -1 where that is not to be seen.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// starter fails when its task starts, as often as attempts says.
type starter struct {
	ctx      *topology.Context[string, int64]
	starting func() error
}

func (s *starter) Init(ctx *topology.Context[string, int64]) error {
	s.ctx = ctx
	return s.starting()
}

func (s *starter) Close() error { return nil }

func (s *starter) Process(r record.Record[string, string]) error {
	return s.ctx.Forward(record.New(r.Key, int64(len(r.Value)), r.Timestamp))
}

// A thread that is replaced a thousand times leaves nothing behind: no goroutine, no descriptor.
func TestThousandReplacementsLeaveNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	const replacements, warm = 1000, 50
	c := cluster(t)
	var failures, goroutines, files atomic.Int64
	starting := func() error {
		switch n := failures.Add(1); {
		case n == warm:
			goroutines.Store(int64(runtime.NumGoroutine()))
			files.Store(int64(descriptors()))
		case n > replacements:
			return nil
		}
		return errBroken
	}
	b := topology.NewBuilder()
	topology.To(topology.Process(topology.From(b, lines), "starter", func() topology.Processor[string, string, string, int64] {
		return &starter{starting: starting}
	}), out)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	node, err := millrace.New("app", topo, onto(t, c, millrace.WithGuarantee(millrace.AtLeastOnce),
		millrace.WithRestarts(actors.Intensity{Max: 2 * replacements, Window: time.Hour, First: time.Microsecond, Cap: time.Microsecond}))...)
	if err != nil {
		t.Fatal(err)
	}
	n := &running{node, t, make(chan error, 1)}
	go func() { n.done <- n.Run(context.Background()) }()
	t.Cleanup(n.stop)
	if err := n.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if th := n.Threads()[0]; th.Epoch != replacements+1 || th.State != lifecycle.ThreadRunning {
		t.Error(th)
	}
	feed(t, c, "x", "x", "x", "x")
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The measure was taken in the middle of a restart, with a task open or none. One in ten replacements that left
	// something behind would show.
	flat := func() bool {
		return int64(runtime.NumGoroutine()) <= goroutines.Load()+replacements/10 && int64(descriptors()) <= files.Load()+replacements/10
	}
	await(t.Context(), t, flat, func() string {
		return fmt.Sprintf("goroutines %d, were %d; descriptors %d, were %d", runtime.NumGoroutine(), goroutines.Load(), descriptors(), files.Load())
	})
}
