package millracetest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/fault"
	"github.com/millrace-io/millrace/millracetest"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// story is lines of words, n of each partition.
func story(c *millracetest.Cluster, n int) map[string]int64 {
	want := map[string]int64{}
	for i := range n {
		var said []string
		for p := range 4 {
			word := fmt.Sprint("w", (i*p)%11)
			said = append(said, word+" all")
			want[word]++
			want["all"]++
		}
		feed(c, said...)
	}
	return want
}

// A cluster that is broken in many ways comes to what its topology says, and to what the test has counted.
func TestOracleFindsNothingWrong(t *testing.T) {
	c := counting(t)
	a := c.Start(wordCount(t, new(int)))
	a.Faults.At(fault.CommitEnd).Nth(3).Error(errInjected)
	a.Faults.At(fault.TaskProcess).Nth(20).Panic("boom")
	want := story(c, 10)
	for a.Faults.Fired(fault.CommitEnd) == 0 || a.Faults.Fired(fault.TaskProcess) == 0 { // how much one commit has is the machine's affair
		for word, n := range story(c, 1) {
			want[word] += n
		}
		a.Drain()
	}
	b := c.Start(wordCount(t, new(int)))
	b.Await("it has tasks", func() bool { return len(b.Owned()) > 0 })
	for word, n := range story(c, 5) {
		want[word] += n
	}
	a.Kill()
	for range 20 {
		_, _, _ = query.Get(context.Background(), b, counts, "all")
	}
	oracle := millracetest.NewOracle(wordCount(t, new(int)))
	millracetest.Expect(oracle, counts, want)
	millracetest.ExpectLast(oracle, totals, want)
	millracetest.Check(c, oracle)
	if replies := b.Probe().Replies("counts"); len(replies) < 20 {
		t.Errorf("the probe has %d replies", len(replies))
	}
}

// pass writes records on as they are; the same topology with another map is a node with a bug.
func pass(tb testing.TB, wrong func(text, func(text) error) error) *topology.Topology {
	tb.Helper()
	b := topology.NewBuilder()
	topology.To(topology.FlatMap(topology.From(b, lines), wrong), topology.NewTopic("copies", codec.String, codec.String))
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// Each mistake that a node can make with its outputs is found, under its own name.
func TestOracleFindsWhatIsWrongWithOutputs(t *testing.T) {
	right := func(r text, emit func(text) error) error { return emit(r) }
	for _, law := range []millracetest.Law{millracetest.Lost, millracetest.Doubled, millracetest.Invented, millracetest.Order} {
		t.Run(string(law), func(t *testing.T) {
			t.Parallel()
			var held *text
			wrong := func(r text, emit func(text) error) error {
				switch {
				case law == millracetest.Lost && r.Value == "b":
					return nil
				case law == millracetest.Doubled && r.Value == "b":
					if err := emit(r); err != nil {
						return err
					}
				case law == millracetest.Invented && r.Value == "b":
					r.Value = "x"
				case law == millracetest.Order && r.Value == "b":
					held = &r
					return nil
				}
				if err := emit(r); err != nil || held == nil {
					return err
				}
				late := *held
				held = nil
				return emit(late)
			}
			c := millracetest.NewCluster(t, "app")
			c.CreateTopic("lines", 1)
			c.CreateTopic("copies", 1)
			m := c.Start(pass(t, wrong))
			millracetest.Produce(c, lines, millracetest.R("k", "a"), millracetest.R("k", "b"), millracetest.R("k", "c"))
			m.Drain()
			found := millracetest.Violations(c, millracetest.NewOracle(pass(t, right)))
			if !slices.ContainsFunc(found, func(v millracetest.Violation) bool { return v.Law == law && strings.Contains(v.Where, "copies-0") }) {
				t.Errorf("found %v", found)
			}
			if report := millracetest.Report(c, found); !strings.Contains(report, string(law)+": copies-0") || !strings.Contains(report, "thread-1") {
				t.Errorf("the report is\n%s", report)
			}
		})
	}
}

// spoiled counts with a start other than nothing: stores and changelogs are wrong, and outputs with them.
func spoiled(tb testing.TB, start int64) *topology.Topology {
	tb.Helper()
	b := topology.NewBuilder()
	topology.To(topology.Aggregate(topology.From(b, lines), counts, func() int64 { return start }, func(_, _ string, n int64) (int64, error) { return n + 1, nil }), totals)
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func laws(found []millracetest.Violation) (all []millracetest.Law) {
	for _, v := range found {
		if !slices.Contains(all, v.Law) {
			all = append(all, v.Law)
		}
	}
	slices.Sort(all)
	return all
}

func TestOracleFindsWhatIsWrongWithTheRest(t *testing.T) {
	c := counting(t)
	m := c.Start(spoiled(t, 1), millrace.WithThreads(1))
	m.Faults.At(fault.ProducerAbort).Error(errInjected)
	millracetest.Produce(c, lines, millracetest.R("k", "a"), millracetest.R("k", "b"))
	m.Drain()
	oracle := millracetest.NewOracle(spoiled(t, 0))
	millracetest.Expect(oracle, counts, map[string]int64{"k": 2, "l": 1})
	found := millracetest.Violations(c, oracle)
	if got := fmt.Sprint(laws(found)); got != "[changelog expected invented store vacuous]" {
		t.Errorf("%s:\n%s", got, millracetest.Report(c, found))
	}
	if found := millracetest.Violations(c, millracetest.NewOracle(spoiled(t, 0), millracetest.AtLeastOnce())); fmt.Sprint(laws(found)) != "[vacuous]" {
		t.Errorf("at least once more than enough is enough: %v", found)
	}
	// Nobody processes what comes now, nor says what is kept.
	m.Stop()
	millracetest.Produce(c, lines, millracetest.R("k", "c"))
	found = millracetest.Violations(c, millracetest.NewOracle(spoiled(t, 1), millracetest.Settling(time.Millisecond)))
	if got := fmt.Sprint(laws(found)); got != "[behind changelog lost not-running unserved vacuous]" {
		t.Errorf("%s:\n%s", got, millracetest.Report(c, found))
	}
}

// Nothing is left behind a cluster, whatever has happened to it.
func TestNothingIsLeftBehindACluster(t *testing.T) {
	c := counting(t)
	a := c.Start(wordCount(t, new(int)))
	story(c, 2)
	a.Drain()
	a.Kill()
	b := c.Again(a, wordCount(t, new(int)))
	b.Drain()
	millracetest.CheckClosed(c)
}

// A crash before or after a point, and the start after it.
func TestCrashesAtPoints(t *testing.T) {
	for _, p := range []fault.Point{fault.CommitFlush, fault.CommitOffsets, fault.CommitEnd, fault.CommitApply, fault.TaskProcess} {
		for when, crash := range map[string]func(*millracetest.Rule, *millracetest.Member){"before": (*millracetest.Rule).CrashBefore, "after": (*millracetest.Rule).CrashAfter} {
			if testing.Short() && p != fault.CommitEnd {
				continue
			}
			t.Run(fmt.Sprint(when, " ", p), func(t *testing.T) {
				t.Parallel()
				c := counting(t)
				a := c.Start(wordCount(t, new(int)))
				want := story(c, 1)
				a.Drain()
				crash(a.Faults.At(p), a)
				for word, n := range story(c, 1) {
					want[word] += n
				}
				a.Faults.AwaitFired(t, p, 1)
				a.Kill()
				c.Again(a, wordCount(t, new(int)))
				oracle := millracetest.NewOracle(wordCount(t, new(int)))
				millracetest.Expect(oracle, counts, want)
				millracetest.Check(c, oracle)
			})
		}
	}
}
