package transaction

import (
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// Abort takes back everything of an interval before the given one, which is the next to be written. Exactly one
// broker.TransactionAborted with the token follows; flushes and a commit that were asked for before are not answered any
// more. A commit whose first request has gone out is brought to its end first.
func (m *Machine) Abort(now time.Time, token, interval uint64) []Effect {
	m.begin(now)
	m.aborts = append(m.aborts, token)
	m.flushes, m.keep = nil, interval
	if !m.cfg.Transactional {
		m.takeBackUnsent()
		m.prune(interval)
		m.proceed()
		return m.effects
	}
	m.takeBack(func(b *Batch) bool { return b.Interval < interval })
	if m.commit != nil {
		m.commit.silent = true
		if m.state != Committing && m.state != CommitUnknown {
			m.commit = nil
		}
	}
	m.startAbort()
	m.proceed()
	return m.effects
}

// takeBackUnsent leaves what a broker may have seen: it is finished, because its sequence may be in the log, and because a
// straggler under an old producer id could land behind newer records of the same key.
func (m *Machine) takeBackUnsent() {
	m.takeBack(func(b *Batch) bool { return b.Interval < m.keep && (!b.sent || m.state == Uninitialized) })
}

func (m *Machine) startAbort() {
	if !m.try.out && m.commit == nil {
		m.try = try{}
	}
	switch m.state {
	case InTransaction, AbortableError, Fatal:
		m.become(Aborting)
	case CommitUnknown:
		if m.commit == nil {
			m.become(Aborting)
		}
	case Fenced:
		if m.told {
			m.pid, m.epoch = -1, -1
			m.become(Aborting)
		}
	case Uninitialized, Ready, Committing, Aborting: // what is under way comes first
	}
}

// answerAborts answers what was asked for as soon as nothing of the old is left, and says whether it did.
func (m *Machine) answerAborts() bool {
	if len(m.aborts) == 0 || m.flying > 0 && m.cfg.Transactional {
		return false
	}
	var err *broker.Error
	switch m.state {
	case Ready:
		if m.cfg.Transactional {
			m.current = m.keep
		}
	case Fenced, Fatal:
		err, m.told = m.err, true
	case Uninitialized:
		if m.cfg.Transactional {
			return false
		}
	default:
		return false
	}
	if !m.cfg.Transactional && m.anyBefore(m.keep) {
		return false
	}
	m.prune(m.keep)
	for _, token := range m.aborts {
		m.deliver(broker.TransactionAborted{Token: token, Err: err})
	}
	m.aborts = nil
	return true
}

func (m *Machine) anyBefore(interval uint64) bool {
	for _, l := range m.order {
		for _, b := range l.queue {
			if b.Interval < interval {
				return true
			}
		}
	}
	return false
}

// goOnAborting waits until everything has answered: a broker takes a late batch into the next transaction of the epoch.
// Then, if every answer was a clear one, the epoch is kept and the transaction ended. Otherwise InitProducerId aborts it and
// raises the epoch in one step; whatever is still on its way bounces off.
func (m *Machine) goOnAborting() {
	if m.flying > 0 {
		return
	}
	switch {
	case m.bump || m.indefinite || m.pid < 0:
		if m.suspect {
			m.ask(OpDescribe, Describe{})
			return
		}
		m.ask(broker.OpInitProducerID, InitProducerID{m.pid, m.epoch})
	case m.begun:
		m.ask(broker.OpEndTxn, EndTxn{m.pid, m.epoch, false})
	default:
		m.aborted()
	}
}

func (m *Machine) abortEnded(a Answer) {
	err := m.error(broker.OpEndTxn, a.Code, ToAbort, record.TopicPartition{}, a.Cause)
	switch {
	case a.Code == 0:
		m.counts.Aborted++
		m.aborted()
	case err.Class == broker.Retry:
		m.later(a.Code)
	case err.Class == broker.Fatal:
		m.fatal(err)
	default: // nothing open, timed out, fenced, or no answer: InitProducerId tells
		m.try = try{}
		m.bump = true
		m.suspect = err.Code == 47 || err.Code == 90
	}
}

func (m *Machine) aborted() {
	m.try, m.err, m.suspect = try{}, nil, false
	m.endTransaction()
	m.become(Ready)
}
