package thread

import (
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/topology"
)

// Outcomes names how a commit may end, in the order of Totals.Commits: it is committed, or it failed with a class.
var Outcomes = func() []string {
	names := []string{"Committed"}
	for c := broker.Retry; c <= broker.Ignore; c++ {
		names = append(names, c.String())
	}
	return names
}()

const outcomes = int(broker.Ignore) + 1

// Work is what the loops of a thread have done; it outlives them. They add to it once for each batch, step or commit, never
// for a record; anybody may read it. Nil, which is what a loop without metrics has, counts nothing and reads no clock.
type Work struct {
	now func() time.Time

	steps, busy        atomic.Int64
	fetches, fetched   atomic.Int64
	processes, records atomic.Int64
	punctuations       atomic.Int64
	commits            [outcomes]atomic.Int64
	latencies          Latencies
}

// Latencies take what single things have taken; what is nil is not told. They are called on the loop's goroutine.
type Latencies struct {
	// Process is told of each step that took records through processors, Punctuate of each turn of a task with functions that
	// were due, and Commit of the time from the beginning to the last write of each committed commit.
	Process, Punctuate, Commit func(time.Duration)
}

// NewWork takes the clock that tells how long processing takes.
func NewWork(now func() time.Time, l Latencies) *Work { return &Work{now: now, latencies: l} }

func tell(f func(time.Duration), d time.Duration) {
	if f != nil {
		f(d)
	}
}

// Totals are the sums of a Work since it was made.
type Totals struct {
	// Steps are the steps of the loop, Busy the time in them: the rest of the time it waited for events.
	Steps int64
	Busy  time.Duration
	// Fetches are answers with batches, Fetched the records in them.
	Fetches, Fetched int64
	// Processes are steps that took Records through processors. What is taken back with a failed commit counts again.
	Processes, Records int64
	// Punctuations are calls of scheduled functions.
	Punctuations int64
	// Commits have ended so, by Outcomes.
	Commits [outcomes]int64
}

// Totals may be called from any goroutine.
func (w *Work) Totals() Totals {
	t := Totals{
		Steps: w.steps.Load(), Busy: time.Duration(w.busy.Load()), Fetches: w.fetches.Load(), Fetched: w.fetched.Load(),
		Processes: w.processes.Load(), Records: w.records.Load(), Punctuations: w.punctuations.Load(),
	}
	for i := range t.Commits {
		t.Commits[i] = w.commits[i].Load()
	}
	return t
}

func (w *Work) stepped(d time.Duration) {
	if w != nil {
		w.steps.Add(1)
		w.busy.Add(int64(d))
	}
}

func (w *Work) gotBatches(f broker.Fetched) {
	if w == nil {
		return
	}
	n := 0
	for i := range f.Batches {
		n += len(f.Batches[i].Records)
	}
	w.fetches.Add(1)
	w.fetched.Add(int64(n))
}

// clock is the time, and zero if nobody counts.
func (w *Work) clock() (now time.Time) {
	if w != nil {
		now = w.now()
	}
	return now
}

// processed says that n records were taken since began.
func (w *Work) processed(n int, began time.Time) {
	if w != nil && n > 0 {
		w.processes.Add(1)
		w.records.Add(int64(n))
		tell(w.latencies.Process, w.now().Sub(began))
	}
}

func (w *Work) punctuated(n uint64, began time.Time) {
	if w != nil {
		w.punctuations.Add(int64(n))
		tell(w.latencies.Punctuate, w.now().Sub(began))
	}
}

func (w *Work) committed(d time.Duration) {
	if w != nil {
		w.commits[0].Add(1)
		tell(w.latencies.Commit, d)
	}
}

func (w *Work) commitFailed(c broker.Class) {
	if w != nil && int(c) < outcomes {
		w.commits[c].Add(1)
	}
}

// Drops are the reasons for which a task leaves records out on purpose, as topology.Host.Dropped gets them, in the order of
// TaskTotals.Dropped. What is not among them counts as the last.
var Drops = [...]string{"null key", "null value", "null join key", "negative timestamp", "late record", "late for a window", "expired window", "other"}

// TaskWork is what a task has done, whatever threads had it. It is as Work is.
type TaskWork struct {
	records, lag, buffered atomic.Int64
	dropped                [len(Drops)]atomic.Int64
	answers                [topology.Stages][topology.DeadLetter + 1]atomic.Int64
}

// TaskTotals are the sums of a TaskWork since it was made, and the last of what goes up and down.
type TaskTotals struct {
	Records int64
	// Lag is how many offsets of its sources the task has not processed, by what the last fetches knew of their ends.
	Lag int64
	// Buffered is what was fetched and waits, in bytes.
	Buffered int64
	Dropped  [len(Drops)]int64
	// Answers are those of handlers about records that failed, by topology.Stage and topology.Response.
	Answers [topology.Stages][topology.DeadLetter + 1]int64
}

// Totals may be called from any goroutine.
func (w *TaskWork) Totals() TaskTotals {
	t := TaskTotals{Records: w.records.Load(), Lag: w.lag.Load(), Buffered: w.buffered.Load()}
	for i := range t.Dropped {
		t.Dropped[i] = w.dropped[i].Load()
	}
	for s := range t.Answers {
		for r := range t.Answers[s] {
			t.Answers[s][r] = w.answers[s][r].Load()
		}
	}
	return t
}

// Drop counts a record that is left out.
func (w *TaskWork) Drop(reason string) {
	i := 0
	for i < len(Drops)-1 && Drops[i] != reason {
		i++
	}
	w.dropped[i].Add(1)
}

// Answer counts what a handler has answered.
func (w *TaskWork) Answer(s topology.Stage, r topology.Response) { w.answers[s][r].Add(1) }

// processed publishes what a task has done in a step.
func (e *entry) processed(n int) {
	if e.work == nil {
		return
	}
	if n > 0 {
		e.work.records.Add(int64(n))
	}
	e.work.lag.Store(e.task.Lag())
	e.work.buffered.Store(e.task.Buffered())
}
