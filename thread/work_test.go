package thread_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/task"
	"github.com/millrace-io/millrace/thread"
	"github.com/millrace-io/millrace/topology"
)

// Work counts batches, records and commits as they are, by a clock that goes on a millisecond whenever it is looked at.
func TestWorkIsCounted(t *testing.T) {
	now := start
	var processing, committing time.Duration
	committed := 0
	work := thread.NewWork(func() time.Time { now = now.Add(time.Millisecond); return now }, thread.Latencies{
		Process: func(d time.Duration) { processing += d },
		Commit:  func(d time.Duration) { committing += d; committed++ },
	})
	s := newStepping(t, true, work)
	before := work.Totals()
	for range 25 {
		s.step()
	}
	got := work.Totals()
	if got.Fetches != 25 || got.Fetched != 25*stepTasks*stepRecords || got.Records != got.Fetched || got.Processes != 25 || processing != 25*time.Millisecond {
		t.Errorf("%+v in %s", got, processing)
	}
	// One in 100 ms, each from one step to the step after the next but one: flush, offsets, apply.
	if n := got.Commits[0] - before.Commits[0]; n != 2 || committing <= 0 || int64(committed) != got.Commits[0] {
		t.Errorf("%d commits, %d in %s", n, committed, committing)
	}
	for i, name := range thread.Outcomes {
		if i > 0 && (got.Commits[i] != 0 || broker.Class(i).String() != name) {
			t.Errorf("%d of %s", got.Commits[i], name)
		}
	}
}

// punctual is a counter that has functions to call at times.
type punctual struct {
	counter
	due   bool
	calls uint64
}

func (p *punctual) PunctuationDue(int64, int64) bool { return p.due }
func (p *punctual) Punctuations() uint64             { return p.calls }
func (p *punctual) Punctuate(int64, int64) error {
	if p.due {
		p.calls += 3
	}
	return nil
}

// Punctuations count as they are, and their time once for each turn that has any.
func TestPunctuationsAreCounted(t *testing.T) {
	now, told := start, []time.Duration(nil)
	work := thread.NewWork(func() time.Time { now = now.Add(time.Millisecond); return now }, thread.Latencies{
		Punctuate: func(d time.Duration) { told = append(told, d) },
	})
	chain := &punctual{}
	l, _ := runningWith(t, false, 1, work, func(h topology.Host) (task.Chain, error) {
		chain.host = h
		return chain, nil
	})
	for i, want := range []int{0, 1, 2, 2} {
		chain.due = i == 1 || i == 2
		if _, err := l.Step(start.Add(time.Duration(i) * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if got := work.Totals(); got.Punctuations != int64(3*want) || len(told) != want {
			t.Errorf("step %d: %d calls, told %v", i, got.Punctuations, told)
		}
	}
	if len(told) != 2 || told[0] != time.Millisecond || told[1] != time.Millisecond {
		t.Error(told)
	}
}

// A commit that fails counts by its class.
func TestFailedCommitsCountByClass(t *testing.T) {
	work := thread.NewWork(time.Now, thread.Latencies{})
	l, slot := running(t, false, 1, work)
	slot.Group = refusing{quiet{slot: slot}}
	slot.Inbox.Put(broker.Fetched{Batches: []broker.Batch{{Source: in(0), Records: []record.Raw{{Key: []byte("k")}}, Next: 1, HighWatermark: 7, Bytes: 1}}})
	for i := range 5 {
		if _, err := l.Step(start.Add(time.Duration(i+1) * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if got := work.Totals(); got.Commits[broker.Abort] != 1 || got.Records != 1 {
		t.Errorf("%+v", got)
	}
}

// refusing is a group that takes no offsets.
type refusing struct{ quiet }

func (r refusing) Commit(token uint64, _ broker.Offsets) {
	r.slot.Inbox.Put(broker.OffsetsCommitted{Token: token, Err: &broker.Error{Op: broker.OpOffsetCommit, Class: broker.Abort}})
}

func TestTaskWorkHasEveryReason(t *testing.T) {
	var w thread.TaskWork
	for _, reason := range append(thread.Drops[:], "a reason of a later release") {
		w.Drop(reason)
	}
	w.Answer(topology.Production, topology.DeadLetter)
	got := w.Totals()
	for i, n := range got.Dropped {
		if last := i == len(got.Dropped)-1; n != 1 && !last || last && n != 2 {
			t.Errorf("%d of %s", n, thread.Drops[i])
		}
	}
	if got.Answers[topology.Production][topology.DeadLetter] != 1 {
		t.Errorf("%+v", got.Answers)
	}
}
