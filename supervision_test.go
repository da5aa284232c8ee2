package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/topology"
)

// callback passes lines through, after f has had each.
func callback(t testing.TB, f func(line string) error) *topology.Topology {
	t.Helper()
	topo, err := builder(f).Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func builder(f func(line string) error) *topology.Builder {
	b := topology.NewBuilder()
	topology.To(topology.Map(topology.From(b, lines), func(r record.Record[string, string]) (record.Record[string, int64], error) {
		if err := f(r.Value); err != nil {
			return record.Record[string, int64]{}, err
		}
		return record.New(r.Key, int64(len(r.Value)), r.Timestamp), nil
	}), out)
	return b
}

var errBroken = errors.New("broken wheel")

// once fails at the first "fail".
func once() func(string) error {
	var failed atomic.Bool
	return func(line string) error {
		if line == "fail" && failed.CompareAndSwap(false, true) {
			return errBroken
		}
		return nil
	}
}

// onto is the options of a node of its own on a cluster.
func onto(t testing.TB, c *embedded.Cluster, opts ...millrace.Option) []millrace.Option {
	return append([]millrace.Option{millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithThreads(1)}, opts...)
}

// slow has one thread wait for a restart that is an hour away.
var slow = millrace.WithRestarts(actors.Intensity{Max: 3, Window: 4 * time.Hour, First: 2 * time.Hour, Cap: 2 * time.Hour})

func awaitRestart(t *testing.T, n *running) {
	t.Helper()
	await(t.Context(), t, func() bool { return n.Threads()[0].Cause != nil && !n.Threads()[0].Retry.IsZero() }, func() string { return fmt.Sprint(n.Threads()) })
}

// A replacement has its slot's member and producer: it is RUNNING again soon, as nobody has to join again, and the other node
// sees nothing.
func TestReplacedThreadKeepsMemberAndProducer(t *testing.T) {
	bothGuarantees(t, func(t *testing.T, c *embedded.Cluster, opts ...millrace.Option) {
		failures := make(chan millrace.Failure, 8)
		topo := callback(t, once())
		one := start(t, topo, onto(t, c, append(opts, millrace.WithUncaughtHandler(func(f millrace.Failure) millrace.Answer {
			failures <- f
			return millrace.ReplaceThread
		}))...)...)
		two := start(t, topo, onto(t, c, opts...)...)
		shared := func() bool {
			return len(one.Owned()) == 2 && len(two.Owned()) == 2 && one.State() == lifecycle.NodeRunning && two.State() == lifecycle.NodeRunning
		}
		await(t.Context(), t, shared, func() string { return fmt.Sprint(one.Owned(), two.Owned()) })
		joins := requests(c, kmsg.JoinGroup)
		other, producers := two.Threads()[0], one.Transactions().Producers
		partition := one.Owned()[0].Partition
		w := newWriter(t, c, "")
		w.put(record.TopicPartition{Topic: "lines", Partition: partition}, record.Raw{Value: []byte("fail"), Timestamp: 1})
		w.flush()
		f := <-failures
		if f.Thread != "thread-1" || f.Epoch != 1 || f.Attempt != 1 || !f.InTask || f.Task.Partition != partition || f.Source.String() != fmt.Sprint("lines-", partition) || f.Offset != 0 || !errors.Is(f.Cause, errBroken) {
			t.Errorf("%+v", f)
		}
		began := time.Now()
		await(t.Context(), t, func() bool {
			status := one.Threads()[0]
			return status.Epoch == 2 && status.State == lifecycle.ThreadRunning
		}, func() string { return fmt.Sprint(one.Threads()) })
		t.Log("RUNNING again after", time.Since(began))
		if err := one.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(visible(t, c, "word-counts")); got != 1 {
			t.Errorf("%d records came out", got)
		}
		if joins.Load() != 0 || two.Threads()[0] != other || one.Transactions().Producers != producers {
			t.Errorf("%d joins, %v became %v, %d producers", joins.Load(), other, two.Threads()[0], one.Transactions().Producers)
		}
	})
}

// A back-off is nothing to wait for: Shutdown, and RemoveThread, end it.
func TestShutdownEndsTheBackOff(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *running) error{
		"Shutdown":     func(t *testing.T, n *running) error { return n.Shutdown(t.Context()) },
		"RemoveThread": func(t *testing.T, n *running) error { return n.RemoveThread(t.Context(), "thread-1") },
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t)
			n := start(t, callback(t, once()), onto(t, c, slow)...)
			feed(t, c, "fail")
			awaitRestart(t, n)
			if err := end(t, n); err != nil { // two hours would be more than any test may take
				t.Fatal(err)
			}
		})
	}
}

// H16: Shutdown from the failure handler, from a watcher's loop, from a record's callback, from two goroutines at once and
// together with a failure. Each returns in time, the state is final once, and the results agree.
func TestH16ShutdownFromAnywhere(t *testing.T) {
	c := cluster(t)
	var node atomic.Pointer[running]
	var mu sync.Mutex
	var errs []error
	shutdown := func(n *running, d time.Duration) {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		err := n.Shutdown(ctx)
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	n := start(t, callback(t, func(line string) error {
		if line == "shutdown and fail" {
			shutdown(node.Load(), 50*time.Millisecond) // it waits for this very call, so it cannot end
			return errBroken
		}
		return nil
	}), onto(t, c, millrace.WithThreads(2), slow, millrace.WithUncaughtHandler(func(millrace.Failure) millrace.Answer {
		shutdown(node.Load(), time.Minute)
		return millrace.ReplaceThread
	}))...)
	node.Store(n)
	var finals atomic.Int64
	changes, watched := n.Watch(t.Context()), make(chan struct{})
	go func() {
		defer close(watched)
		for change := range changes {
			if change.Thread == "" && change.New == "PENDING_SHUTDOWN" || change.New == "PENDING_ERROR" {
				go shutdown(n, time.Minute)
				shutdown(n, time.Minute)
			}
			if change.Thread == "" && (change.New == "NOT_RUNNING" || change.New == "ERROR") {
				finals.Add(1)
				return
			}
		}
	}()
	feed(t, c, "fine", "shutdown and fail")
	err := <-n.done
	<-watched
	if !errors.Is(err, errBroken) && err != nil {
		t.Error(err)
	}
	if s := n.State(); s != lifecycle.NodeNotRunning && s != lifecycle.NodeError || finals.Load() != 1 {
		t.Error(s, finals.Load())
	}
	mu.Lock()
	defer mu.Unlock()
	if len(errs) == 0 || !errors.Is(errs[0], millrace.ErrAbandoned) {
		t.Error("the record's own call:", errs)
	}
}

// A handler that panics ends the node with both causes; one that blocks holds up nothing but its own thread.
func TestFailureHandlerThatMisbehaves(t *testing.T) {
	t.Run("panics", func(t *testing.T) {
		c := cluster(t)
		n, err := millrace.New("app", callback(t, once()), onto(t, c, millrace.WithUncaughtHandler(func(millrace.Failure) millrace.Answer { panic("handler") }))...)
		if err != nil {
			t.Fatal(err)
		}
		feed(t, c, "fail")
		if err := n.Run(t.Context()); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "handler") {
			t.Error(err)
		}
	})
	t.Run("blocks", func(t *testing.T) {
		c := cluster(t)
		asked, let := make(chan struct{}), make(chan struct{})
		defer close(let)
		n := start(t, callback(t, once()), onto(t, c, millrace.WithThreads(2), millrace.WithUncaughtHandler(func(millrace.Failure) millrace.Answer {
			close(asked)
			<-let
			return millrace.ReplaceThread
		}))...)
		await(t.Context(), t, func() bool { return n.OwnsAll() && n.State() == lifecycle.NodeRunning }, func() string { return fmt.Sprint(n.Threads()) })
		feed(t, c, "fail")
		<-asked
		feed(t, c, "fine", "fine", "fine", "fine")
		await(t.Context(), t, func() bool { return len(visible(t, c, "word-counts")) >= 2 }, func() string { return "the other thread stands still" })
		n.stop()
	})
}

// ShutdownApplication ends every node, with a typed cause on each, and a node that starts afterwards is not meant.
func TestShutdownApplicationEndsEveryNode(t *testing.T) {
	c := cluster(t)
	topo := callback(t, once())
	dir := t.TempDir()
	ask := millrace.WithUncaughtHandler(func(millrace.Failure) millrace.Answer { return millrace.ShutdownApplication })
	nodes := []*millrace.Node{}
	results := make(chan error, 3)
	for i := range 3 {
		opts := onto(t, c, ask, millrace.WithEndpoint(fmt.Sprintf("127.0.0.1:%d", i+1)), millrace.WithLeaveGroup(false))
		if i == 0 {
			opts = append(opts, millrace.WithStateDir(dir))
		}
		n, err := millrace.New("app", topo, opts...)
		if err != nil {
			t.Fatal(err)
		}
		go func() { results <- n.Run(context.Background()) }()
		nodes = append(nodes, n)
	}
	t.Cleanup(func() {
		for _, n := range nodes {
			_ = n.Shutdown(context.Background())
		}
	})
	settled := func() bool {
		n := 0
		for _, node := range nodes {
			if node.State() != lifecycle.NodeRunning || len(node.Owned()) == 0 {
				return false
			}
			n += len(node.Owned())
		}
		return n == 4
	}
	await(t.Context(), t, settled, func() string { return fmt.Sprint(nodes[0].Owned(), nodes[1].Owned(), nodes[2].Owned()) })
	feed(t, c, "fail")
	asked := ""
	for range nodes {
		err := <-results
		var typed *millrace.ApplicationShutdownError
		if !errors.As(err, &typed) || typed.Thread != "thread-1" || !strings.Contains(typed.Reason, "record at offset 0 of lines-0") {
			t.Fatal(err)
		}
		if errors.Is(err, errBroken) {
			asked += typed.Node
		}
		if typed.Node != "127.0.0.1:1" && typed.Node != "127.0.0.1:2" && typed.Node != "127.0.0.1:3" {
			t.Error(typed.Node)
		}
	}
	if !strings.HasPrefix(asked, "127.0.0.1:") || strings.Count(asked, ":") != 1 {
		t.Errorf("asked by %q", asked)
	}
	for _, n := range nodes {
		if n.State() != lifecycle.NodeError {
			t.Error(n.State())
		}
	}
	again := start(t, topo, onto(t, c, millrace.WithStateDir(dir))...)
	if err := again.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}
