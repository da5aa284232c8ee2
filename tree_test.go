package millrace_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/lifecycle"
)

// find gives the first place of a kind whose path ends so.
func find(a millrace.Actor, kind, end string) *millrace.Actor {
	if a.Kind == kind && strings.HasSuffix(a.Path, end) {
		return &a
	}
	for _, c := range a.Children {
		if found := find(c, kind, end); found != nil {
			return found
		}
	}
	return nil
}

func countKind(a millrace.Actor, kind, state string) (n int) {
	if a.Kind == kind && a.State == state {
		n++
	}
	for _, c := range a.Children {
		n += countKind(c, kind, state)
	}
	return n
}

// The tree has every actor and task, in the states of now; after a restart it says how often and why.
func TestTreeShowsEveryActor(t *testing.T) {
	c := cluster(t)
	n := start(t, wordCount(t), onto(t, c, millrace.WithThreads(2))...)
	var tree millrace.Actor
	await(t.Context(), t, func() bool {
		tree = n.Tree()
		return n.OwnsAll() && n.State() == lifecycle.NodeRunning && countKind(tree, millrace.KindStore, "ACTIVE") == 4 &&
			countKind(tree, millrace.KindThread, "RUNNING") == 2 && countKind(tree, millrace.KindTask, "RUNNING") == 8
	}, func() string { return fmt.Sprintf("%+v", tree) })
	if tree.Path != "/app" || tree.Kind != millrace.KindNode || tree.State != "RUNNING" {
		t.Errorf("%+v", tree)
	}
	if find(tree, millrace.KindRestore, "/app/restore") == nil || find(tree, millrace.KindQuery, "/app/query") == nil {
		t.Error("restore or query is missing")
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{`"path":"/app/thread-1"`, `"kind":"store"`, `"state":"ACTIVE"`, `"epoch":1`, `"restarts":0`, `"mailbox":0`} {
		if !strings.Contains(string(text), key) {
			t.Errorf("%s lacks %s", text, key)
		}
	}
}

func TestTreeTellsOfRestarts(t *testing.T) {
	c := cluster(t)
	n := start(t, callback(t, once()), onto(t, c)...)
	told, events, done := n.Events(t.Context()), []millrace.Event{}, make(chan struct{})
	go func() {
		defer close(done)
		for e := range told {
			if events = append(events, e); e.Kind == millrace.KindNode && e.New == lifecycle.NodeNotRunning.String() {
				return
			}
		}
	}()
	feed(t, c, "fail", "fine")
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	thread := find(n.Tree(), millrace.KindThread, "/thread-1")
	if thread == nil || thread.Epoch != 2 || thread.Restarts != 1 || !strings.Contains(thread.Cause, "broken wheel") {
		t.Fatalf("%+v", thread)
	}
	if task := find(n.Tree(), millrace.KindTask, "/task-0_0"); task == nil || task.Epoch != 2 || task.Restarts != 1 {
		t.Errorf("%+v", task)
	}
	n.stop()
	<-done
	var threads, tasks []string
	for _, e := range events {
		switch {
		case e.Time.IsZero() || e.Missed > 0:
			t.Errorf("%+v", e)
		case e.Path == "/app/thread-1":
			threads = append(threads, fmt.Sprint(e.Old, ">", e.New, " ", e.Epoch))
		case e.Path == "/app/thread-1/task-0_0":
			tasks = append(tasks, fmt.Sprint(e.New, " ", e.Epoch))
		}
	}
	for _, want := range []string{"RUNNING>REBALANCING 1", "REBALANCING>REBALANCING 2", "REBALANCING>RUNNING 2", "RUNNING>PENDING_SHUTDOWN 2"} {
		if !slices.Contains(threads, want) {
			t.Error(want, "is not among", threads)
		}
	}
	if want := []string{"SUSPENDED 1", "CLOSED 1", "CREATED 2", "RESTORING 2", "RUNNING 2", "SUSPENDED 2", "CLOSED 2"}; !slices.Equal(tasks, want) {
		t.Error(tasks)
	}
}
