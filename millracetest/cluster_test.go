package millracetest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/record"
)

// counting is a cluster with the word count's topics.
func counting(t *testing.T) *millracetest.Cluster {
	t.Helper()
	c := millracetest.NewCluster(t, "app")
	c.CreateTopic("lines", 4)
	c.CreateTopic("totals", 4)
	return c
}

func feed(c *millracetest.Cluster, words ...string) {
	var records []millracetest.Record[string, string]
	for i, w := range words {
		records = append(records, line(w).In(int32(i%4)))
	}
	millracetest.Produce(c, lines, records...)
}

func exactly(t *testing.T, c *millracetest.Cluster, want map[string]int64) {
	t.Helper()
	same(t, millracetest.Latest(millracetest.Consume(c, totals)), want)
}

func TestClusterCountsAcrossMembers(t *testing.T) {
	c := counting(t)
	a := c.Start(wordCount(t, new(int)))
	feed(c, "x y", "x")
	a.Drain()
	b := c.Start(wordCount(t, new(int)))
	b.Await("the two share the tasks", func() bool { return len(a.Owned()) > 0 && len(b.Owned()) > 0 && len(a.Owned())+len(b.Owned()) == 8 })
	c.MoveLeader("lines", 0)
	feed(c, "y", "y", "z", "x")
	a.Drain()
	exactly(t, c, map[string]int64{"x": 3, "y": 3, "z": 1})
	a.Stop()
	b.Await("the other one has all", func() bool { return len(b.Owned()) == 8 })
	feed(c, "z")
	b.Drain()
	b.Rebalance()
	exactly(t, c, map[string]int64{"x": 3, "y": 3, "z": 2})
	b.Stop()
}

// A member that is killed is replaced after its session, and one that comes back in its place goes on at once.
func TestKilledMemberComesBack(t *testing.T) {
	c := counting(t)
	a := c.Start(wordCount(t, new(int)))
	feed(c, "x y", "x")
	a.Drain()
	a.Kill()
	feed(c, "y", "y")
	b := c.Again(a, wordCount(t, new(int)))
	b.Drain()
	exactly(t, c, map[string]int64{"x": 2, "y": 3})
}

// A member that is cut off for longer than its session loses its tasks to another, and gets some back.
func TestPartitionedAndPausedMembersAreNoDanger(t *testing.T) {
	for name, stop := range map[string]func(m *millracetest.Member) (goOn func()){
		"partition": func(m *millracetest.Member) func() { m.Partition(); return m.Heal },
		"pause":     func(m *millracetest.Member) func() { m.Pause(); return m.Resume },
	} {
		t.Run(name, func(t *testing.T) {
			c := counting(t)
			a := c.Start(wordCount(t, new(int)))
			b := c.Start(wordCount(t, new(int)))
			b.Await("the two share the tasks", func() bool { return len(a.Owned()) > 0 && len(a.Owned())+len(b.Owned()) == 8 })
			feed(c, "x y", "x")
			a.Drain()
			goOn := stop(a)
			feed(c, "x", "y", "z", "z")
			b.Await("the other one has all", func() bool { return len(b.Owned()) == 8 })
			b.Drain()
			exactly(t, c, map[string]int64{"x": 3, "y": 2, "z": 2})
			goOn()
			feed(c, "z", "z", "z", "z")
			a.Await("it has tasks again", func() bool { return len(a.Owned()) > 0 && len(a.Owned())+len(b.Owned()) == 8 })
			b.Drain()
			exactly(t, c, map[string]int64{"x": 3, "y": 2, "z": 6})
		})
	}
}

var errInjected = errors.New("injected")

// caused says that an actor has told of the fault. It may have told of others: a session ends while a machine stands still.
func caused(m *millracetest.Member, of string) bool {
	return slices.ContainsFunc(m.Probe().Causes(of), func(err error) bool { return errors.Is(err, errInjected) })
}

func TestProbeSeesARestart(t *testing.T) {
	c := counting(t)
	m := c.Start(wordCount(t, new(int)), millrace.WithThreads(1))
	m.Faults.At(fault.CommitEnd).Error(errInjected)
	feed(c, "x")
	m.Faults.AwaitFired(t, fault.CommitEnd, 1)
	m.Probe().AwaitSaw(t, "thread-1", lifecycle.ThreadRunning, lifecycle.ThreadRebalancing, lifecycle.ThreadRunning)
	m.Await("the thread says why", func() bool { return caused(m, "thread-1") })
	m.Drain()
	exactly(t, c, map[string]int64{"x": 1})
	if text := m.Probe().String(); !strings.Contains(text, "because") || !strings.Contains(text, "injected") {
		t.Errorf("the transcript does not tell it:\n%s", text)
	}
}

func TestFaultsBlockAndGoOn(t *testing.T) {
	c := counting(t)
	m := c.Start(wordCount(t, new(int)))
	release := m.Faults.At(fault.CommitFlush).Nth(2).Block()
	feed(c, "x", "x")
	m.Faults.AwaitFired(t, fault.CommitFlush, 1)
	release()
	m.Drain()
	exactly(t, c, map[string]int64{"x": 2})
}

func TestRulesFireWhereAndAsOftenAsTheySay(t *testing.T) {
	for name, test := range map[string]struct {
		rule  func(*millracetest.Rule) *millracetest.Rule
		fires string // of six times at the site
	}{
		"once":   {func(r *millracetest.Rule) *millracetest.Rule { return r }, "x....."},
		"nth":    {func(r *millracetest.Rule) *millracetest.Rule { return r.Nth(3) }, "..x..."},
		"times":  {func(r *millracetest.Rule) *millracetest.Rule { return r.Nth(2).Times(3) }, ".xxx.."},
		"always": {func(r *millracetest.Rule) *millracetest.Rule { return r.Always() }, "xxxxxx"},
		"store":  {func(r *millracetest.Rule) *millracetest.Rule { return r.Store("counts") }, "x....."},
		"other":  {func(r *millracetest.Rule) *millracetest.Rule { return r.Store("other").Always() }, "......"},
		"thread": {func(r *millracetest.Rule) *millracetest.Rule { return r.Thread("thread-2").Always() }, "......"},
		"function": {func(r *millracetest.Rule) *millracetest.Rule {
			return r.Where(func(s fault.Site) bool { return s.Offset == 4 })
		}, "....x."},
		"task": {func(r *millracetest.Rule) *millracetest.Rule { return r.Task(record.TaskID{Partition: 1}).Always() }, "......"},
	} {
		f := millracetest.NewFaults(1)
		test.rule(f.At(fault.StoreGet)).Error(errInjected)
		got := ""
		for i := range int64(6) {
			if err := f.Hook()(fault.Site{Point: fault.StoreGet, Store: "counts", Thread: "thread-1", Offset: i}); errors.Is(err, errInjected) {
				got += "x"
			} else {
				got += "."
			}
		}
		if got != test.fires || f.Fired(fault.StoreGet) != strings.Count(got, "x") || f.Reached(fault.StoreGet) != 6 {
			t.Errorf("%s: %s, want %s", name, got, test.fires)
		}
	}
}

// A chance is of each time, and the seed decides.
func TestChanceIsTheSeeds(t *testing.T) {
	fired := func(seed uint64) (times []int) {
		f := millracetest.NewFaults(seed)
		f.At(fault.ThreadPoll).Always().Chance(0.25).Error(errInjected)
		for i := range 1000 {
			if f.Hook()(fault.Site{Point: fault.ThreadPoll}) != nil {
				times = append(times, i)
			}
		}
		return times
	}
	a, b, c := fired(1), fired(1), fired(2)
	if len(a) < 200 || len(a) > 300 || !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("%d, %d and %d of 1000", len(a), len(b), len(c))
	}
}

// A commit is under way when the network goes, and cannot end any more. Killing the node ends everything all the same: what is
// left running is found when the package's tests are over.
func TestKilledInACommitThatCannotEnd(t *testing.T) {
	c := counting(t)
	m := c.Start(wordCount(t, new(int)))
	m.Faults.At(fault.CommitFlush).Do(func(fault.Site) error { m.Partition(); return nil })
	feed(c, "x", "y")
	m.Faults.AwaitFired(t, fault.CommitFlush, 1)
	m.Kill()
	n := c.Again(m, wordCount(t, new(int)))
	n.Drain()
	exactly(t, c, map[string]int64{"x": 1, "y": 1})
}
