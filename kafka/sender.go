package kafka

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/transaction"
	"github.com/millrace-io/millrace/record"
)

// sender is the sending half of a Producer: one goroutine that owns the protocol's machine, carries its effects out and
// tells it what came of them. Requests to coordinators wait on goroutines of their own, one at a time.
//
// The mutex protects the inbox: the owner and the connections' goroutines put there what the sender takes. An actor would
// cost a message for each of them.
type sender struct {
	producer *Producer
	machine  *transaction.Machine
	cluster  *cluster // for batches
	office   *coordinator
	deliver  func(broker.Event)
	codec    int8
	counts   atomic.Pointer[Counts]
	wake     chan struct{}
	done     chan struct{}
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu    sync.Mutex
	inbox []any

	// What follows belongs to the sender's goroutine.
	inFlight map[*link]int
	refusals map[*batch][]int32
	searched *searched
	seeking  bool
	dialing  map[*link]bool
	dialed   map[*link]error
}

// What the owner asks for. A *batch is one that is sealed.
type (
	touched struct {
		tp       record.TopicPartition
		interval uint64
	}
	flushAsked  struct{ token, interval uint64 }
	commitAsked struct {
		token   uint64
		offsets broker.Offsets
		of      broker.Membership
	}
	abortAsked struct{ token, interval uint64 }
)

func newSender(p *Producer, deliver func(broker.Event)) *sender {
	s := &sender{
		producer: p, deliver: deliver, codec: codecs[p.cfg.Compression], wake: make(chan struct{}, 1), done: make(chan struct{}),
		dialing: map[*link]bool{}, dialed: map[*link]error{}, inFlight: map[*link]int{}, refusals: map[*batch][]int32{},
	}
	s.machine = transaction.New(transaction.Config{
		Transactional: p.cfg.TransactionalID != "", TransactionTimeout: p.cfg.TransactionTimeout, DeliveryTimeout: p.cfg.DeliveryTimeout,
		Pipeline: p.cfg.MaxInFlight, Known: known, Backoff: backoff,
		Error: func(op broker.Op, code int16, in transaction.Situation) *broker.Error {
			return classified(op, code, in, record.TopicPartition{}, nil)
		},
	})
	s.counts.Store(&Counts{})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.cluster = newCluster(p.cfg.Config, "produce", 30*time.Second, deliver)
	s.office = newCoordinator(p.cfg, deliver)
	return s
}

// put hands something to the sender.
func (s *sender) put(e any) {
	s.mu.Lock()
	s.inbox = append(s.inbox, e)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *sender) stop() {
	s.cancel()
	s.cluster.close()
	s.office.close()
}

// retry repeats a look-up that failed for a passing reason.
func (s *sender) retry(f func() error) error {
	deadline := time.Now().Add(s.producer.cfg.DeliveryTimeout)
	for attempt := 0; ; attempt++ {
		err := f()
		if err == nil {
			return nil
		}
		var be *broker.Error
		if !errors.As(err, &be) || be.Class != broker.Retry || time.Now().After(deadline) || !sleep(s.ctx, backoff(attempt)) {
			return err
		}
	}
}

func (s *sender) run() {
	defer close(s.done)
	defer s.work.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var spare []any
	for s.ctx.Err() == nil {
		now := time.Now()
		s.mu.Lock()
		taken := s.inbox
		s.inbox = spare[:0]
		s.mu.Unlock()
		for _, e := range taken {
			s.handle(now, e)
		}
		clear(taken)
		spare = taken
		s.carryOut(now, s.machine.Tick(now))
		s.send(now)
		s.publish()
		wait := time.Hour
		if next := s.machine.Next(now); !next.IsZero() {
			wait = max(time.Until(next), 0)
		}
		timer.Reset(wait)
		select {
		case <-s.wake:
		case <-timer.C:
		case <-s.ctx.Done():
		}
	}
}

func (s *sender) publish() {
	if c := s.machine.Counts(); c != *s.counts.Load() {
		s.counts.Store(&c)
	}
}

func (s *sender) handle(now time.Time, e any) {
	m := s.machine
	switch e := e.(type) {
	case *batch:
		s.carryOut(now, m.Put(now, &e.Batch))
	case touched:
		s.carryOut(now, m.Touch(now, e.tp, e.interval))
	case flushAsked:
		s.carryOut(now, m.Flush(now, e.token, e.interval))
	case commitAsked:
		s.carryOut(now, m.Commit(now, e.token, e.offsets, e.of))
	case abortAsked:
		s.carryOut(now, m.Abort(now, e.token, e.interval))
	case transaction.Answer:
		s.carryOut(now, m.Answered(now, e))
	case produced:
		s.onProduced(now, e)
	case searched:
		s.seeking, s.searched = false, &e
	case dialed:
		delete(s.dialing, e.link)
		s.dialed[e.link] = e.err
		if e.err != nil {
			s.cluster.note(e.err)
		}
	}
}

// carryOut does what the machine wants. A Replace goes in between, as the machine asks for.
func (s *sender) carryOut(now time.Time, effects []transaction.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case transaction.Release:
			s.producer.release(e.Batch.Payload.(*batch))
		case transaction.Refused:
			s.refuse(now, e)
		case transaction.Deliver:
			s.publish() // before the owner hears of it
			s.deliver(e.Event)
		case transaction.InitProducerID:
			if s.producer.cfg.TransactionalID == "" {
				s.ask(func() transaction.Answer { return s.anyProducerID() })
				continue
			}
			s.ask(func() transaction.Answer { return s.office.answer(e) })
		default:
			s.ask(func() transaction.Answer { return s.office.answer(e) })
		}
	}
}

func (s *sender) ask(f func() transaction.Answer) {
	s.work.Go(func() { s.put(f()) })
}

// refuse takes the bad records out of a refused batch. A broker refuses the whole batch for one of them; where it names
// them the rest goes out again, and where it does not the batch is halved until the bad ones are alone.
func (s *sender) refuse(now time.Time, e transaction.Refused) {
	b := e.Batch.Payload.(*batch)
	bad := map[int]bool{}
	for _, i := range s.refusals[b] {
		bad[int(i)] = true
	}
	delete(s.refusals, b)
	n := int(b.Records)
	var parts []*batch
	switch {
	case n == 1 || e.Whole:
		for i := range n {
			bad[i] = true
		}
	case len(bad) > 0:
		parts = []*batch{s.producer.part(b, 0, n, bad)}
	default:
		parts = []*batch{s.producer.part(b, 0, n/2, nil), s.producer.part(b, n/2, n, nil)}
	}
	var gone []broker.Refused
	for i, r := range b.all() {
		if bad[i] {
			gone = append(gone, broker.Refused{Source: b.To, Record: r, Err: e.Err})
		}
	}
	parts = slices.DeleteFunc(parts, func(p *batch) bool { return p.Records == 0 })
	machine := make([]*transaction.Batch, len(parts))
	for i, p := range parts {
		machine[i] = &p.Batch
	}
	s.carryOut(now, s.machine.Replace(now, e.Batch, machine, gone))
}
