package millrace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/actors"
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/thread"
)

// Every kind of failure has an error that is it.
func TestFailureKinds(t *testing.T) {
	at := record.TopicPartition{Topic: "in"}
	seen := map[string]bool{}
	for _, c := range []struct {
		cause error
		want  string
	}{
		{&thread.StuckError{}, "stuck"},
		{&thread.ExhaustedError{Cause: &task.ProcessError{Source: at}}, "exhausted"},
		{fmt.Errorf("restore: %w", &store.EngineError{}), "store"},
		{&task.ProcessError{Source: at, Outside: true, Cause: &store.EngineError{}}, "store"},
		{&store.ChangelogError{Cause: &broker.Error{}}, "restore"},
		{&broker.Error{Class: broker.Fatal}, "broker"},
		{&task.ProcessError{Source: at, Outside: true, Cause: &broker.Error{}}, "broker"},
		{&task.ProcessError{Source: at, Cause: errors.New("user code")}, "record"},
		{&task.ProcessError{Source: at, Cause: &broker.Error{Class: broker.Record}}, "record"},
		{&GlobalRecordError{Cause: errors.New("codec")}, "record"},
		{&task.ProcessError{Cause: errors.New("a punctuation")}, "processor"},
		{&actors.Panic{}, "panic"},
		{errors.New("anything"), "other"},
	} {
		if got := failureKind(c.cause); got != c.want {
			t.Errorf("%T is %s, not %s", c.cause, got, c.want)
		}
		seen[c.want] = true
	}
	for _, k := range failureKinds {
		if !seen[k.name] {
			t.Errorf("no error is %s", k.name)
		}
	}
}

// A restore counts for each store that was begun, as what it came to.
func TestRestoresAreCounted(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		results   []store.RestoreResult
		err       error
		cancelled bool
		want      []map[string]int64
	}{
		{[]store.RestoreResult{{Records: 2}, {Records: 3, Discarded: 1}}, nil, false, []map[string]int64{{"done": 1}, {"done": 1}}},
		{[]store.RestoreResult{{Records: 2}, {Records: 3, Discarded: 1}}, broken, false, []map[string]int64{{"done": 1}, {"failed": 1}}},
		{[]store.RestoreResult{{Records: 2}}, broken, false, []map[string]int64{{"failed": 1}, {}}},
		{nil, broken, true, []map[string]int64{{"cancelled": 1}, {"cancelled": 1}}},
	} {
		m := &meters{stores: map[storePartition]*storeMeter{}}
		m.restored(record.TaskID{}, []string{"a", "b"}, c.results, c.err, c.cancelled, time.Second)
		records := int64(0)
		for i, name := range []string{"a", "b"} {
			s := m.store(storePartition{name, "0_0"})
			if diff := cmp.Diff(c.want[i], s.restores); diff != "" {
				t.Errorf("%+v: %s: %s", c, name, diff)
			}
			records += s.restored + 10*s.discarded
		}
		want := int64(0)
		for _, r := range c.results {
			want += r.Records + 10*int64(r.Discarded)
		}
		if records != want || m.store(storePartition{"a", "0_0"}).restoring != time.Second {
			t.Errorf("%+v: %d", c, records)
		}
	}
}

// dropping finds the reasons for which the topology leaves records out.
var dropping = regexp.MustCompile(`\.Dropped\("([^"]+)"\)`)

// The reasons that have a label are those that there are.
func TestDropsAreThoseOfTheTopology(t *testing.T) {
	files, err := filepath.Glob("topology/*.go")
	if err != nil || len(files) < 10 {
		t.Fatal(err, files)
	}
	want := map[string]bool{"other": true}
	for _, f := range files {
		if matched, _ := filepath.Match("topology/*_test.go", f); matched {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range dropping.FindAllSubmatch(text, -1) {
			want[string(m[1])] = true
		}
	}
	if len(want) != len(thread.Drops) {
		t.Errorf("%v is not %v", thread.Drops, want)
	}
	for reason := range want {
		if !slices.Contains(thread.Drops[:], reason) {
			t.Errorf("%q has no label", reason)
		}
	}
}
