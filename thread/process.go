package thread

import (
	"runtime/pprof"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// full says that nothing may be processed now: the overlay has reached its limit and the commit that would empty it is
// still under way, or too much waits for the producer.
func (l *Loop) full() bool {
	if l.slot.Producer.Buffered() > l.cfg.BufferedBytes {
		return true
	}
	return l.commit != nil && l.uncommitted() > l.cfg.UncommittedBytes
}

// countBlocked adds the time since a step that was full to what the slot reports.
func (l *Loop) countBlocked() {
	if !l.blocked.IsZero() {
		l.slot.blocked.Add(int64(l.now.Sub(l.blocked)))
		l.blocked = time.Time{}
	}
}

func (l *Loop) uncommitted() (bytes int64) {
	for _, e := range l.running {
		bytes += e.task.Uncommitted()
	}
	return bytes
}

// process gives every running task one turn. busy says that a task took a whole budget, so there may be more.
func (l *Loop) process() (busy bool, err error) {
	if l.stopping || l.rewinding || l.slot.aborting != 0 || l.othersWait() {
		return false, nil
	}
	if l.full() {
		l.blocked = l.now
		return false, nil
	}
	total, began := 0, l.cfg.Work.clock()
	defer func() { l.cfg.Work.processed(total, began) }()
	defer pprof.SetGoroutineLabels(l.labels)
	for _, e := range l.running {
		// What one that is revoked took up would need yet another commit before it can go.
		if e.revoking || e.waits {
			continue
		}
		pprof.SetGoroutineLabels(e.labels) // a pointer for each turn, not for each record
		n, err := e.task.Process(l.now, l.budget)
		if total += n; n > 0 {
			e.processed(n)
		}
		if err != nil {
			return false, err
		}
		if err := l.punctuate(e); err != nil {
			return false, err
		}
		// Also without a record: a batch of markers alone is consumed as it arrives.
		e.task.Credits(l.credit)
		busy = busy || n == l.budget
	}
	l.slot.Producer.Tick(l.now)
	return busy, nil
}

// punctuate fires what is due. The clock is asked only if something is.
func (l *Loop) punctuate(e *entry) error {
	if l.cfg.Work == nil || !e.task.PunctuationDue(l.now) {
		return e.task.Punctuate(l.now)
	}
	began, before := l.cfg.Work.clock(), e.task.Punctuations()
	err := e.task.Punctuate(l.now)
	l.cfg.Work.punctuated(e.task.Punctuations()-before, began)
	return err
}

func (l *Loop) credit(tp record.TopicPartition, bytes int) { l.slot.Fetcher.Credit(tp, bytes) }

// onFetched hands batches to their tasks. A batch for a task that is not running is dropped with its partition's
// reader, which was stopped.
func (l *Loop) onFetched(f broker.Fetched) {
	l.cfg.Work.gotBatches(f)
	for i := range f.Batches {
		b := &f.Batches[i]
		id, ok := l.cfg.TaskOf(b.Source)
		if e := l.tasks[id]; ok && e != nil && e.task != nil && e.ready() {
			e.task.Add(*b)
			e.processed(0)
		}
	}
}

// onFetchFailed follows the source's reset policy when a position is outside the log; every other failure is the end of
// the incarnation. The other partitions go on meanwhile (case H15).
func (l *Loop) onFetchFailed(f broker.FetchFailed) error {
	id, ok := l.cfg.TaskOf(f.Source)
	e := l.tasks[id]
	if !ok || e == nil || !e.ready() {
		return nil
	}
	if f.Err.Code != broker.CodeOffsetOutOfRange {
		return f.Err
	}
	l.cfg.Log.Warn("position is outside the log; the reset policy decides", "partition", f.Source, "position", f.Position,
		"logStart", f.LogStart, "highWatermark", f.HighWatermark)
	token := l.slot.nextToken()
	l.resets[token] = e
	l.cfg.Positions.Resolve(token, []record.TopicPartition{f.Source})
	return nil
}
