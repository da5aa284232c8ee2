package transaction

import (
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// add asks for all partitions that the interval has touched and that are not in the transaction. Those that the broker does
// not know are asked for apart: a request with one of them is refused as a whole (55).
func (m *Machine) add() {
	if m.try.out || len(m.aborts) > 0 {
		return
	}
	iv := m.interval(m.current)
	m.adding = m.adding[:0]
	for _, l := range iv.touched {
		if l.asked != m.txn {
			l.asked, l.addTries, l.addAt, l.addBy = m.txn, 0, time.Time{}, m.now.Add(m.cfg.DeliveryTimeout)
		}
		if l.addTries == 0 {
			m.adding = append(m.adding, l)
		}
	}
	if len(m.adding) == 0 {
		for _, l := range iv.touched {
			if l.addTries > 0 && !m.now.Before(l.addAt) {
				m.adding = append(m.adding, l)
			}
		}
	}
	if len(m.adding) == 0 {
		return
	}
	tps := make([]record.TopicPartition, len(m.adding))
	for i, l := range m.adding {
		tps[i] = l.to
	}
	if !m.ask(broker.OpAddPartitions, AddPartitions{m.pid, m.epoch, tps}) {
		return
	}
	m.begun = true
	if m.state == Ready {
		m.become(InTransaction)
	}
}

func (m *Machine) partitionsAdded(a Answer) {
	if a.Code == Transport {
		m.indefinite = true
	}
	if m.state != InTransaction {
		m.try = try{}
		return
	}
	worst := m.error(broker.OpAddPartitions, a.Code, First, record.TopicPartition{}, a.Cause)
	var unknown []*line
	for _, l := range m.adding {
		code, ok := a.Codes[l.to]
		switch {
		case !ok:
		case code == 0:
			l.added = m.txn
			m.untouch(l)
		case code == 3:
			unknown = append(unknown, l)
		default:
			if e := m.error(broker.OpAddPartitions, code, First, l.to, a.Cause); gravity[e.Class] > gravity[worst.Class] {
				worst = e
			}
		}
	}
	since, missing := m.try.since, m.missing(a)
	switch {
	case worst.Class == broker.Retry && m.now.Sub(since) <= m.cfg.DeliveryTimeout:
		m.later(worst.Code)
	case worst.Class == broker.Retry:
		m.refuse(overdue(worst))
	case worst.Class != broker.Ignore:
		m.refuse(worst)
	case missing:
		m.refuse(m.error(broker.OpAddPartitions, -1, First, record.TopicPartition{}, errNoAnswer))
	default:
		m.try = try{}
		m.unknownPartitions(unknown)
	}
}

// missing says that an answer of 0 lacks a partition that was asked for.
func (m *Machine) missing(a Answer) bool {
	return a.Code == 0 && slices.ContainsFunc(m.adding, func(l *line) bool { _, ok := a.Codes[l.to]; return !ok })
}

func (m *Machine) untouch(l *line) {
	iv := m.interval(m.current)
	if at := slices.Index(iv.touched, l); at >= 0 {
		iv.touched = slices.Delete(iv.touched, at, at+1)
	}
}

// unknownPartitions are tried again until their time is over; a topic may be on its way to the brokers. Then their records
// are refused, and the transaction goes on without them.
func (m *Machine) unknownPartitions(lines []*line) {
	for _, l := range lines {
		l.addTries++
		l.addAt = m.now.Add(m.cfg.Backoff(l.addTries))
		if !m.now.After(l.addBy) {
			continue
		}
		m.untouch(l)
		err := m.error(broker.OpAddPartitions, 3, First, l.to, nil)
		err.Class = broker.Record
		for _, b := range l.queue {
			if b.Interval == m.current {
				m.refused(b, err, true)
			}
		}
	}
}
