package millrace

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/httpapi"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/thread"
)

// pace makes rates of counts: those since the look before. Nothing counts while nobody looks.
//
// The mutex protects the last look: callers come on their own goroutines, and each looks for all.
type pace struct {
	mu      sync.Mutex
	at      time.Time
	records map[record.TaskID]int64
	rates   map[record.TaskID]float64
}

const (
	// paceLeast is how long after another look the next one counts: rates of less jump.
	paceLeast = 900 * time.Millisecond
	// paceMost is after how long a rate would tell of times that nobody means.
	paceMost = 15 * time.Second
)

// of are the rates at a moment, by what has been counted up to it. A task that was not there at the look before has none.
func (p *pace) of(now time.Time, records map[record.TaskID]int64) map[record.TaskID]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := now.Sub(p.at)
	if took < paceLeast {
		return p.rates
	}
	rates := map[record.TaskID]float64{}
	if took <= paceMost {
		for id, n := range records {
			if before, ok := p.records[id]; ok && n >= before {
				rates[id] = float64(n-before) / took.Seconds()
			}
		}
	}
	p.at, p.records, p.rates = now, records, rates
	return rates
}

// figures are what the tasks that run here have done; nil if nobody measures it.
func (n *Node) figures() map[record.TaskID]thread.TaskTotals {
	m := n.meters
	if m == nil {
		return nil
	}
	owned := n.owned.list()
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[record.TaskID]thread.TaskTotals, len(owned))
	for _, id := range owned {
		if w := m.tasks[id]; w != nil {
			all[id] = w.Totals()
		}
	}
	return all
}

// paced are the figures with their rates.
func (o operator) paced() (map[record.TaskID]thread.TaskTotals, map[record.TaskID]float64) {
	all := o.figures()
	records := make(map[record.TaskID]int64, len(all))
	for id := range all {
		records[id] = all[id].Records
	}
	return all, o.pace.of(time.Now(), records)
}

// Transitions implements httpapi.Observed.
func (o operator) Transitions(ctx context.Context, causes bool) iter.Seq[any] {
	events := o.Events(ctx)
	return func(yield func(any) bool) {
		for e := range events {
			if e.Cause != "" && !causes {
				e.Cause = httpapi.Silenced
			}
			if !yield(e) {
				return
			}
		}
	}
}

// Progress implements httpapi.Observed.
func (o operator) Progress() httpapi.Progress {
	p := httpapi.Progress{State: o.State().String(), Tasks: []httpapi.TaskProgress{}, Restores: []httpapi.RestoreProgress{}}
	all, rates := o.paced()
	for _, id := range o.owned.list() {
		t, ok := all[id]
		if !ok {
			continue
		}
		one := httpapi.TaskProgress{Task: id.String(), Lag: t.Lag}
		if rate, ok := rates[id]; ok {
			one.Rate = &rate
		}
		p.Tasks = append(p.Tasks, one)
	}
	for _, r := range o.router.Restores() {
		one := httpapi.RestoreProgress{Store: r.Store, Partition: r.Partition, Restored: r.Progress.Restored, Remaining: r.Progress.Remaining}
		one.Rate, one.Left = restoring(r.Progress.Restored, r.Progress.Started), query.Estimate(r.Progress, time.Now()).Seconds()
		p.Restores = append(p.Restores, one)
	}
	return p
}

// restoring is the rate of a restore since its beginning, per second; 0 if that is not known.
func restoring(restored int64, began time.Time) float64 {
	if took := time.Since(began).Seconds(); !began.IsZero() && took > 0 {
		return float64(restored) / took
	}
	return 0
}

// Stopped implements httpapi.Observed.
func (o operator) Stopped() <-chan struct{} { return o.stopped }
