package router

import (
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/query/querypb"
)

// Counts are the questions to the partitions of one store that a node was asked, whoever asked. Any goroutine adds to them,
// and any may read.
type Counts struct {
	// Waited, if it is not nil, is told the time that each answer has taken, from the gate to the store actor and back. It is
	// called on the store actors' goroutines.
	Waited  func(time.Duration)
	answers atomic.Int64
	// failures are by query.Kind, of this release.
	failures [query.DeadlineExceeded + 1]atomic.Int64
}

// Answers were values; absent keys are among them.
func (c *Counts) Answers() int64 { return c.answers.Load() }

// Failures were of a kind.
func (c *Counts) Failures(k query.Kind) int64 {
	if int(k) >= len(c.failures) {
		return 0
	}
	return c.failures[k].Load()
}

// answered counts an answer that a store actor has given to a question that was asked then.
func (r *Router) answered(store string, asked time.Time) {
	if c := r.countsOf(store); c != nil && c.Waited != nil {
		c.Waited(time.Since(asked))
	}
}

// count counts what is answered, if anybody is interested. Stores that the topology does not have count as one, without a
// name, so that names of callers cost no memory.
func (r *Router) count(store string, reply *querypb.Reply) {
	c := r.countsOf(store)
	if c == nil {
		return
	}
	f := reply.GetFailure()
	switch k := int(f.GetKind()); {
	case f == nil:
		c.answers.Add(1)
	case k < len(c.failures):
		c.failures[k].Add(1)
	}
}

func (r *Router) countsOf(store string) *Counts {
	if c, ok := r.opts.Counts[store]; ok {
		return c
	}
	return r.opts.Counts[""]
}

// Waiting is how many questions wait for the store actors of each store.
func (r *Router) Waiting() map[string]int {
	all := map[string]int{}
	for _, g := range r.directory.all() {
		g.mu.Lock()
		all[g.at.store] += len(g.outstanding)
		g.mu.Unlock()
	}
	return all
}

// Restore is a store partition that is being restored.
type Restore struct {
	Store     string
	Partition int32
	Progress  lifecycle.Progress
}

// Restores are the store partitions that are being restored, and how far that is.
func (r *Router) Restores() (all []Restore) {
	for _, g := range r.directory.all() {
		if l := g.now(); l.state == query.LeaseRestoring && l.progress != nil {
			all = append(all, Restore{g.at.store, g.at.partition, *l.progress})
		}
	}
	return all
}
