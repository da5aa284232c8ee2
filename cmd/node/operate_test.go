package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/cli"
	"github.com/millrace-io/millrace/record"
)

// operating is a node whose task keeps failing, and who operates it.
type operating struct {
	*testing.T
	addr string
}

// verb runs a verb in this process, which is quicker than the program and the same code.
func (o *operating) verb(args ...string) result {
	o.Helper()
	var out, errs bytes.Buffer
	code := cli.Run(o.Context(), demo(), cli.Process{Args: append(args, "--addr", o.addr), Environ: patient, Out: &out, Err: &errs})
	return result{code, out.String(), errs.String()}
}

// awaitList waits until the tasks in quarantine are at the records.
func (o *operating) awaitList(records ...string) {
	o.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(patience); ; {
		var all []struct {
			Topic             string
			Partition, Offset int
			Attempts          int
		}
		list := o.verb("task", "list", "-o", "json")
		if err := json.Unmarshal([]byte(list.out), &all); err != nil {
			o.Fatalf("%v: %+v", err, list)
		}
		at := []string{}
		for _, q := range all {
			if q.Attempts > 1 {
				at = append(at, fmt.Sprintf("%s-%d@%d", q.Topic, q.Partition, q.Offset))
			}
		}
		if fmt.Sprint(at) == fmt.Sprint(records) && len(all) == len(records) {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			o.Fatalf("the tasks in quarantine are %s", list.out)
		}
	}
}

// awaitValue waits until the store has a value: a task leaves the quarantine before what it has done is committed.
func (o *operating) awaitValue(want string) {
	o.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(patience); ; {
		got := o.verb("get", "kept", "k", "-o", "json")
		if strings.Contains(got.out, `"value":"`+want+`"`) {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			o.Fatalf("%+v", got)
		}
	}
}

// The program shows what is in a node and which tasks fail at which record, and has such a record skipped, tried, or
// dead-lettered: the one that was named, and no other.
func TestProgramOperatesANode(t *testing.T) {
	addrs, file := brokers(t), filepath.Join(t.TempDir(), "broken")
	create(t, addrs, nil, "shop-events", "shop-dead")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	node := begin(t, "brittle:"+file, "dev", "--brokers", addrs, "--app", "shop", "--state-dir", t.TempDir())
	base := node.base()
	o := &operating{t, strings.TrimPrefix(base, "http://")}
	value := func(s string) pair { return pair{"k", []byte(s)} }
	// The next failure comes when the one before is dealt with: a restart would end an order that is not committed yet.
	produce(t, addrs, "shop-events", value("a"), value("fail"), value("b"))
	p := record.Partition([]byte("k"), partitions)
	task, at := fmt.Sprintf("0_%d", p), func(offset int) string { return fmt.Sprintf("shop-events-%d@%d", p, offset) }

	o.awaitList(at(1))
	o.shows(base, task, at(1))
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{13, "another record", []string{"skip", task, at(2)}},
		{13, "not in quarantine", []string{"skip", fmt.Sprintf("0_%d", (p+1)%partitions), at(1)}},
		{12, "ask the node that has it", []string{"skip", "9_9", at(1)}},
		{10, "has failed again", []string{"retry", task, at(1)}},
		{2, "TOPIC-PARTITION@OFFSET", []string{"skip", task, "1"}},
		{2, "0_3", []string{"skip", "no-task", at(1)}},
		{2, "expected", []string{"skip", task}},
	} {
		if got := o.verb(append([]string{"task"}, c.args...)...); got.code != c.code || got.out != "" || !strings.Contains(got.err, c.says) {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
	if got := run(t, "demo", "task", "skip", task, at(1), "--addr", o.addr); got.code != 0 || !strings.Contains(got.out, at(1)+" is skipped") {
		t.Fatalf("%+v", got)
	}
	produce(t, addrs, "shop-events", value("fail"), value("c"))
	o.awaitList(at(3))
	if got := run(t, "demo", "task", "dead-letter", task, at(3), "--addr", o.addr, "-o", "json"); got.code != 0 || !strings.Contains(got.out, `"remedy":"dead-letter"`) {
		t.Fatalf("%+v", got)
	}
	produce(t, addrs, "shop-events", value("fail"))
	o.awaitList(at(5))
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	// It may be tried by itself before.
	if got := run(t, "demo", "task", "retry", task, at(5), "--addr", o.addr); got.code != 0 && !strings.Contains(got.err, "not in quarantine") {
		t.Fatalf("%+v", got)
	}
	o.awaitList()
	o.awaitValue("4")
	if got := contents(t, addrs, "shop-dead"); len(got) != 1 || got[0] != `k="fail"` {
		t.Errorf("%v", got)
	}
	node.end()
}

// shows looks at the record in the table, the tree and the health.
func (o *operating) shows(base, task, record string) {
	o.Helper()
	list := run(o.T, "demo", "task", "list", "--addr", o.addr)
	if list.code != 0 || !strings.HasPrefix(list.out, "TASK") || !strings.Contains(list.out, record) || !strings.Contains(list.out, "it is brittle") {
		o.Errorf("task list: %+v", list)
	}
	tree := run(o.T, "demo", "tree", "--addr", o.addr)
	for _, want := range []string{"/shop ", "/shop/thread-1 ", "/shop/thread-1/task-" + task, "/shop/thread-1/store-kept-" + task, "quarantined at " + record, "RUNNING", "MAILBOX"} {
		if !strings.Contains(tree.out, want) {
			o.Errorf("tree has no %q: %+v", want, tree)
		}
	}
	if tree := o.verb("tree", "-o", "json"); !strings.Contains(tree.out, `"restarts":1`) || !json.Valid([]byte(tree.out)) {
		o.Errorf("%+v", tree)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(base + "/readyz")
	if err != nil {
		o.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK || !strings.Contains(string(body), `"quarantined":[{"task":"`+task+`"`) || err != nil {
		o.Errorf("/readyz: %d %s", answer.StatusCode, body)
	}
}
