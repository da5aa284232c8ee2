package thread_test

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// producer is a node's producer. At least once, epoch and txn mean nothing.
type producer struct {
	// era is the epoch that it believes to have; takeOver says that its next Abort takes the id whoever has it.
	era      int
	takeOver bool
	// refused says that its last Abort was answered with a fence, and no assignment has come since.
	refused bool
	// cur are the records of the interval; those before sent are in their logs.
	cur  []appended
	sent int
	txn  *transaction
	ends map[record.TopicPartition]int64
	// flush is the flush without an answer, flushed says that the last one was answered well.
	flush   *flushRequest
	flushed bool
	// broken says that a flush or commit has failed: what is held stays where it is until the Abort.
	broken bool
	commit *endRequest
	// ending are commits that an Abort brings to their end.
	ending []*endRequest
	aborts []uint64
	fences []fenceRequest
}

type appended struct {
	tp record.TopicPartition
	r  record.Raw
}

type flushRequest struct {
	token   uint64
	records []appended
}

// endPhase is how far a Producer.Commit has come.
type endPhase uint8

const (
	notSent endPhase = iota
	offsetsSent
	decided
)

type endRequest struct {
	token   uint64
	phase   endPhase
	txn     *transaction
	epoch   int
	offsets broker.Offsets
	of      broker.Membership
	err     *broker.Error
}

type fenceRequest struct {
	token uint64
	id    string
}

type producerPort node

// Append implements thread.Producer.
func (p *producerPort) Append(tp record.TopicPartition, r *record.Raw) error {
	(*node)(p).asks("append %s %s=%s", tp, r.Key, count(r.Value))
	if len(p.aborts) > 0 {
		p.w.fatal("%s appends while an abort is under way", p.name)
	}
	c := record.Raw{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		c.Headers = append(c.Headers, record.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	p.cur = append(p.cur, appended{tp, c})
	return nil
}

// Partitions implements thread.Producer.
func (p *producerPort) Partitions(string) (int32, error) { return partitions, nil }

// Tick implements thread.Producer.
func (p *producerPort) Tick(time.Time) time.Time { return time.Time{} }

// Buffered implements thread.Producer.
func (p *producerPort) Buffered() int64 { return 0 }

// Amend implements thread.Producer.
func (p *producerPort) Amend(uint64, []broker.Outgoing) { p.w.fatal("nothing was refused") }

// Flush implements thread.Producer.
func (p *producerPort) Flush(token uint64) {
	(*node)(p).asks("flush %d", token)
	if p.flush != nil || p.commit != nil || len(p.commits) > 0 || len(p.aborts) > 0 {
		p.w.fatal("%s begins a commit while another one, or an abort, is under way", p.name)
	}
	p.flush, p.flushed = &flushRequest{token, p.cur[p.sent:]}, false
	p.cur, p.sent = nil, 0
}

// Commit implements thread.Producer.
func (p *producerPort) Commit(token uint64, offsets broker.Offsets, of broker.Membership) {
	(*node)(p).asks("commit %d %v of generation %d as %s", token, offsets, of.Generation, of.MemberID)
	n := (*node)(p)
	if !p.flushed || p.flush != nil || p.commit != nil || len(p.aborts) > 0 || !p.w.exactlyOnce {
		p.w.fatal("%s commits what is not flushed, or twice", p.name)
	}
	p.flushed = false
	n.covered(offsets)
	p.commit = &endRequest{token: token, txn: n.begun(), epoch: p.era, offsets: maps.Clone(offsets), of: of}
	p.txn = nil
}

// covered: every task whose records are in the transaction has its offsets in it too.
func (n *node) covered(offsets broker.Offsets) {
	for tp := range offsets {
		if !n.held[tp.Partition] {
			n.w.fatal("%s commits %s, which it has given up", n.name, tp)
		}
	}
	if n.txn == nil {
		return
	}
	for p := range int32(partitions) {
		if _, ok := offsets[in(p)]; !ok && (n.has(n.w.outputs[p]) || n.has(n.w.changelog[p])) {
			n.w.fatal("%s commits records of partition %d without its offsets", n.name, p)
		}
	}
}

func (n *node) has(log []entry) bool {
	return slices.ContainsFunc(log, func(e entry) bool { return e.txn == n.txn })
}

// Abort implements thread.Producer.
func (p *producerPort) Abort(token uint64) {
	(*node)(p).asks("abort %d", token)
	if p.refused {
		p.w.fatal("%s takes its transactional id back without an assignment in between", p.name)
	}
	if p.commit != nil {
		p.ending = append(p.ending, p.commit)
	}
	p.cur, p.sent, p.flush, p.flushed, p.commit, p.ends, p.broken = nil, 0, nil, false, nil, nil, false
	p.aborts = append(p.aborts, token)
}

// Fence implements thread.Producer.
func (p *producerPort) Fence(token uint64, id string) {
	(*node)(p).asks("fence %d %s", token, id)
	if slices.Contains(p.told, id) {
		p.w.fatal("%s fences %s, which is alive", p.name, id)
	}
	for _, f := range p.fences {
		if f.id == id {
			p.w.fatal("%s fences %s twice", p.name, id)
		}
	}
	p.fences = append(p.fences, fenceRequest{token, id})
}

func producerError(op broker.Op, code int16, class broker.Class) *broker.Error {
	return &broker.Error{Op: op, Code: code, Class: class}
}

// owner says that the producer has its transactional id, and its transaction is not over.
func (n *node) owner() bool {
	return n.era == n.w.producers[n.id()].epoch && (n.txn == nil || n.txn.outcome == open)
}

// begun is the transaction of the interval.
func (n *node) begun() *transaction {
	if n.txn == nil {
		n.txn = &transaction{}
		if n.owner() {
			n.w.producers[n.id()].txn = n.txn
		}
	}
	return n.txn
}

// write puts records into their logs. One that has lost its id writes nothing.
func (n *node) write(all []appended) (ok bool) {
	txn := settled
	if n.w.exactlyOnce {
		if !n.owner() {
			return false
		}
		txn = n.begun()
	}
	if n.ends == nil {
		n.ends = map[record.TopicPartition]int64{}
	}
	for _, a := range all {
		log := n.w.changelog
		if a.tp.Topic == "out" {
			log = n.w.outputs
		}
		if a.tp.Topic != "out" && (!n.in || !slices.Contains(n.owned, in(a.tp.Partition))) {
			n.w.overtake(a)
		}
		a.r.Offset = int64(len(log[a.tp.Partition]))
		log[a.tp.Partition] = append(log[a.tp.Partition], entry{a.r, txn})
		n.ends[a.tp] = a.r.Offset + 1
	}
	return true
}

// overtake notes a count of one who has lost its partition that is below one in the changelog.
func (w *world) overtake(a appended) {
	p, key := a.tp.Partition, string(a.r.Key)
	for _, e := range w.changelog[p] {
		if string(e.Key) == key && binary.BigEndian.Uint64(e.Value) > binary.BigEndian.Uint64(a.r.Value) {
			if w.overtaken[p] == nil {
				w.overtaken[p] = map[string]bool{}
			}
			w.overtaken[p][key] = true
		}
	}
}

// early sends what is appended before anybody asks for it, as a linger does.
func (n *node) early() {
	if !n.broken && n.flush == nil && !n.flushed && n.commit == nil && len(n.aborts) == 0 && n.sent < len(n.cur) && n.write(n.cur[n.sent:]) {
		n.sent = len(n.cur)
	}
}

func (n *node) answerProducer() {
	n.early()
	n.answerFlush()
	n.answerCommit()
	for n.commit != nil && !n.w.chance("the end is late", 3) && n.carryCommit() {
	}
	n.answerAbort()
	n.answerFence()
}

func (n *node) answerFlush() {
	f := n.flush
	if f == nil {
		return
	}
	n.flush = nil
	part := len(f.records)
	fails := n.w.chance("a flush fails", 6)
	if fails {
		part /= 2
	}
	if !n.write(f.records[:part]) || fails {
		n.broken = true
		n.put(broker.Flushed{Token: f.token, Err: producerError(broker.OpProduce, 47, broker.Abort)})
		return
	}
	ends := n.ends
	n.ends, n.flushed = nil, true
	n.put(broker.Flushed{Token: f.token, Ends: ends})
}

// carryCommit takes a Producer.Commit one step further, and says whether there is another one to take.
func (n *node) carryCommit() bool {
	c := n.commit
	switch {
	case c == nil:
		return false
	case c.phase == notSent:
		n.sendOffsets(c)
	case c.phase == offsetsSent && n.w.chance("nobody knows", 4):
		c.phase, c.err = decided, producerError(broker.OpEndTxn, 90, broker.CommitUnknown)
		if n.w.chance("it was committed", 2) {
			n.endTransaction(c)
		}
		c.phase, c.err = decided, producerError(broker.OpEndTxn, 90, broker.CommitUnknown)
	case c.phase == offsetsSent:
		n.endTransaction(c)
	default:
		n.commit, n.broken = nil, c.err != nil
		n.put(broker.TransactionEnded{Token: c.token, Err: c.err})
	}
	return true
}

// sendOffsets is TxnOffsetCommit: the group looks at generation and member now, and never again.
func (n *node) sendOffsets(c *endRequest) {
	code, class := int16(0), broker.Abort
	switch {
	case n.w.chance("the offsets fail", 8):
		code = 48
	case c.epoch != n.w.producers[n.id()].epoch || c.txn.outcome != open:
		code = 47
	case !n.in || c.of.MemberID != n.member.id:
		code, class = 25, broker.Migrated
	case c.of.Generation != n.w.gen:
		code, class = 22, broker.Migrated
	}
	if code != 0 {
		c.phase, c.err = decided, producerError(broker.OpTxnOffsetCommit, code, class)
		return
	}
	c.phase, c.txn.pending = offsetsSent, c.offsets
}

// endTransaction is EndTxn.
func (n *node) endTransaction(c *endRequest) {
	c.phase = decided
	if c.txn.outcome != open || n.w.chance("the end fails", 10) {
		c.err = producerError(broker.OpEndTxn, 90, broker.Abort)
		return
	}
	c.txn.outcome = committed
	n.commitOffsets(c.offsets)
}

// answerAbort is InitProducerId: what is open is over, and one who was fenced is told.
func (n *node) answerAbort() {
	if len(n.aborts) == 0 {
		return
	}
	for _, c := range n.ending {
		if c.phase == decided || !n.w.chance("it goes through", 2) {
			continue
		}
		if c.phase == notSent {
			n.sendOffsets(c)
		}
		if c.phase == offsetsSent {
			n.endTransaction(c)
		}
	}
	token, id := n.aborts[0], n.w.producers[n.id()]
	n.aborts, n.ending, n.txn = n.aborts[1:], nil, nil
	if n.w.exactlyOnce && id.epoch != n.era && !n.takeOver {
		n.takeOver, n.refused = true, true
		n.put(broker.TransactionAborted{Token: token, Err: producerError(broker.OpInitProducerID, 90, broker.Migrated)})
		return
	}
	id.abort()
	n.era, n.takeOver = id.epoch, false
	n.put(broker.TransactionAborted{Token: token})
}

func (n *node) answerFence() {
	if len(n.fences) == 0 {
		return
	}
	f := n.fences[0]
	n.fences = n.fences[1:]
	if n.w.chance("a fence fails", 4) {
		n.put(broker.Fenced{Token: f.token, Err: producerError(broker.OpInitProducerID, 51, broker.Retry)})
		return
	}
	n.w.producers[f.id].abort()
	n.put(broker.Fenced{Token: f.token})
}

// timeOut is the coordinator's: the transaction is over and the epoch another one, but its owner may go on with it
// after a re-initialisation.
func (n *node) timeOut() {
	n.w.say("%s: transaction time-out", n.name)
	if id := n.w.producers[n.id()]; id.txn != nil && id.txn.outcome == open {
		same := id.epoch == n.era
		id.abort()
		n.takeOver = n.takeOver || same
	}
}
