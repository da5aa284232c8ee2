package transaction

import (
	"iter"
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// Batch is records of one partition, as far as the protocol looks at them. Its fields are read-only after Put.
type Batch struct {
	To       record.TopicPartition
	Records  int32
	Interval uint64
	// Payload is the caller's.
	Payload any

	line *line
	// sequence is valid while numbered; flying is between Sent and Produced; sent says that a broker was sent it, doubt that it
	// may be in the log without an answer of 0; refused is between Refused and Replace.
	sequence                               int32
	numbered, flying, sent, doubt, refused bool
	attempts                               int
	retryAt, deadline                      time.Time
	err                                    *broker.Error // of the last attempt
}

// Sequence is what the batch was last sent under.
func (b *Batch) Sequence() int32 { return b.sequence }

// line is one partition's queue, in the order of the log. Up to Pipeline batches at its head are numbered; those that are
// flying are always the first ones, because what failed is sent again only when all behind it have answered.
type line struct {
	to     record.TopicPartition
	queue  []*Batch
	flying int
	next   int32 // sequence
	// added is the number of the transaction that the partition is in; asked that of the one it was last asked for in.
	added, asked uint64
	addTries     int
	addAt, addBy time.Time
	// touched is the last interval that it was touched in, plus 1.
	touched uint64
}

func (m *Machine) line(to record.TopicPartition) *line {
	l := m.lines[to]
	if l == nil {
		l = &line{to: to}
		m.lines[to] = l
		m.order = append(m.order, l)
	}
	return l
}

// insert puts a batch behind all that were sent and all of its interval and of earlier ones. Only an amended interval makes
// it anything but the end.
func (l *line) insert(b *Batch) {
	at := len(l.queue)
	for at > 0 && l.queue[at-1].Interval > b.Interval && !l.queue[at-1].sent {
		at--
	}
	l.queue = slices.Insert(l.queue, at, b)
}

// resting is the first batch that is not under way.
func (l *line) resting() *Batch {
	for _, b := range l.queue {
		if !b.flying {
			return b
		}
	}
	return nil
}

// unnumbered says that a batch among the first n has lost its number while it is under way. It will be refused, and what is sent
// before that would take its number, and its place in the log.
func (l *line) unnumbered(n int) bool {
	return slices.ContainsFunc(l.queue[:n], func(b *Batch) bool { return !b.numbered })
}

// candidate is the next batch to send, if the protocol allows one. After a failure the head goes alone, since what follows
// it would only be refused again.
func (m *Machine) candidate(l *line) *Batch {
	i := l.flying
	if i >= len(l.queue) || i >= m.cfg.Pipeline {
		return nil
	}
	b := l.resting()
	if b != l.queue[i] || (i > 0 && l.queue[0].attempts > 0) || l.unnumbered(i) {
		return nil
	}
	if m.cfg.Transactional && (b.Interval != m.current || l.added != m.txn) {
		return nil
	}
	return b
}

// sending says that batches may go out at all.
func (m *Machine) sending() bool {
	if m.cfg.Transactional {
		return m.state == InTransaction
	}
	return m.state == Ready && !m.bump
}

// Ready are the batches that may be sent now, at most one of a partition; for each that is, Sent is called before the next
// is taken. Calling it again gives the next ones.
func (m *Machine) Ready(now time.Time) iter.Seq[*Batch] {
	return func(yield func(*Batch) bool) {
		if !m.sending() {
			return
		}
		for _, l := range m.order {
			if b := m.candidate(l); b != nil && !now.Before(b.retryAt) && !yield(b) {
				return
			}
		}
	}
}

// Sent says that the batch goes out now, under the producer id, the epoch and Batch.Sequence.
func (m *Machine) Sent(b *Batch) (pid int64, epoch int16) {
	l := b.line
	if !b.numbered {
		b.sequence, b.numbered = l.next, true
		l.next = after(l.next, b.Records)
	}
	b.flying, b.sent = true, true
	l.flying++
	m.flying++
	return m.pid, m.epoch
}

// after is the sequence n records later. Sequences wrap to 0 behind the largest (KIP-98).
func after(sequence, n int32) int32 { return int32((int64(sequence) + int64(n)) & 0x7fffffff) }

// Failed says which ready batches could not be sent (no leader, no connection); no broker has seen them this time. It is
// called once for all, since what one of them leads to may take the others back.
func (m *Machine) Failed(now time.Time, failures []Failure) []Effect {
	m.begin(now)
	for _, f := range failures {
		if f.Batch.line != nil {
			m.again(f.Batch, m.error(broker.OpProduce, f.Code, First, f.Batch.To, f.Cause))
		}
	}
	m.proceed()
	return m.effects
}

// Produced is the broker's word about a batch that was sent.
func (m *Machine) Produced(now time.Time, b *Batch, r Result) []Effect {
	m.begin(now)
	l := b.line
	b.flying = false
	l.flying--
	m.flying--
	if m.cfg.Transactional && m.state != InTransaction {
		m.late(b, r)
	} else {
		m.produced(l, b, r)
	}
	m.proceed()
	return m.effects
}

// late is for the answers of a transaction that will not be committed. What was written needs no more than its marker; what
// may have been leaves a doubt about the sequence behind.
func (m *Machine) late(b *Batch, r Result) {
	if r.Code != 0 {
		m.bump = true
	}
	m.finish(b)
}

func (m *Machine) produced(l *line, b *Batch, r Result) {
	situation := First
	if r.Code == 45 && (!b.numbered || l.queue[0] != b) {
		situation = Behind
	}
	err := m.error(broker.OpProduce, r.Code, situation, b.To, r.Cause)
	if m.cfg.strange(broker.OpProduce, r.Code) {
		err = m.unheardOf(err, r)
	}
	m.indefinite = m.indefinite || r.Code == Transport
	b.doubt = b.doubt || r.Code == Transport || r.Code == 7 || r.Code == 20
	switch err.Class {
	case broker.Ignore:
		m.written(l, b, r)
	case broker.Record:
		m.refused(b, err, false)
	case broker.Retry:
		if situation == Behind {
			m.behind(b, err)
			return
		}
		m.again(b, err)
	case broker.Abort:
		m.lost(b, err)
	default:
		m.hopeless(b, err)
	}
}

func (m *Machine) written(l *line, b *Batch, r Result) {
	if !b.numbered {
		m.bump = true // a gap in front of it was no gap to the broker: trust no sequence any more
	}
	if iv := m.interval(b.Interval); r.Base >= 0 {
		iv.ends[b.To] = max(iv.ends[b.To], r.Base+int64(b.Records))
	}
	m.finish(b)
}

// refused frees the batch's sequence: the broker checks what is in a batch before it looks at the sequence, so neither this
// one nor anything behind it is in the log, and what was sent behind it is numbered anew. (Aborting for the 45 that those
// get, as other clients do, would make one bad record cost a transaction.)
//
// A batch that may be in the log all the same (its first answer was lost, and a limit has changed since) keeps its sequence
// for ever: that is a matter for another epoch.
func (m *Machine) refused(b *Batch, err *broker.Error, whole bool) {
	l := b.line
	m.bump = m.bump || b.doubt
	if b.doubt && m.cfg.Transactional {
		m.fail(overdue(err))
		return
	}
	if b.numbered && !b.doubt {
		l.next = b.sequence
		at := slices.Index(l.queue, b)
		for _, f := range l.queue[at+1:] {
			f.numbered = false
		}
	}
	b.numbered, b.refused = false, true
	m.do(Refused{b, err, whole})
}

// Replace answers Refused: parts, in order, take the batch's place, and gone are the records that are given up.
func (m *Machine) Replace(now time.Time, b *Batch, parts []*Batch, gone []broker.Refused) []Effect {
	m.begin(now)
	l := b.line
	iv := m.interval(b.Interval)
	iv.refused = append(iv.refused, gone...)
	if m.cfg.Transactional && m.state != InTransaction || !m.cfg.Transactional && b.Interval < m.keep {
		for _, p := range parts { // taken back meanwhile
			m.do(Release{p})
		}
		parts = nil
	}
	for _, p := range parts {
		p.line, p.deadline = l, b.deadline
	}
	iv.batches += len(parts)
	l.queue = slices.Insert(l.queue, slices.Index(l.queue, b)+1, parts...)
	m.finish(b)
	m.proceed()
	return m.effects
}

// behind keeps the batch in its place without a pause: nothing is wrong with it, and the one before it has its own.
func (m *Machine) behind(b *Batch, err *broker.Error) {
	b.err = err
	if !b.deadline.IsZero() && m.now.After(b.deadline) {
		m.giveUp(b)
	}
}

// again keeps the batch in its place for another try, until its delivery time-out.
func (m *Machine) again(b *Batch, err *broker.Error) {
	b.err = err
	b.attempts++
	b.retryAt = m.now.Add(m.cfg.Backoff(b.attempts))
	if !b.deadline.IsZero() && m.now.After(b.deadline) {
		m.giveUp(b)
	}
}

// giveUp is for a batch whose delivery time-out is over. A topic that is not there is a matter of the record; anything else
// loses the transaction, or, without one, the batch: its sequence may be in the log, so another epoch is needed.
func (m *Machine) giveUp(b *Batch) {
	err := b.err
	if err == nil {
		err = m.error(broker.OpProduce, Transport, First, b.To, nil)
	}
	late := *err
	if late.Code == 3 {
		late.Class = broker.Record
		m.refused(b, &late, true)
		return
	}
	late.Class = broker.Abort
	if m.cfg.Transactional {
		m.bump = m.bump || b.sent
		m.fail(&late)
		return
	}
	m.drop(b, &late)
}

// lost is a code that says that the broker does not know this producer any more.
func (m *Machine) lost(b *Batch, err *broker.Error) {
	m.bump = true
	if m.cfg.Transactional {
		m.fail(err)
		return
	}
	m.again(b, err)
}

// hopeless is a code that no second try helps against.
func (m *Machine) hopeless(b *Batch, err *broker.Error) {
	switch {
	case !m.cfg.Transactional:
		m.drop(b, err)
	case err.Code == 53:
		m.fatal(err)
	default:
		m.bump = true
		m.fail(err)
	}
}

// drop gives an idempotent batch up with an error for its flush.
func (m *Machine) drop(b *Batch, err *broker.Error) {
	iv := m.interval(b.Interval)
	iv.err = err
	m.bump = m.bump || b.sent
	m.finish(b)
}

// unheardOf is a code that the table does not hold: once it costs the transaction, twice the producer.
func (m *Machine) unheardOf(err *broker.Error, r Result) *broker.Error {
	if m.strange && !m.bump { // while bump is set it is the same trouble
		return m.error(broker.OpProduce, r.Code, Again, err.Source, r.Cause)
	}
	m.strange = true
	return err
}

// finish takes a batch out of its line and gives it back.
func (m *Machine) finish(b *Batch) {
	l := b.line
	at := slices.Index(l.queue, b)
	l.queue = slices.Delete(l.queue, at, at+1)
	b.line = nil
	m.interval(b.Interval).batches--
	m.do(Release{b})
}

// takeBack drops the batches that no request is under way with and that pick chooses.
func (m *Machine) takeBack(pick func(*Batch) bool) {
	for _, l := range m.order {
		for i := 0; i < len(l.queue); {
			b := l.queue[i]
			if b.flying || b.refused || !pick(b) {
				i++
				continue
			}
			if b.sent {
				m.bump = true // whether it is in the log is not known
			}
			m.finish(b)
		}
	}
}

// renumber starts every sequence at 0, under another epoch.
func (m *Machine) renumber() {
	for _, l := range m.order {
		l.next = 0
		for _, b := range l.queue {
			b.numbered, b.sent, b.doubt = false, false, false
		}
	}
}

// expire gives up what waited for too long. The clock of a batch starts when its interval's turn comes and its partition is in
// the transaction; partitions have a clock of their own.
func (m *Machine) expire() {
	if m.cfg.Transactional && m.state != InTransaction {
		return
	}
	for _, l := range m.order {
		for i := 0; i < len(l.queue); {
			b := l.queue[i]
			if m.cfg.Transactional && (b.Interval != m.current || l.added != m.txn) {
				break
			}
			if b.deadline.IsZero() {
				b.deadline = m.now.Add(m.cfg.DeliveryTimeout)
			}
			if b.flying || b.refused || !m.now.After(b.deadline) {
				i++
				continue
			}
			m.giveUp(b)
			return // one at a time: what it leads to comes first, and Next asks for the others at once
		}
	}
}
