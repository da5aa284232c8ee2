package millrace_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/lifecycle"
)

func names(n *running) (names []string) {
	for _, th := range n.Threads() {
		names = append(names, th.Name+" "+th.State.String())
	}
	return names
}

// Threads come and go while records do; nothing is lost and nothing counts twice.
func TestThreadsAreAddedAndRemoved(t *testing.T) {
	c := cluster(t)
	input, want := texts(500)
	n := start(t, wordCount(t), millrace.WithBrokers(c.Addrs()...), millrace.WithStateDir(t.TempDir()), millrace.WithThreads(1))
	settled := func(threads ...string) {
		t.Helper()
		var all []string
		for _, name := range threads {
			all = append(all, name+" RUNNING")
		}
		await(t.Context(), t, func() bool {
			return fmt.Sprint(names(n)) == fmt.Sprint(all) && n.OwnsAll() && n.State() == lifecycle.NodeRunning
		}, func() string { return fmt.Sprint(names(n), n.State(), n.Owned()) })
	}
	feed(t, c, input...)
	name, err := n.AddThread()
	if err != nil || name != "thread-2" {
		t.Fatal(name, err)
	}
	settled("thread-1", "thread-2")
	feed(t, c, input...)
	if err := n.RemoveThread(t.Context(), "thread-1"); err != nil {
		t.Fatal(err)
	}
	settled("thread-2")
	feed(t, c, input...)
	if name, err := n.AddThread(); err != nil || name != "thread-1" {
		t.Fatal(name, err)
	}
	settled("thread-1", "thread-2")
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for w := range want {
		want[w] *= 3
	}
	if got := n.counts(t.Context()); !maps.Equal(got, want) {
		t.Errorf("the=%d, want %d", got["the"], want["the"])
	}
	if x := n.Transactions(); x.Producers != 3 || x.Committed == 0 {
		t.Errorf("%+v", x)
	}
	var unknown *millrace.UnknownThreadError
	if err := n.RemoveThread(t.Context(), "thread-9"); !errors.As(err, &unknown) {
		t.Error(err)
	}
	n.stop()
	if _, err := n.AddThread(); !errors.Is(err, millrace.ErrNotLive) {
		t.Error(err)
	}
	if err := n.RemoveThread(t.Context(), "thread-1"); !errors.Is(err, millrace.ErrNotLive) {
		t.Error(err)
	}
}

// A thread that was being added, or replaced, and had no actor when the node ended, has ended too.
func TestThreadWithoutAnActorEndsWithItsNode(t *testing.T) {
	c := cluster(t)
	n := start(t, callback(t, once()), onto(t, c)...)
	if err := n.AddSlot(); err != nil {
		t.Fatal(err)
	}
	if err := n.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range n.Threads() {
		if s.State != lifecycle.ThreadNotRunning {
			t.Error(s)
		}
	}
	if len(n.Threads()) != 2 {
		t.Error(n.Threads())
	}
}
