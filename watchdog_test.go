package millrace_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/thread"
	"github.com/millrace-io/millrace/topology"
)

// blocking counts lines, and does not return from one that says "block" until let is closed; entered hears that it has come.
func blocking(t testing.TB, let <-chan struct{}) (topo *topology.Topology, entered <-chan struct{}) {
	t.Helper()
	in := make(chan struct{}, 1)
	b := topology.NewBuilder()
	kept := topology.Filter(topology.From(b, lines), func(r record.Record[string, string]) bool {
		if r.Value == "block" {
			select {
			case in <- struct{}{}:
			default:
			}
			<-let
		}
		return true
	})
	keyed := topology.SelectKey(kept, func(r record.Record[string, string]) string { return r.Value })
	topology.To(topology.Count(topology.Through(keyed, words), counts), out)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo, in
}

// A thread that does not step is flagged, and its stores answer with the flag; when it steps again the flag goes.
func TestStuckThreadIsFlaggedAndItsStoresAnswer(t *testing.T) {
	c := cluster(t)
	let := make(chan struct{})
	topo, entered := blocking(t, let)
	n := start(t, topo, onto(t, c, millrace.WithStuckAfter(50*time.Millisecond))...)
	feed(t, c, "a", "a")
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	feed(t, c, "block")
	<-entered
	await(t.Context(), t, func() bool { return n.Threads()[0].Stuck && lookUp(t, n, "a").GetStuck() }, func() string { return fmt.Sprint(n.Threads()) })
	if a := find(n.Tree(), millrace.KindThread, "/thread-1"); !a.Stuck || a.State != "RUNNING" {
		t.Errorf("%+v", a)
	}
	if v, _, err := query.Get(t.Context(), n.Node, counts, "a"); err != nil || v != 2 {
		t.Error(v, err)
	}
	close(let)
	await(t.Context(), t, func() bool { return !n.Threads()[0].Stuck }, func() string { return fmt.Sprint(n.Threads()) })
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var r *querypb.Reply // a machine that is slow may have it flagged once more
	await(t.Context(), t, func() bool { r = lookUp(t, n, "block"); return !r.GetStuck() }, func() string { return fmt.Sprint(r) })
	if !r.GetValue().GetPresent() || n.Threads()[0].Epoch != 1 {
		t.Errorf("%v %v", r, n.Threads())
	}
}

// lookUp asks for a key of counts as another process would.
func lookUp(t *testing.T, n *running, key string) *querypb.Reply {
	t.Helper()
	p := record.Partition([]byte(key), 4)
	r, err := n.Ask(t.Context(), &querypb.Get{About: &querypb.About{Store: "counts", Partition: &p}, Key: []byte(key)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// After the max poll interval the thread leaves the group: its stores answer Migrated while nobody has them, a
// replacement, or another node, takes its tasks over, and what the old loop does when it comes back counts for nothing.
func TestOverdueThreadIsGivenUp(t *testing.T) {
	bothGuarantees(t, func(t *testing.T, c *embedded.Cluster, opts ...millrace.Option) {
		let := make(chan struct{})
		failures := make(chan millrace.Failure, 8)
		decide := make(chan struct{})
		topo, entered := blocking(t, let)
		n := start(t, topo, onto(t, c, append(opts, millrace.WithUncaughtHandler(func(f millrace.Failure) millrace.Answer {
			failures <- f
			<-decide
			return millrace.ReplaceThread
		}))...)...)
		feed(t, c, "a", "a", "b")
		if err := n.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		feed(t, c, "block", "a")
		<-entered
		n.WatchThreadsIn(time.Hour)
		f := <-failures
		var stuck *thread.StuckError
		if !errors.As(f.Cause, &stuck) || f.Thread != "thread-1" || f.Attempt != 1 {
			t.Errorf("%+v", f)
		}
		await(t.Context(), t, func() bool {
			_, _, err := query.Get(t.Context(), n.Node, counts, "a")
			return errors.Is(err, query.ErrStateStoreMigrated) && n.State() == lifecycle.NodeRebalancing
		}, func() string {
			_, _, err := query.Get(t.Context(), n.Node, counts, "a")
			return fmt.Sprint("given up, it answers ", err, ", and the node is ", n.State())
		})
		free := make(chan struct{})
		close(free)
		same, _ := blocking(t, free)
		other := start(t, same, onto(t, c, opts...)...)
		await(t.Context(), t, func() bool { return other.OwnsAll() && len(n.Owned()) == 0 }, func() string { return fmt.Sprint(other.Owned(), n.Owned()) })
		close(decide)
		close(let)
		await(t.Context(), t, func() bool {
			th := n.Threads()[0]
			return len(n.Owned()) == 4 && len(other.Owned()) == 4 && n.State() == lifecycle.NodeRunning && th.State == lifecycle.ThreadRunning && !th.Stuck
		}, func() string { return fmt.Sprint(n.Threads(), n.Owned(), other.Owned()) })
		if th := n.Threads()[0]; th.Epoch != 2 {
			t.Errorf("%+v", th)
		}
		feed(t, c, "b")
		if err := n.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		// At least once, what was under way when the partitions moved back may be counted again.
		want := map[string]int64{"a": 3, "b": 2, "block": 1}
		got := map[string]int64{}
		for key := range want {
			for _, node := range []*running{n, other} {
				if v, ok, err := query.Get(t.Context(), node.Node, counts, key); err == nil && ok {
					got[key] = v
				}
			}
		}
		once := strings.Contains(t.Name(), millrace.ExactlyOnce.String())
		for key, n := range want {
			if got[key] < n || once && got[key] > n {
				t.Errorf("%v, want %v", got, want)
			}
		}
	})
}

// A node whose thread never comes back stops all the same, also while the handler is asked.
func TestShutdownWithAnAbandonedThread(t *testing.T) {
	c := cluster(t)
	let := make(chan struct{})
	defer close(let)
	asked := make(chan struct{}, 8)
	topo, entered := blocking(t, let)
	n := start(t, topo, onto(t, c, slow, millrace.WithUncaughtHandler(func(millrace.Failure) millrace.Answer {
		asked <- struct{}{}
		return millrace.ReplaceThread
	}))...)
	feed(t, c, "block")
	<-entered
	n.WatchThreadsIn(time.Hour)
	<-asked
	n.stop() // it has a minute, and the restart two hours
	if s := n.State(); s != lifecycle.NodeNotRunning {
		t.Error(s)
	}
}

// RemoveThread works for a thread that has been given up as well.
func TestRemoveAnAbandonedThread(t *testing.T) {
	c := cluster(t)
	let := make(chan struct{})
	defer close(let)
	topo, entered := blocking(t, let)
	n := start(t, topo, onto(t, c, slow)...)
	feed(t, c, "block")
	<-entered
	n.WatchThreadsIn(time.Hour)
	awaitRestart(t, n)
	if err := n.RemoveThread(t.Context(), "thread-1"); err != nil {
		t.Fatal(err)
	}
	if len(n.Threads()) != 0 {
		t.Error(n.Threads())
	}
}
