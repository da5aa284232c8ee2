package millrace

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/record"
)

// How often what nobody waits for is done.
const (
	tendEvery  = 10 * time.Second
	purgeEvery = 30 * time.Second
)

// tend does what nobody waits for, until ctx ends: stores that have fallen silent are flushed, state of tasks that left is
// removed, and repartition topics are purged of what was processed.
func (n *Node) tend(ctx context.Context) {
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	purged := time.Now()
	for {
		select {
		case now := <-ticker.C:
			n.states.flushSilent(now)
			n.cleanUp(now)
			n.states.measure()
			n.globals.measure()
			if now.Sub(purged) >= purgeEvery {
				purged = now
				n.purge(ctx)
			}
		case <-ctx.Done():
			return
		}
	}
}

// flushSilent has each open state flush if it has held writes in memory for too long. States that are written to do so by
// themselves.
func (s *states) flushSilent(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keepers {
		s.submit(k, func() {
			if k.state == nil {
				return
			}
			if err := k.state.MaybeFlush(now); err != nil {
				s.node.opts.logger.Warn("a store cannot be flushed; a crash would cost a longer restore", "task", k.id, "err", err)
			}
		})
	}
}

func (n *Node) cleanUp(now time.Time) {
	live := map[record.TaskID]bool{}
	for _, id := range n.owned.list() {
		live[id] = true
	}
	gone, err := n.dir.Clean(now, live)
	if err != nil {
		n.opts.logger.Warn("state of tasks that left cannot be removed", "err", err)
	}
	if len(gone) > 0 {
		n.opts.logger.Info("state of tasks that left was removed", "tasks", gone)
	}
}

// purge deletes the records of repartition topics that this node's tasks have processed. Positions are noted after the
// commit, so nothing is deleted that a restart would read.
func (n *Node) purge(ctx context.Context) {
	p := n.plan.Load()
	before := map[record.TopicPartition]int64{}
	for _, id := range n.owned.list() {
		for _, tp := range p.Sources(id) {
			if at, ok := n.applied.get(tp); ok && at > 0 && p.SourceSpec(tp.Topic).Internal {
				before[tp] = at
			}
		}
	}
	if len(before) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, purgeEvery)
	defer cancel()
	if err := n.admin.DeleteRecords(ctx, before); err != nil {
		n.opts.logger.Warn("repartition topics were not purged; the next try is in half a minute", "err", err)
	}
}
