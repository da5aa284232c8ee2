package transaction

import (
	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// initialize asks for an epoch: with what is known of the old one, so that the coordinator can tell a time-out (0) from a
// fence (90); without, as a take-over. An idempotent producer waits for its first batch.
func (m *Machine) initialize() {
	if !m.cfg.Transactional {
		if !m.waiting() {
			return
		}
		m.pid, m.epoch = -1, -1
	}
	m.ask(broker.OpInitProducerID, InitProducerID{m.pid, m.epoch})
}

func (m *Machine) waiting() bool {
	for _, l := range m.order {
		if len(l.queue) > 0 {
			return true
		}
	}
	return false
}

func (m *Machine) initialized(a Answer) {
	err := m.error(broker.OpInitProducerID, a.Code, First, record.TopicPartition{}, a.Cause)
	switch {
	case a.Code == 0:
		m.reinitialized(a)
	case err.Class == broker.Retry:
		// No budget: an outage never ends a node, and there is nothing else that a producer without an epoch could do.
		m.later(a.Code)
	case !m.cfg.Transactional:
		m.later(a.Code)
		m.dropAll(err)
	case err.Class == broker.Migrated:
		m.fenced(err)
	case err.Class == broker.Abort:
		// The coordinator has forgotten the id, so nobody owns it.
		m.try, m.pid, m.epoch = try{}, -1, -1
	default:
		m.fatal(err)
	}
}

// dropAll gives up what waits for a producer id that the brokers refuse.
func (m *Machine) dropAll(err *broker.Error) {
	for _, l := range m.order {
		for len(l.queue) > 0 {
			m.drop(l.queue[0], err)
		}
	}
}

func (m *Machine) reinitialized(a Answer) {
	if m.born {
		m.counts.Reinits++
	}
	if m.state == Aborting && m.begun {
		m.counts.Aborted++
	}
	m.pid, m.epoch, m.born = a.PID, a.Epoch, true
	m.begun, m.indefinite, m.bump, m.suspect, m.told, m.err = false, false, false, false, false, nil
	m.renumber()
	m.try = try{}
	m.txn++
	m.become(Ready)
}

func (m *Machine) fenced(err *broker.Error) {
	m.counts.Fenced++
	m.err, m.suspect, m.told, m.try = err, false, false, try{}
	m.become(Fenced)
	m.endCommit(err)
	m.takeBack(func(*Batch) bool { return true })
}

// described tells a foreign transaction from our own: a re-init by somebody who was fenced aborts the owner's open
// transaction before it is refused (facts, section 3), so it is not tried while another epoch has one open.
func (m *Machine) described(a Answer) {
	m.suspect = false
	m.try = try{}
	if a.Code == 0 && a.Open && (a.PID != m.pid || a.Epoch != m.epoch) {
		m.fenced(m.error(broker.OpInitProducerID, 90, First, record.TopicPartition{}, nil))
	}
}
