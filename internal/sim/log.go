package main

import (
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// outcome is what became of a transaction.
type outcome uint8

const (
	undecided outcome = iota
	committed
	aborted
)

// written is one place of a log: a record, or a control marker.
type written struct {
	raw record.Raw
	// of is the transaction that decides whether the record counts; nil if it counts in any case.
	of     *openTransaction
	marker bool
	// gone says that the log cleaner has taken it; its offset stays.
	gone bool
	by   string
}

// openTransaction is a transaction as one partition sees it: from its first record to its marker.
type openTransaction struct {
	first   int64
	outcome outcome
}

// sequences is what a partition knows of a producer id.
type sequences struct {
	epoch int16
	next  int32
	// last are the last five batches, which are known again.
	last []batchMark
}

type batchMark struct {
	sequence, count int32
	base            int64
}

// partition is one log and its leader.
type partition struct {
	world     *world
	tp        record.TopicPartition
	leader    *server
	log       []written
	open      map[int64]*openTransaction
	producers map[int64]*sequences
	// waiting are fetches at the end of what may be read.
	waiting []func()
}

func (l *partition) end() int64 { return int64(len(l.log)) }

// stable is the last stable offset.
func (l *partition) stable() int64 {
	lso := l.end()
	for _, o := range l.open {
		lso = min(lso, o.first)
	}
	return lso
}

// limit is how far a reader gets.
func (l *partition) limit(committedOnly bool) int64 {
	if committedOnly {
		return l.stable()
	}
	return l.end()
}

func (l *partition) move(to *server) {
	l.world.say("%s is led by broker %d", l.tp, to.id)
	l.leader = to
	l.wake()
}

// wake lets waiting fetches look again.
func (l *partition) wake() {
	waiting := l.waiting
	l.waiting = nil
	for _, f := range waiting {
		l.world.after(0, f)
	}
}

// add appends a record that counts at once.
func (l *partition) add(r record.Raw, by string) {
	r.Offset = l.end()
	l.log = append(l.log, written{raw: r, by: by})
	l.wake()
}

// produced is what a broker says about a batch.
type produced struct {
	code int16
	base int64
}

// append takes a batch up. pid and epoch are the producer's; office is nil for one without transactions.
func (l *partition) append(pid int64, epoch int16, sequence int32, records []record.Raw, id *identity, by string) produced {
	s := l.producers[pid]
	if s == nil {
		s = &sequences{epoch: -1}
		l.producers[pid] = s
	}
	if epoch < s.epoch {
		return produced{codeStaleEpoch, -1}
	}
	if id != nil && l.open[pid] == nil {
		if code := id.verify(pid, epoch, l.tp); code != 0 {
			return produced{code, -1}
		}
	}
	if epoch > s.epoch {
		if sequence != 0 {
			return produced{codeOutOfOrder, -1}
		}
		*s = sequences{epoch: epoch}
	}
	n := int32(len(records))
	for _, b := range s.last {
		if b.sequence == sequence && b.count == n {
			return produced{0, b.base}
		}
	}
	if sequence != s.next {
		return produced{codeOutOfOrder, -1}
	}
	base := l.take(pid, records, id != nil, by)
	s.next += n
	s.last = append(s.last, batchMark{sequence, n, base})
	if len(s.last) > 5 {
		s.last = s.last[1:]
	}
	return produced{0, base}
}

func (l *partition) take(pid int64, records []record.Raw, transactional bool, by string) (base int64) {
	base = l.end()
	var of *openTransaction
	if transactional {
		if l.open[pid] == nil {
			l.open[pid] = &openTransaction{first: base}
		}
		of = l.open[pid]
	}
	for _, r := range records {
		r.Offset = l.end()
		l.log = append(l.log, written{raw: r, of: of, by: by})
	}
	l.wake()
	return base
}

// mark writes the control marker of a transaction's end. Its epoch shuts out every older one.
func (l *partition) mark(pid int64, epoch int16, how outcome) {
	if s := l.producers[pid]; s == nil || epoch > s.epoch {
		l.producers[pid] = &sequences{epoch: epoch}
	}
	if o := l.open[pid]; o != nil {
		o.outcome = how
		delete(l.open, pid)
		l.world.truth.counted(l)
	}
	l.log = append(l.log, written{marker: true})
	l.wake()
}

// counts says that a reader of committed records sees it. It must be below the last stable offset.
func (e *written) counts() bool { return !e.marker && (e.of == nil || e.of.outcome == committed) }

// read gives what one fetch brings from a position.
func (l *partition) read(from int64, most int, committedOnly bool) broker.Batch {
	limit := l.limit(committedOnly)
	b := broker.Batch{Source: l.tp, From: from, Next: from, HighWatermark: l.end(), LastStable: l.stable(), LeaderEpoch: -1}
	for b.Next < limit && most > 0 {
		e := &l.log[b.Next]
		if !e.marker && !e.gone && (!committedOnly || e.counts()) {
			b.Records = append(b.Records, e.raw)
			b.Bytes += len(e.raw.Key) + len(e.raw.Value) + 24
		}
		b.Next++
		most--
	}
	return b
}

// visible are the records that count, in order.
func (l *partition) visible() (all []record.Raw) {
	for i := range l.log[:l.stable()] {
		if l.log[i].counts() && !l.log[i].gone {
			all = append(all, l.log[i].raw)
		}
	}
	return all
}

// endTransactions are the markers of a decided transaction: each partition gets its own in its own time, and only while its
// leader is there.
func (w *world) endTransaction(t *transactionEnd, partitions []record.TopicPartition, group bool) {
	t.left = len(partitions)
	for _, tp := range partitions {
		w.writeMarker(t, w.logs[tp])
	}
	if group {
		t.left++
		w.after(w.between(markerLow, markerHigh), func() { w.group.endTransaction(t) })
	}
	if t.left == 0 {
		w.after(w.between(markerLow, markerHigh), t.done)
	}
}

func (w *world) writeMarker(t *transactionEnd, l *partition) {
	w.after(w.between(markerLow, markerHigh), func() {
		if !l.leader.up {
			w.after(100*time.Millisecond, func() { w.writeMarker(t, l) })
			return
		}
		l.mark(t.pid, t.epoch, t.how)
		t.wrote()
	})
}

// transactionEnd is a transaction between its decision and its last marker.
type transactionEnd struct {
	id    string
	pid   int64
	epoch int16
	how   outcome
	left  int
	done  func()
}

func (t *transactionEnd) wrote() {
	if t.left--; t.left == 0 {
		t.done()
	}
}

func sortedPartitions(set map[record.TopicPartition]bool) []record.TopicPartition {
	all := make([]record.TopicPartition, 0, len(set))
	for tp := range set {
		all = append(all, tp)
	}
	slices.SortFunc(all, record.TopicPartition.Compare)
	return all
}
