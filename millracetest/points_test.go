package millracetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
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
	running   moment = iota // while records come
	asking                  // while nothing comes but questions
	starting                // before a node is started, on another disk than the one before
	stopping                // before a node is stopped
	again                   // before a node is started on the disk of the one before
	reasking                // as asking, when the store's blocks are on the disk and not in memory
	rerunning               // as running, then
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
	{fault.StoreGet, rerunning, after{restarts: true}, after{restarts: true}}, // a store that began empty is not asked
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

// diskTable is the same of the points of the disk, where nothing panics: an error that has no name, and a full disk.
var diskTable = []struct {
	fault.Point
	when moment
	// file narrows the fault down. Directories are made durable as far as the disk allows, so an error there is none; and an
	// engine that cannot write a manifest leaves a goroutine behind, which package store tests in a process of its own.
	file      string
	err, full after
}{
	{fault.DiskOpen, starting, options, after{restarts: true}, after{restarts: true}},
	{fault.DiskOpen, again, options, after{}, after{restarts: true}}, // what cannot be opened is moved aside, and comes back from the changelog
	{fault.DiskRead, again, "", after{}, after{restarts: true}},
	{fault.DiskRead, reasking, "", after{told: query.StoreFailure}, after{told: query.StoreFailure}},
	{fault.DiskRead, rerunning, "", after{restarts: true}, after{restarts: true}},
	{fault.DiskWrite, starting, options, after{restarts: true}, after{restarts: true}},
	{fault.DiskWrite, stopping, "", after{}, after{}}, // the flush is tried again
	{fault.DiskSync, starting, options, after{restarts: true}, after{restarts: true}},
	{fault.DiskSync, stopping, "", after{}, after{}},
}

// options is what the engine writes its options to.
const options = ".dbtmp"

// errFull is a full disk.
var errFull = fmt.Errorf("%w: %w", errInjected, syscall.ENOSPC)

func TestEveryDiskCanFail(t *testing.T) {
	for _, row := range diskTable {
		for action, want := range map[string]after{"error": row.err, "full": row.full, "delay": {}} {
			if testing.Short() && action != "error" || action == "full" && row.full == row.err {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d/%s", row.Point, row.when, action), func(t *testing.T) {
				t.Parallel()
				b := &breaking{T: t, c: counting(t), point: row.Point, action: action, want: want, file: row.file, fed: map[string]int64{}}
				b.run(row.when)
			})
		}
	}
}

// refused is a test that is told once that it has failed.
type refused struct {
	millracetest.TB
	said string
}

func (r *refused) Helper()                           {}
func (r *refused) Fatalf(format string, args ...any) { r.said = fmt.Sprintf(format, args...) }

func TestDisksDoNotPanic(t *testing.T) {
	f := millracetest.NewFaults(1)
	f.At(fault.DiskWrite).Always().Panic("boom")
	if err := f.Hook()(fault.Site{Point: fault.DiskWrite}); err != nil {
		t.Errorf("the rule is in force: %v", err)
	}
	told := &refused{}
	f.AwaitFired(told, fault.DiskWrite, 1)
	if !errors.Is(f.Refused(), millracetest.ErrCannotPanic) || !strings.Contains(told.said, "disk.write") || !strings.Contains(told.said, "use Error") {
		t.Errorf("%v; the test is told %q", f.Refused(), told.said)
	}
}

func TestEveryPointHasARow(t *testing.T) {
	for _, p := range fault.Points() {
		if slices.ContainsFunc(diskTable, func(r struct {
			fault.Point
			when      moment
			file      string
			err, full after
		}) bool {
			return r.Point == p
		}) {
			continue
		}
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
	file   string
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

// many are keys that fill more than the block of a table which opening it reads.
func many() (words []string) {
	for i := range 2000 {
		words = append(words, fmt.Sprintf("many-%04d-%s", i, strings.Repeat("x", 300)))
	}
	return words
}

func (b *breaking) many() {
	feed(b.c, many()...)
	for _, word := range many() {
		b.fed[word]++
	}
}

func (b *breaking) start(m *millracetest.Member, opts ...millrace.Option) {
	opts = append(opts, millrace.WithThreads(1), millrace.WithSessionTimeout(20*time.Second)) // nobody dies here without saying so
	if m == nil {
		b.node = b.c.Launch(wordCount(b.T, new(int)), opts...)
	} else {
		b.node = b.c.Again(m, wordCount(b.T, new(int)), opts...)
	}
}

// inject puts the fault into force.
func (b *breaking) inject() {
	r := b.node.Faults.At(b.point).Where(func(s fault.Site) bool { return strings.Contains(s.File, b.file) })
	switch b.action {
	case "error":
		r.Error(errInjected)
	case "panic":
		r.Panic(errInjected)
	case "full":
		r.Error(errFull)
	default:
		r.Delay(20 * time.Millisecond)
	}
}

func (b *breaking) run(when moment) {
	b.start(nil)
	b.node.AwaitReady()
	b.feed()
	if when == reasking || when == rerunning {
		b.many()
	}
	b.node.Drain()
	switch when {
	case starting, again:
		b.node.Stop()
		b.whileItStarts(when)
	case rerunning:
		b.rerun()
	case reasking:
		b.node.Stop()
		b.start(b.node)
		fallthrough
	default:
		b.inject()
		switch when {
		case asking:
			b.ask("a")
		case reasking:
			b.ask(many()...)
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

// rerun starts the node again with nothing in its cache and feeds it, until the loop is who meets the fault. The engine reads
// by itself too, and repeats what has failed.
func (b *breaking) rerun() {
	for met := false; !met; met = !b.want.restarts || caused(b.node, "thread-1") {
		b.node.Stop()
		b.start(b.node)
		b.inject()
		b.many()
		b.node.Faults.AwaitFired(b, b.point, 1)
		b.node.Drain()
	}
}

// whileItStarts breaks a node before it has begun: on an empty disk, or again on that of the one before.
func (b *breaking) whileItStarts(when moment) {
	faults, before := millracetest.NewFaults(1), b.node
	b.node = &millracetest.Member{Faults: faults}
	b.inject()
	if own := millrace.WithFaults(faults.Hook()); when == starting {
		b.start(nil, own)
	} else {
		b.start(before, own)
	}
	b.node.Faults = faults
}

// ask asks until a question has met the fault, and says what it was told. The engine reads by itself too: what it has met is
// put into force again.
func (b *breaking) ask(keys ...string) {
	told, asked := error(nil), 0
	for round := 1; round == 1 || told == nil && b.want.told != 0; round++ {
		if round > 1 {
			b.inject()
		}
		for ; b.node.Faults.Fired(b.point) < round; asked++ {
			if asked == 10_000 {
				b.Fatal("no question meets the fault")
			}
			_, _, told = query.Get(context.Background(), b.node, counts, keys[asked%len(keys)])
		}
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
		probe.AwaitSaw(b, "app", lifecycle.NodePendingError, lifecycle.NodeError)
		b.start(b.node)
	case b.want.restarts:
		b.node.AwaitReady()
		b.node.Await("the thread says why", func() bool { return caused(b.node, "thread-1") })
		b.node.AwaitReady()
		want := []fmt.Stringer{lifecycle.ThreadRebalancing, lifecycle.ThreadRunning}
		if when == running || when == rerunning {
			want = append([]fmt.Stringer{lifecycle.ThreadRunning}, want...)
		}
		probe.AwaitSaw(b, "thread-1", want...)
	default:
		b.node.AwaitReady()
		if caused(b.node, "thread-1") {
			b.Errorf("nothing of the fault should be published:\n%s", probe)
		}
	}
}
