package main

import (
	"bytes"
	"slices"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka"
	"github.com/millrace-io/millrace/kafka/transaction"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/thread"
)

const (
	linger          = 20 * time.Millisecond
	deliveryTimeout = 20 * time.Second
	batchRecords    = 30
)

// producer carries the effects of the real transaction machine out, and collects records into batches, as the kafka room's
// producer does. What follows interval belongs to the owner's half.
type producer struct {
	*process
	machine  *transaction.Machine
	interval uint64
	open     []*batch
	touched  map[record.TopicPartition]uint64
	buffered int64
	// ending is the epoch of the last EndTxn.
	ending int16
	// ticking is when the machine is called next without anything having happened.
	ticking time.Duration
}

// batch is records of one partition.
type batch struct {
	transaction.Batch
	records []record.Raw
	born    time.Duration
}

var _ thread.Producer = (*producer)(nil)

func newProducer(p *process) *producer {
	o := &producer{process: p, touched: map[record.TopicPartition]uint64{}}
	delivery := 2 * time.Minute
	if p.slot.TransactionalID != "" {
		delivery = deliveryTimeout
	}
	o.machine = transaction.New(transaction.Config{
		Transactional: p.slot.TransactionalID != "", TransactionTimeout: transactionTimeout, DeliveryTimeout: delivery, Pipeline: 5,
		Known: func(broker.Op, int16) bool { return true }, Backoff: p.backoff,
		Error: func(op broker.Op, code int16, in transaction.Situation) *broker.Error {
			return &broker.Error{Op: op, Code: code, Class: kafka.Classify(op, code, in)}
		},
	})
	return o
}

// submit hands a call of the machine over, as to another goroutine.
func (p *producer) submit(step func(now time.Time) []transaction.Effect) {
	p.world.after(handOff, func() { p.deliver(func() { p.turn(step) }) })
}

// turn calls the machine, carries out what it wants, and sends what may be sent.
func (p *producer) turn(step func(now time.Time) []transaction.Effect) {
	now := p.clock()
	p.carryOut(step(now))
	p.carryOut(p.machine.Tick(now))
	for p.send(now) {
	}
	next := p.machine.Next(now)
	if next.IsZero() {
		return
	}
	at := p.world.now + max(next.Sub(now), time.Microsecond)
	if p.ticking > p.world.now && p.ticking <= at {
		return
	}
	p.ticking = at
	p.world.queue.put(at, func() { p.deliver(func() { p.turn(func(time.Time) []transaction.Effect { return nil }) }) })
}

func (p *producer) carryOut(effects []transaction.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case transaction.Release:
			p.buffered -= int64(len(e.Batch.Payload.(*batch).records))
		case transaction.Refused:
			p.world.fail("%s: a batch for %s was refused: %v", p.name, e.Batch.To, e.Err)
		case transaction.Deliver:
			p.put(e.Event)
		default:
			p.coordinate(e)
		}
	}
}

// answered gives the machine the answer of a coordinator.
func (p *producer) answered(a transaction.Answer) {
	p.turn(func(now time.Time) []transaction.Effect { return p.machine.Answered(now, a) })
}

func (p *producer) failed(code int16) { p.answered(transaction.Answer{Code: code}) }

// coordinate sends one of the machine's requests.
func (p *producer) coordinate(e transaction.Effect) {
	id := p.slot.TransactionalID
	ask := func(op broker.Op, carry func(o *office, t *identity) transaction.Answer) {
		p.askOffice("transaction", id, op, func(o *office, t *identity) (int16, func()) {
			a := carry(o, t)
			return a.Code, func() { p.answered(a) }
		}, p.failed)
	}
	switch e := e.(type) {
	case transaction.InitProducerID:
		if id == "" {
			p.anyProducerID()
			return
		}
		ask(broker.OpInitProducerID, func(o *office, _ *identity) transaction.Answer {
			pid, epoch, code := o.initialize(id, e.PID, e.Epoch)
			return transaction.Answer{Code: code, PID: pid, Epoch: epoch}
		})
	case transaction.AddPartitions:
		tps := slices.Clone(e.Partitions)
		ask(broker.OpAddPartitions, func(_ *office, t *identity) transaction.Answer {
			code, codes := t.add(e.PID, e.Epoch, tps), map[record.TopicPartition]int16{}
			for _, tp := range tps {
				codes[tp] = code
			}
			return transaction.Answer{Codes: codes}
		})
	case transaction.AddOffsets:
		ask(broker.OpAddOffsets, func(_ *office, t *identity) transaction.Answer {
			return transaction.Answer{Code: t.addOffsets(e.PID, e.Epoch)}
		})
	case transaction.EndTxn:
		how := aborted
		if e.Commit {
			how = committed
		}
		p.ending = e.Epoch
		ask(broker.OpEndTxn, func(_ *office, t *identity) transaction.Answer {
			return transaction.Answer{Code: t.endTxn(e.PID, e.Epoch, how)}
		})
	case transaction.TxnOffsetCommit:
		p.holdOffsets(e)
	case transaction.Describe:
		ask(transaction.OpDescribe, func(_ *office, t *identity) transaction.Answer {
			if t == nil {
				return transaction.Answer{Code: 105}
			}
			return transaction.Answer{PID: t.pid, Epoch: t.epoch, Open: t.isOpen()}
		})
	}
}

// anyProducerID is InitProducerId without a transactional id: every broker answers it.
func (p *producer) anyProducerID() {
	p.request("transaction", broker.OpInitProducerID, pick(p.world, p.world.servers), func(answer func(func())) {
		pid, epoch := p.world.any()
		answer(func() { p.answered(transaction.Answer{PID: pid, Epoch: epoch}) })
	}, p.failed)
}

func (p *producer) holdOffsets(e transaction.TxnOffsetCommit) {
	o := p.world.officeOf(p.slot.TransactionalID)
	p.membership.ask("transaction", broker.OpTxnOffsetCommit, func(g *group, answer func(int16, func())) {
		code := g.hold(o.ids[p.slot.TransactionalID], e.PID, e.Epoch, e.Of, e.Offsets)
		codes := map[record.TopicPartition]int16{}
		for tp := range e.Offsets {
			codes[tp] = code
		}
		answer(code, func() { p.answered(transaction.Answer{Codes: codes}) })
	}, p.failed)
}

// send sends at most one batch of each partition, and says whether there was one.
func (p *producer) send(now time.Time) (sent bool) {
	var failures []transaction.Failure
	for b := range p.machine.Ready(now) {
		l := p.world.logs[b.To]
		to := p.where(l, l.leader)
		if !to.up {
			p.forget(l)
			failures = append(failures, transaction.Failure{Batch: b, Code: notSent})
			continue
		}
		p.produce(l, to, b)
		sent = true
	}
	if len(failures) > 0 {
		p.carryOut(p.machine.Failed(now, failures))
	}
	return sent
}

func (p *producer) produce(l *partition, to *server, b *transaction.Batch) {
	pid, epoch := p.machine.Sent(b)
	sequence, records := b.Sequence(), b.Payload.(*batch).records
	var id *identity
	if p.slot.TransactionalID != "" {
		id = p.world.officeOf(p.slot.TransactionalID).ids[p.slot.TransactionalID]
	}
	done := func(r produced) {
		if r.code != 0 {
			p.forget(l)
		}
		p.turn(func(now time.Time) []transaction.Effect {
			return p.machine.Produced(now, b, transaction.Result{Code: r.code, Base: r.base})
		})
	}
	p.request("produce", broker.OpProduce, to, func(answer func(func())) {
		r := produced{codeNotLeader, -1}
		if l.leader == to {
			r = l.append(pid, epoch, sequence, records, id, p.name)
		}
		p.world.say("%s: %d records to %s at %d: %d", p.name, len(records), l.tp, r.base, r.code)
		answer(func() { done(r) })
	}, func(code int16) { done(produced{noAnswer, -1}) })
}

// Append implements thread.Producer.
func (p *producer) Append(tp record.TopicPartition, r *record.Raw) error {
	c := record.Raw{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		c.Headers = append(c.Headers, record.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	p.buffered++
	i := slices.IndexFunc(p.open, func(b *batch) bool { return b.To == tp })
	if i < 0 {
		b := &batch{born: p.world.now}
		b.To, b.Interval, b.Payload = tp, p.interval, b
		p.open = append(p.open, b)
		i = len(p.open) - 1
		p.touch(tp)
	}
	b := p.open[i]
	b.records = append(b.records, c)
	b.Records++
	if len(b.records) >= batchRecords {
		p.seal(i)
	}
	return nil
}

// touch announces a partition at its first batch of an interval.
func (p *producer) touch(tp record.TopicPartition) {
	interval := p.interval
	if p.slot.TransactionalID == "" || p.touched[tp] == interval+1 {
		return
	}
	p.touched[tp] = interval + 1
	p.submit(func(now time.Time) []transaction.Effect { return p.machine.Touch(now, tp, interval) })
}

func (p *producer) seal(i int) {
	b := p.open[i]
	p.open = slices.Delete(p.open, i, i+1)
	p.submit(func(now time.Time) []transaction.Effect { return p.machine.Put(now, &b.Batch) })
}

// Partitions implements thread.Producer.
func (p *producer) Partitions(string) (int32, error) { return int32(p.world.plan.Partitions), nil }

// Tick implements thread.Producer.
func (p *producer) Tick(now time.Time) (next time.Time) {
	for i := 0; i < len(p.open); {
		left := p.open[i].born + linger - p.world.now
		if left <= 0 {
			p.seal(i)
			continue
		}
		if at := now.Add(left); next.IsZero() || at.Before(next) {
			next = at
		}
		i++
	}
	return next
}

// Buffered implements thread.Producer.
func (p *producer) Buffered() int64 { return p.buffered }

// Flush implements thread.Producer.
func (p *producer) Flush(token uint64) {
	for len(p.open) > 0 {
		p.seal(0)
	}
	interval := p.interval
	p.interval++
	p.submit(func(now time.Time) []transaction.Effect { return p.machine.Flush(now, token, interval) })
}

// Amend implements thread.Producer. Nothing is refused here.
func (p *producer) Amend(uint64, []broker.Outgoing) {
	p.world.fail("%s amends, and nothing was refused", p.name)
}

// Commit implements thread.Producer.
func (p *producer) Commit(token uint64, offsets broker.Offsets, of broker.Membership) {
	p.submit(func(now time.Time) []transaction.Effect { return p.machine.Commit(now, token, offsets, of) })
}

// Abort implements thread.Producer.
func (p *producer) Abort(token uint64) {
	for _, b := range p.open {
		p.buffered -= int64(len(b.records))
	}
	p.open = nil
	p.interval++
	interval := p.interval
	p.submit(func(now time.Time) []transaction.Effect { return p.machine.Abort(now, token, interval) })
}

// Fence implements thread.Producer: it takes the id over until that works, or its time is up.
func (p *producer) Fence(token uint64, transactionalID string) {
	p.world.tally.Fences++
	p.world.say("%s fences %s", p.name, transactionalID)
	p.fence(token, transactionalID, p.world.now+deliveryTimeout, 1)
}

func (p *producer) fence(token uint64, id string, by time.Duration, attempt int) {
	again := func(code int16) {
		pause := p.backoff(attempt)
		if code == codeConcurrent {
			pause = time.Duration(min(attempt, 5)) * time.Millisecond
		}
		if p.world.now > by {
			p.put(broker.Fenced{Token: token, Err: &broker.Error{Op: broker.OpInitProducerID, Code: code, Class: broker.Abort}})
			return
		}
		p.world.after(pause, func() { p.deliver(func() { p.fence(token, id, by, attempt+1) }) })
	}
	p.askOffice("fence", id, broker.OpInitProducerID, func(o *office, _ *identity) (int16, func()) {
		_, _, code := o.initialize(id, -1, -1)
		return code, func() {
			if code != 0 {
				again(code)
				return
			}
			p.put(broker.Fenced{Token: token})
		}
	}, again)
}
