package millracetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/query"
)

// moment is when a fault is put into force.
type moment int

const (
	running  moment = iota // while records come
	asking                 // while nothing comes but questions
	starting               // before a node is started, on another disk than the one before
	stopping               // before a node is stopped
)

// after is what is true once a point has failed.
type after struct {
	// restarts: a thread goes RUNNING, REBALANCING, RUNNING. ends: the node ends in ERROR, and one that is started again goes
	// on. Neither: nothing is published.
	restarts, ends bool
	// told is the failure that a caller gets, whose question has met the fault.
	told query.Kind
}

// pointTable is what an error and a panic at each point do. A delay does nothing anywhere. In every case the output is exact
// in the end.
var pointTable = []struct {
	fault.Point
	when       moment
	err, panic after
}{
	{fault.ThreadPoll, running, after{restarts: true}, after{restarts: true}},
	{fault.TaskProcess, running, after{restarts: true}, after{restarts: true}},
	{fault.CommitFlush, running, after{restarts: true}, after{restarts: true}},
	{fault.CommitOffsets, running, after{restarts: true}, after{restarts: true}},
	{fault.CommitEnd, running, after{restarts: true}, after{restarts: true}},
	{fault.CommitApply, running, after{restarts: true}, after{restarts: true}},
	{fault.StoreOpen, starting, after{restarts: true}, after{restarts: true}},
	{fault.StoreGet, running, after{restarts: true}, after{restarts: true}},
	{fault.StoreGet, asking, after{told: query.StoreFailure}, after{told: query.StoreFailure}},
	{fault.StorePut, running, after{restarts: true}, after{restarts: true}},
	{fault.StoreFlush, stopping, after{}, after{}},
	{fault.StoreClose, stopping, after{}, after{}},
	{fault.RestoreBatch, starting, after{restarts: true}, after{restarts: true}},
	{fault.QueryReceive, asking, after{told: query.StoreFailure}, after{told: query.StoreFailure}},
	{fault.QueryReply, asking, after{told: query.StoreFailure}, after{told: query.StoreFailure}},
	{fault.ProducerAppend, running, after{ends: true}, after{restarts: true}},
	{fault.ProducerFlush, running, after{}, after{restarts: true}},
	{fault.ProducerCommit, running, after{}, after{restarts: true}},
	{fault.ProducerAbort, starting, after{ends: true}, after{restarts: true}},
}

func TestEveryPointHasARow(t *testing.T) {
	for _, p := range fault.Points() {
		if !slices.ContainsFunc(pointTable, func(r struct {
			fault.Point
			when       moment
			err, panic after
		}) bool {
			return r.Point == p
		}) {
			t.Errorf("%s is in no row", p)
		}
	}
}

func TestEveryPointCanFail(t *testing.T) {
	for _, row := range pointTable {
		for action, want := range map[string]after{"error": row.err, "panic": row.panic, "delay": {}} {
			if testing.Short() && action != "error" {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d/%s", row.Point, row.when, action), func(t *testing.T) {
				t.Parallel()
				b := &breaking{T: t, c: counting(t), point: row.Point, action: action, want: want, fed: map[string]int64{}}
				b.run(row.when)
			})
		}
	}
}

// breaking is one case.
type breaking struct {
	*testing.T
	c      *millracetest.Cluster
	node   *millracetest.Member
	point  fault.Point
	action string
	want   after
	times  int
	fed    map[string]int64
}

func (b *breaking) feed() {
	b.times++
	feed(b.c, "a", "a", "a", fmt.Sprint("key-", b.times)) // a new key is read from the store
	b.fed["a"] += 3
	b.fed[fmt.Sprint("key-", b.times)]++
}

func (b *breaking) start(m *millracetest.Member, opts ...millrace.Option) {
	opts = append(opts, millrace.WithThreads(1))
	if m == nil {
		b.node = b.c.Launch(wordCount(b.T, new(int)), opts...)
	} else {
		b.node = b.c.Again(m, wordCount(b.T, new(int)), opts...)
	}
}

// inject puts the fault into force.
func (b *breaking) inject() {
	r := b.node.Faults.At(b.point)
	switch b.action {
	case "error":
		r.Error(errInjected)
	case "panic":
		r.Panic(errInjected)
	default:
		r.Delay(20 * time.Millisecond)
	}
}

func (b *breaking) run(when moment) {
	if when == starting {
		b.whileItStarts()
	} else {
		b.start(nil)
		b.node.AwaitReady()
		b.feed()
		b.node.Drain()
		b.inject()
		switch when {
		case asking:
			b.ask()
		case running:
			b.feed()
		case stopping:
			b.node.Stop()
		}
	}
	b.node.Faults.AwaitFired(b, b.point, 1)
	b.settle(when)
	b.feed()
	b.node.Drain()
	exactly(b.T, b.c, b.fed)
	if n, _, err := query.Get(context.Background(), b.node, counts, "a"); n != b.fed["a"] || err != nil {
		b.Errorf("the store has %d of %d: %v", n, b.fed["a"], err)
	}
}

// whileItStarts breaks a node before it has begun, after another one has left state and changelog.
func (b *breaking) whileItStarts() {
	b.start(nil)
	b.node.AwaitReady()
	b.feed()
	b.node.Drain()
	b.node.Stop()
	faults := millracetest.NewFaults(1)
	b.node = b.c.Launch(wordCount(b.T, new(int)), millrace.WithThreads(1), millrace.WithFaults(faults.Hook()))
	b.node.Faults = faults
	b.inject()
}

// ask asks until the fault has fired, and says what the question that met it was told.
func (b *breaking) ask() {
	var told error
	for b.node.Faults.Fired(b.point) == 0 {
		_, _, told = query.Get(context.Background(), b.node, counts, "a")
	}
	f := (*query.Failure)(nil)
	switch {
	case b.want.told == 0 && told != nil:
		b.Errorf("the caller was told %v", told)
	case b.want.told != 0 && (!errors.As(told, &f) || f.Kind != b.want.told):
		b.Errorf("the caller was told %v, not %v", told, b.want.told)
	}
}

// settle waits for what must follow.
func (b *breaking) settle(when moment) {
	probe := b.node.Probe()
	switch {
	case when == stopping:
		b.start(b.node)
	case b.want.ends:
		if err := b.node.Ended(); !errors.Is(err, errInjected) {
			b.Errorf("the node ended with %v", err)
		}
		if !probe.Saw("app", lifecycle.NodePendingError, lifecycle.NodeError) {
			b.Errorf("it did not say so:\n%s", probe)
		}
		b.start(b.node)
	case b.want.restarts:
		b.node.AwaitReady()
		b.node.Await("the thread has a cause", func() bool { return len(probe.Causes("thread-1")) > 0 })
		if cause := probe.Causes("thread-1")[0]; !errors.Is(cause, errInjected) {
			b.Errorf("the cause is %v", cause)
		}
		b.node.AwaitReady()
		want := []fmt.Stringer{lifecycle.ThreadRebalancing, lifecycle.ThreadRunning}
		if when == running {
			want = append([]fmt.Stringer{lifecycle.ThreadRunning}, want...)
		}
		probe.AwaitSaw(b, "thread-1", want...)
	default:
		b.node.AwaitReady()
		if causes := probe.Causes("thread-1"); len(causes) > 0 {
			b.Errorf("nothing should be published, but %v was:\n%s", causes, probe)
		}
	}
}
