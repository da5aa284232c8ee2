package millrace_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/thread"
	"github.com/millrace-io/millrace/topology"
)

// poisoned fails at each "fail" until it is cured.
func poisoned(cured *atomic.Bool) func(string) error {
	return func(line string) error {
		if line == "fail" && !cured.Load() {
			return errBroken
		}
		return nil
	}
}

// awaitQuarantine waits until task 0_0 is flagged with so many failures.
func awaitQuarantine(t testing.TB, n *running, failures int) *millrace.Quarantine {
	t.Helper()
	var q *millrace.Quarantine
	await(t.Context(), t, func() bool {
		if a := find(n.Tree(), millrace.KindTask, "/task-0_0"); a != nil {
			q = a.Quarantine
		}
		return q != nil && q.Attempts >= failures
	}, func() string { return fmt.Sprintf("%+v", n.Tree()) })
	return q
}

var first = record.TaskID{}

// A record that always fails is its own task's trouble: the thread is restarted once, the other tasks go on and commit,
// what stood before it is committed, and it is retried, skipped, or dead-lettered as the operator says.
func TestQuarantineLeavesTheOthersAlone(t *testing.T) {
	bothGuarantees(t, func(t *testing.T, c *embedded.Cluster, opts ...millrace.Option) {
		var cured atomic.Bool
		n := start(t, callback(t, poisoned(&cured)), onto(t, c, opts...)...)
		feed(t, c, "before", "x", "x", "x", "fail", "x", "x", "x", "behind", "x", "x", "x")
		q := awaitQuarantine(t, n, 3)
		if q.Source.String() != "lines-0" || q.Offset != 1 || !errors.Is(q.Err, errBroken) {
			t.Errorf("%+v", q)
		}
		if th := n.Threads()[0]; th.Epoch != 2 || th.State != lifecycle.ThreadRunning {
			t.Errorf("%+v", th)
		}
		await(t.Context(), t, func() bool { return len(visible(t, c, "word-counts")) >= 10 }, func() string {
			return fmt.Sprint(len(visible(t, c, "word-counts")), " records are out")
		})
		var failed *task.ProcessError
		if err := n.RetryTask(t.Context(), first); !errors.As(err, &failed) || failed.Offset != 1 {
			t.Error(err)
		}
		if err := n.SkipRecord(t.Context(), record.TaskID{Partition: 1}); !errors.Is(err, thread.ErrNotQuarantined) {
			t.Error(err)
		}
		if err := n.SkipRecord(t.Context(), record.TaskID{SubTopology: 7}); !errors.Is(err, millrace.ErrNotHere) {
			t.Error(err)
		}
		cured.Store(true)
		if err := n.RetryTask(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if err := n.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(visible(t, c, "word-counts")); got != 12 {
			t.Errorf("%d records came out, not 12", got)
		}
		if a := find(n.Tree(), millrace.KindTask, "/task-0_0"); a.Quarantine != nil {
			t.Errorf("%+v", a.Quarantine)
		}
	})
}

func TestOperatorPassesARecord(t *testing.T) {
	for name, pass := range map[string]func(*running) error{
		"skip":        func(n *running) error { return n.SkipRecord(n.t.Context(), first) },
		"dead letter": func(n *running) error { return n.DeadLetterRecord(n.t.Context(), first) },
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t)
			admin, err := kafka.NewAdmin(kafka.Config{Brokers: c.Addrs()})
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close()
			if err := admin.CreateTopics(t.Context(), []kafka.TopicSpec{{Name: "dead", Partitions: 4, Replication: -1}}); err != nil {
				t.Fatal(err)
			}
			var never atomic.Bool
			b := builder(poisoned(&never))
			b.Always(topology.Production, topology.DeadLetter) // a topic that no handler can use is a mistake
			b.DeadLetterTopic("dead")
			topo, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			n := start(t, topo, onto(t, c)...)
			feed(t, c, "fail", "x", "x", "x", "behind")
			awaitQuarantine(t, n, 2)
			if err := pass(n); err != nil {
				t.Fatal(err)
			}
			if err := n.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			letters := map[string]int{"skip": 0, "dead letter": 1}[name]
			if got, dead := len(visible(t, c, "word-counts")), len(visible(t, c, "dead")); got != 4 || dead != letters {
				t.Errorf("%d records and %d dead letters came out", got, dead)
			}
		})
	}
}

// H17: with a bound on the attempts the node ends, and says which record it was, how often it failed, and why.
func TestH17QuarantineEndsAfterItsAttempts(t *testing.T) {
	c := cluster(t)
	var never atomic.Bool
	n, err := millrace.New("app", callback(t, poisoned(&never)), onto(t, c, millrace.WithQuarantine(thread.QuarantinePolicy{First: time.Millisecond, Cap: time.Millisecond, Attempts: 4}))...)
	if err != nil {
		t.Fatal(err)
	}
	feed(t, c, "x", "x", "x", "x")
	ended := make(chan error, 1)
	go func() { ended <- n.Run(t.Context()) }()
	await(t.Context(), t, func() bool { return len(visible(t, c, "word-counts")) == 4 }, func() string { return fmt.Sprint(n.Threads()) })
	feed(t, c, "fail")
	err = <-ended
	var exhausted *thread.ExhaustedError
	if !errors.As(err, &exhausted) || exhausted.Failures != 4 || !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "record at offset 1 of lines-0") {
		t.Error(err)
	}
	if n.State() != lifecycle.NodeError || len(visible(t, c, "word-counts")) != 4 {
		t.Error(n.State(), len(visible(t, c, "word-counts")))
	}
}

// The quarantine is told of as it happens.
func TestQuarantineIsAnEvent(t *testing.T) {
	c := cluster(t)
	var cured atomic.Bool
	n := start(t, callback(t, poisoned(&cured)), onto(t, c)...)
	var flags []string
	events, done := n.Events(t.Context()), make(chan struct{})
	go func() {
		defer close(done)
		for e := range events {
			if e.Path != "/app/thread-1/task-0_0" || e.Epoch != 2 {
				continue
			}
			if flags = append(flags, fmt.Sprint(e.New, e.Flags)); len(flags) > 1 && strings.Contains(flags[len(flags)-2], "quarantined") && len(e.Flags) == 0 {
				return
			}
		}
	}()
	feed(t, c, "fail")
	awaitQuarantine(t, n, 2)
	cured.Store(true)
	if err := n.RetryTask(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	<-done
	if !slices.Contains(flags, "RUNNING[quarantined]") || flags[len(flags)-1] != "RUNNING[]" {
		t.Error(flags)
	}
}
