package member

import (
	"maps"
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// pendingCommit is a commit without an answer.
type pendingCommit struct {
	token   uint64
	offsets broker.Offsets
	gen     int32 // it was last sent with
	held    bool  // until the sync
	attempt int
}

// Commit asks for offsets to be committed. Exactly one broker.OffsetsCommitted follows. Before a first join, after a
// loss and after the end it is answered with Migrated; for a partition that is not this member's, with Abort.
func (m *Machine) Commit(now time.Time, token uint64, offsets broker.Offsets) []Effect {
	m.begin(now)
	c := &pendingCommit{token: token, offsets: offsets}
	if m.over() || m.gen < 0 {
		m.answer(c, m.cfg.Error(broker.OpOffsetCommit, 25))
		return m.effects
	}
	m.commits[token] = c
	if m.phase == Syncing {
		c.held = true
	} else if m.keeps(c) {
		m.send(c)
	}
	return m.effects
}

func (m *Machine) send(c *pendingCommit) {
	c.gen, c.held = m.gen, false
	m.do(Commit{c.token, c.offsets, m.gen, m.id, c.attempt})
}

func (m *Machine) answer(c *pendingCommit, err *broker.Error) {
	delete(m.commits, c.token)
	m.deliver(broker.OffsetsCommitted{Token: c.token, Err: err})
}

// Committed is the answer to Commit. 27, and 22 for an older generation or while this member's own join is pending, are
// no loss: the commit waits for the sync and goes out again if its partitions are still this member's.
func (m *Machine) Committed(now time.Time, token uint64, code int16) []Effect {
	m.begin(now)
	c := m.commits[token]
	if c == nil {
		return nil
	}
	do := react(broker.OpOffsetCommit, code)
	if code == 22 && (c.gen != m.gen || !m.settled()) {
		do = hold
	}
	switch do {
	case goOn:
		m.answer(c, nil)
	case hold:
		c.attempt++
		if c.held = !m.settled(); !c.held && m.keeps(c) {
			m.send(c)
		}
	case again:
		c.attempt++
		if c.held = m.phase == Syncing; !c.held && m.keeps(c) {
			m.send(c)
		}
	case lose, fence:
		m.giveUp(broker.OpOffsetCommit, code)
	default:
		m.answer(c, m.cfg.Error(broker.OpOffsetCommit, code))
	}
	return m.effects
}

// keeps says that every partition of the commit is still owned; if not, the commit is answered with Abort. It is all or
// nothing, since a commit is one unit of the owner's.
func (m *Machine) keeps(c *pendingCommit) bool {
	for tp := range c.offsets {
		if !slices.Contains(m.owned, tp) {
			err := *m.cfg.Error(broker.OpOffsetCommit, 22)
			err.Class, err.Source = broker.Abort, tp
			m.answer(c, &err)
			return false
		}
	}
	return true
}

func (m *Machine) resend() {
	for _, token := range slices.Sorted(maps.Keys(m.commits)) {
		if c := m.commits[token]; c.held && m.keeps(c) {
			m.send(c)
		}
	}
}

func (m *Machine) answerCommits(err *broker.Error) {
	for _, token := range slices.Sorted(maps.Keys(m.commits)) {
		m.answer(m.commits[token], err)
	}
}

// Offsets asks for committed positions, with stable for ones that no transaction is about to change. Exactly one
// broker.OffsetsFetched follows.
func (m *Machine) Offsets(now time.Time, token uint64, tps []record.TopicPartition, stable bool) []Effect {
	m.begin(now)
	if m.over() {
		m.deliver(broker.OffsetsFetched{Token: token, Err: m.cfg.Error(broker.OpOffsetFetch, 25)})
		return m.effects
	}
	m.reads[token] = tps
	m.do(Fetch{token, tps, stable})
	return m.effects
}

// Fetched is the answer to Fetch, which is asked until the error, if any, is not a transient one.
func (m *Machine) Fetched(now time.Time, token uint64, offsets broker.Offsets, err *broker.Error) []Effect {
	m.begin(now)
	if _, ok := m.reads[token]; !ok {
		return nil
	}
	delete(m.reads, token)
	m.deliver(broker.OffsetsFetched{Token: token, Offsets: offsets, Err: err})
	return m.effects
}

func (m *Machine) answerReads(err *broker.Error) {
	for _, token := range slices.Sorted(maps.Keys(m.reads)) {
		m.deliver(broker.OffsetsFetched{Token: token, Err: err})
	}
	clear(m.reads)
}
