package transaction

import (
	"errors"
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// commit is a Commit on its way.
type commit struct {
	token   uint64
	offsets broker.Offsets
	of      broker.Membership
	// silent: an Abort came after it, and its answer is not wanted any more.
	silent bool
	stage  stage
}

// stage is what a commit asks for next.
type stage uint8

const (
	toAddOffsets stage = iota
	toHoldOffsets
	toEnd
)

// ErrIllegalState is the bare cause of an error that only a mistake in the calling code can bring about.
var ErrIllegalState = errors.New("transaction: illegal state")

var errNoAnswer = errors.New("transaction: the answer lacks a partition")

// Commit commits the interval that was flushed last. Exactly one broker.TransactionEnded with the token follows, unless an
// Abort comes first.
func (m *Machine) Commit(now time.Time, token uint64, offsets broker.Offsets, of broker.Membership) []Effect {
	m.begin(now)
	switch {
	case m.over():
		m.deliver(broker.TransactionEnded{Token: token, Err: m.err})
	case !m.cfg.Transactional || m.commit != nil || m.state == Aborting || m.state == CommitUnknown || !m.interval(m.current).flushed:
		m.deliver(broker.TransactionEnded{Token: token, Err: &broker.Error{Op: broker.OpEndTxn, Class: broker.Fatal, Cause: ErrIllegalState}})
	default:
		m.commit = &commit{token: token, offsets: offsets, of: of}
	}
	m.proceed()
	return m.effects
}

// endCommit answers a commit, if there is one.
func (m *Machine) endCommit(err *broker.Error) {
	if c := m.commit; c != nil {
		m.commit = nil
		if !c.silent {
			m.deliver(broker.TransactionEnded{Token: c.token, Err: err})
		}
	}
}

func (m *Machine) startCommit() {
	if m.commit == nil || m.try.out {
		return
	}
	if len(m.commit.offsets) == 0 {
		m.commit.stage = toEnd
	}
	m.try = try{}
	m.become(Committing)
}

func (m *Machine) goOnCommitting() {
	c := m.commit
	switch {
	case c == nil: // unknown, and said so
	case c.stage == toAddOffsets:
		m.begun = true
		m.ask(broker.OpAddOffsets, AddOffsets{m.pid, m.epoch, c.of.Group})
	case c.stage == toHoldOffsets:
		m.ask(broker.OpTxnOffsetCommit, TxnOffsetCommit{m.pid, m.epoch, c.offsets, c.of})
	case !m.begun:
		m.committed() // nothing was written and nothing is to be held
	default:
		m.ask(broker.OpEndTxn, EndTxn{m.pid, m.epoch, true})
	}
}

func (m *Machine) offsetsAdded(a Answer) {
	m.step(m.error(broker.OpAddOffsets, a.Code, First, record.TopicPartition{}, a.Cause), toHoldOffsets)
}

// offsetsHeld takes the gravest of the partitions' codes: one partition that is not held makes the commit one without it.
func (m *Machine) offsetsHeld(a Answer) {
	err := m.error(broker.OpTxnOffsetCommit, a.Code, First, record.TopicPartition{}, a.Cause)
	for _, tp := range sorted(a.Codes) {
		if e := m.error(broker.OpTxnOffsetCommit, a.Codes[tp], First, tp, a.Cause); gravity[e.Class] > gravity[err.Class] {
			err = e
		}
	}
	m.step(err, toEnd)
}

var gravity = map[broker.Class]int{broker.Ignore: 0, broker.Retry: 1, broker.Abort: 2, broker.CommitUnknown: 3, broker.Migrated: 4, broker.Fatal: 5}

func sorted(codes map[record.TopicPartition]int16) []record.TopicPartition {
	tps := make([]record.TopicPartition, 0, len(codes))
	for tp := range codes {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, record.TopicPartition.Compare)
	return tps
}

// step is the answer to one of the two requests about offsets.
func (m *Machine) step(err *broker.Error, then stage) {
	if err.Code == Transport {
		m.indefinite = true
	}
	switch err.Class {
	case broker.Ignore:
		m.commit.stage, m.try = then, try{}
	case broker.Retry:
		if m.now.Sub(m.try.since) <= m.cfg.DeliveryTimeout {
			m.later(err.Code)
			return
		}
		m.refuse(overdue(err))
	default:
		m.refuse(err)
	}
}

// overdue makes the last error of what was retried for too long an Abort.
func overdue(err *broker.Error) *broker.Error {
	late := *err
	late.Class = broker.Abort
	return &late
}

// refuse ends a commit that did not happen. It never goes on to EndTxn(commit): that would commit the records without the
// offsets, and the input would be processed twice.
func (m *Machine) refuse(err *broker.Error) {
	m.try = try{}
	if err.Code == 53 {
		m.fatal(err)
		return
	}
	m.fail(err)
}

// ended is the answer to EndTxn.
func (m *Machine) ended(a Answer) {
	if m.state == Aborting {
		m.abortEnded(a)
		return
	}
	situation := First
	if m.try.repeated {
		situation = Repeated
	}
	err := m.error(broker.OpEndTxn, a.Code, situation, record.TopicPartition{}, a.Cause)
	switch {
	case a.Code == 0:
		m.committed()
	case err.Class == broker.Retry || (err.Class == broker.CommitUnknown && situation == First):
		m.repeat(err)
	case err.Class == broker.CommitUnknown:
		m.unknown(err)
	default:
		m.indefinite = m.indefinite || err.Class == broker.Fatal
		m.refuse(err)
	}
}

// repeat sends the same EndTxn again. Without a clear answer it may have been carried out, and may even be carried out
// later, so from here on only its own answer can tell.
func (m *Machine) repeat(err *broker.Error) {
	if err.Class == broker.CommitUnknown {
		m.indefinite, m.try.repeated = true, true
		m.become(CommitUnknown)
	}
	if m.now.Sub(m.try.since) > 2*m.cfg.TransactionTimeout {
		if m.state == Committing {
			m.refuse(overdue(err)) // never anything but a clear refusal: it was not carried out
			return
		}
		m.unknown(err)
		return
	}
	m.later(err.Code)
}

// unknown gives up asking. Without a quorum the transaction may still be open: the re-init ends it, and committed offsets tell.
func (m *Machine) unknown(err *broker.Error) {
	m.counts.CommitUnknown++
	unknown := *err
	unknown.Class = broker.CommitUnknown
	m.indefinite = true
	m.try = try{}
	m.suspect = true
	m.endCommit(&unknown)
	if len(m.aborts) > 0 {
		m.become(Aborting)
	}
}

func (m *Machine) committed() {
	m.try = try{}
	if m.begun {
		m.counts.Committed++
	}
	m.strange = false
	m.endTransaction()
	if len(m.aborts) == 0 {
		m.current++
	}
	m.endCommit(nil)
	if m.indefinite || m.bump {
		m.become(Uninitialized)
		return
	}
	m.become(Ready)
}

// endTransaction forgets which partitions were in it.
func (m *Machine) endTransaction() {
	m.begun = false
	m.txn++
	m.adding = nil
}
