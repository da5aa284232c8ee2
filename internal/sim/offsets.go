package main

import (
	"maps"
	"slices"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// offsets are the group's committed positions, and those that wait for the end of a transaction, by producer id.
type offsets struct {
	committed broker.Offsets
	pending   map[int64]broker.Offsets
	// highest are the highest positions that were ever committed.
	highest map[record.TopicPartition]int64
}

// commit is OffsetCommit.
func (g *group) commit(id, instance string, generation int32, at broker.Offsets) int16 {
	m, code := g.known(id, instance)
	switch {
	case code != 0:
		return code
	case generation != g.generation:
		return codeIllegalGeneration
	case g.state == completingRebalance:
		return codeRebalance
	}
	g.touch(m)
	g.put(at, instance)
	g.world.tally.Commits++
	return 0
}

// hold is TxnOffsetCommit: generation and member are looked at now and never again.
func (g *group) hold(t *identity, pid int64, epoch int16, of broker.Membership, at broker.Offsets) int16 {
	switch {
	case t == nil || t.pid != pid:
		return codeUnknownProducer
	case epoch < t.epoch:
		return codeStaleEpoch
	case t.state != stateOngoing || !t.group:
		return codeTransactionState
	}
	if of.Generation >= 0 || of.MemberID != "" {
		if _, code := g.known(of.MemberID, of.InstanceID); code != 0 {
			return code
		}
		if of.Generation != g.generation {
			return codeIllegalGeneration
		}
	}
	if g.pending[pid] == nil {
		g.pending[pid] = broker.Offsets{}
	}
	maps.Copy(g.pending[pid], at)
	return 0
}

// endTransaction is the marker in the group's own log.
func (g *group) endTransaction(t *transactionEnd) {
	if !g.on.up || g.world.now < g.loading {
		g.world.after(loadingHigh, func() { g.endTransaction(t) })
		return
	}
	at := g.pending[t.pid]
	delete(g.pending, t.pid)
	if t.how == committed {
		g.put(at, t.id)
	}
	t.wrote()
}

// put moves positions. They never go back, in either guarantee: a member commits from what was committed before it. But for
// one case, against which a group has no means: a plain commit that its sender has given up, and has done again on another
// connection, is carried out after all, in the same generation. At least once that costs a repetition.
func (g *group) put(at broker.Offsets, by string) {
	for _, tp := range sortedOffsets(at) {
		o := at[tp]
		if before, ok := g.committed[tp]; ok && o.At < before.At && !(g.world.late && !g.world.plan.ExactlyOnce) {
			g.world.fail("%s commits %s at %d, which is behind %d", by, tp, o.At, before.At)
		}
		if end := g.world.logs[tp].end(); o.At > end {
			g.world.fail("%s commits %s at %d, and the log ends at %d", by, tp, o.At, end)
		}
		g.committed[tp] = o
		g.highest[tp] = max(g.highest[tp], o.At)
	}
}

// setBack says that a late commit has moved a position back, and nothing has been committed since.
func (g *group) setBack(tp record.TopicPartition) bool { return g.committed[tp].At < g.highest[tp] }

// fetch is OffsetFetch.
func (g *group) fetch(tps []record.TopicPartition, stable bool) (broker.Offsets, int16) {
	all := broker.Offsets{}
	for _, tp := range tps {
		for _, p := range g.pending {
			if _, ok := p[tp]; ok && stable {
				return nil, codeUnstable
			}
		}
		all[tp] = broker.Offset{At: broker.None}
		if o, ok := g.committed[tp]; ok {
			all[tp] = o
		}
	}
	return all, 0
}

func sortedOffsets(at broker.Offsets) []record.TopicPartition {
	return slices.SortedFunc(maps.Keys(at), record.TopicPartition.Compare)
}
