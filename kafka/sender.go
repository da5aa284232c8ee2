package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// sender is the sending half of a Producer: one goroutine that owns the lines, the sequences and the requests.
//
// The mutex protects the inbox: sealed batches, flushes and answers are put there by the owner and by the connections'
// goroutines, and taken by the sender. An actor would cost a message for each of them.
type sender struct {
	producer *Producer
	cluster  *cluster
	deliver  func(broker.Event)
	codec    sarama.CompressionCodec
	wake     chan struct{}
	done     chan struct{}
	ctx      context.Context
	cancel   context.CancelFunc

	mu      sync.Mutex
	sealed  []*batch
	flushes []flush
	answers []answer
	resets  bool

	// What follows belongs to the sender's goroutine.
	lines    map[record.TopicPartition]*line
	order    []*line
	inFlight map[*link]int
	pid      int64
	epoch    int16
	known    bool // pid and epoch are valid
	bump     bool // they must be renewed once nothing is in flight
	waiting  []flush
	ends     map[record.TopicPartition]int64
	refused  []broker.Refused
	broken   *broker.Error
	initTry  int
	nextTry  time.Time
}

type flush struct {
	token uint64
	upTo  uint64
}

// answer is what came back for one request.
type answer struct {
	link    *link
	broker  *sarama.Broker
	batches []*batch
	res     *sarama.ProduceResponse
	err     error
}

// line is one partition's queue. Invariant: at most its first batch is in flight, and only the first has a sequence.
type line struct {
	tp    record.TopicPartition
	queue []*batch
	busy  bool
	next  int32 // the sequence of the next batch
}

func newSender(p *Producer, deliver func(broker.Event)) *sender {
	s := &sender{
		producer: p, deliver: deliver, codec: codecs[p.cfg.Compression], wake: make(chan struct{}, 1), done: make(chan struct{}),
		lines: map[record.TopicPartition]*line{}, inFlight: map[*link]int{}, ends: map[record.TopicPartition]int64{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.cluster = newCluster(p.cfg.Config, "produce", 30*time.Second, deliver)
	return s
}

func (s *sender) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *sender) put(b *batch) {
	s.mu.Lock()
	s.sealed = append(s.sealed, b)
	s.mu.Unlock()
	s.nudge()
}

func (s *sender) flush(token, upTo uint64) {
	s.mu.Lock()
	s.flushes = append(s.flushes, flush{token, upTo})
	s.mu.Unlock()
	s.nudge()
}

func (s *sender) reset() {
	s.mu.Lock()
	for _, b := range s.sealed {
		s.producer.release(b)
	}
	s.sealed, s.flushes, s.resets = nil, nil, true
	s.mu.Unlock()
	s.nudge()
}

func (s *sender) stop() { s.cancel(); s.cluster.close() }

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
	timer := time.NewTimer(0)
	defer timer.Stop()
	for s.ctx.Err() == nil {
		now := time.Now()
		s.takeIn(now)
		next := s.send(now)
		s.answerFlushes()
		wait := time.Hour
		if !next.IsZero() {
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

// takeIn empties the inbox.
func (s *sender) takeIn(now time.Time) {
	s.mu.Lock()
	sealed, flushes, answers, reset := s.sealed, s.flushes, s.answers, s.resets
	s.sealed, s.flushes, s.answers, s.resets = nil, nil, nil, false
	s.mu.Unlock()
	if reset {
		s.forget()
	}
	for _, b := range sealed {
		l := s.lines[b.tp]
		if l == nil {
			l = &line{tp: b.tp}
			s.lines[b.tp] = l
			s.order = append(s.order, l)
		}
		b.deadline = now.Add(s.producer.cfg.DeliveryTimeout)
		l.queue = append(l.queue, b)
	}
	s.waiting = append(s.waiting, flushes...)
	for _, a := range answers {
		s.onAnswer(a, now)
	}
}

// forget drops what no broker has seen.
func (s *sender) forget() {
	for _, l := range s.order {
		kept := l.queue[:0]
		for _, b := range l.queue {
			if b.sent {
				kept = append(kept, b)
			} else {
				s.producer.release(b)
			}
		}
		l.queue = kept
	}
	s.waiting, s.refused, s.broken = nil, nil, nil
	clear(s.ends)
}

// send starts what can be started and says when to look again.
func (s *sender) send(now time.Time) (next time.Time) {
	if s.bump && len(s.inFlight) == 0 {
		s.known, s.bump = false, false
		for _, l := range s.order {
			l.next = 0
			for _, b := range l.queue {
				b.sent = false
			}
		}
	}
	if s.bump || s.idle() {
		return time.Time{}
	}
	if !s.known {
		if now.Before(s.nextTry) {
			return s.nextTry
		}
		if !s.initProducerID() {
			s.initTry++
			s.nextTry = now.Add(backoff(s.initTry))
			s.expire(now, nil)
			return s.nextTry
		}
		s.initTry = 0
	}
	requests := map[*link][]*batch{}
	var unknown []*line
	for _, l := range s.order {
		if l.busy || len(l.queue) == 0 {
			continue
		}
		b := l.queue[0]
		if now.Before(b.retryAt) {
			next = earlier(next, b.retryAt)
			continue
		}
		to, _, ok := s.cluster.leaderOf(l.tp)
		if !ok {
			unknown = append(unknown, l)
			continue
		}
		if s.inFlight[to] < s.producer.cfg.MaxInFlight {
			requests[to] = append(requests[to], b)
		}
	}
	if len(unknown) > 0 {
		next = earlier(next, s.findLeaders(unknown, now))
	}
	for to, batches := range requests {
		s.request(to, batches, now)
	}
	return next
}

func (s *sender) idle() bool {
	for _, l := range s.order {
		if len(l.queue) > 0 {
			return false
		}
	}
	return true
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// findLeaders asks for metadata; lines that stay without a leader are tried again later.
func (s *sender) findLeaders(unknown []*line, now time.Time) time.Time {
	var topics []string
	for _, l := range unknown {
		topics = append(topics, l.tp.Topic)
	}
	_, err := s.cluster.metadata(topics)
	found := false
	for _, l := range unknown {
		if _, _, ok := s.cluster.leaderOf(l.tp); ok {
			found = true
			continue
		}
		s.again(l, l.queue[0], NewError(broker.OpProduce, int16(sarama.ErrLeaderNotAvailable), l.tp, err), now)
	}
	if found {
		return now
	}
	return now.Add(10 * time.Millisecond)
}

func (s *sender) initProducerID() bool {
	for _, addr := range s.cluster.addresses() {
		res, err := call(s.cluster.link(addr), func(b *sarama.Broker) (*sarama.InitProducerIDResponse, error) {
			return b.InitProducerID(&sarama.InitProducerIDRequest{Version: 4, ProducerID: -1, ProducerEpoch: -1, TransactionTimeout: time.Minute})
		})
		if err == nil && res.Err == sarama.ErrNoError {
			s.pid, s.epoch, s.known = res.ProducerID, res.ProducerEpoch, true
			return true
		}
		if err == nil && Classify(broker.OpInitProducerID, int16(res.Err)) == broker.Fatal {
			s.broken = NewError(broker.OpInitProducerID, int16(res.Err), record.TopicPartition{}, res.Err)
		}
	}
	return false
}

// request sends one batch each of some partitions to their leader.
func (s *sender) request(to *link, batches []*batch, now time.Time) {
	b, err := to.open()
	if err != nil {
		s.cluster.note(err)
		for _, batch := range batches {
			s.cluster.forget(batch.tp)
			s.again(s.lines[batch.tp], batch, NewError(broker.OpProduce, transportCode, batch.tp, err), now)
		}
		s.nudge()
		return
	}
	r := &sarama.ProduceRequest{Version: 10, RequiredAcks: sarama.WaitForAll, Timeout: 10_000}
	for _, batch := range batches {
		l := s.lines[batch.tp]
		if !batch.sent {
			batch.sequence, batch.sent = l.next, true
		}
		l.busy = true
		r.AddBatch(batch.tp.Topic, batch.tp.Partition, batch.wire(s.pid, s.epoch, s.codec))
	}
	s.inFlight[to]++
	err = b.AsyncProduce(r, func(res *sarama.ProduceResponse, err error) {
		s.answered(answer{to, b, batches, res, err})
	})
	if err != nil {
		s.answered(answer{to, b, batches, nil, err})
	}
}

func (s *sender) answered(a answer) {
	s.mu.Lock()
	s.answers = append(s.answers, a)
	s.mu.Unlock()
	s.nudge()
}

func (s *sender) onAnswer(a answer, now time.Time) {
	if s.inFlight[a.link]--; s.inFlight[a.link] <= 0 {
		delete(s.inFlight, a.link)
	}
	if a.err != nil {
		a.link.drop(a.broker)
		s.cluster.note(a.err)
	} else {
		s.cluster.note(nil)
	}
	for _, b := range a.batches {
		l := s.lines[b.tp]
		l.busy = false
		if a.err != nil {
			s.cluster.forget(b.tp)
			s.again(l, b, NewError(broker.OpProduce, transportCode, b.tp, a.err), now)
			continue
		}
		block := a.res.GetBlock(b.tp.Topic, b.tp.Partition)
		if block == nil {
			s.again(l, b, NewError(broker.OpProduce, transportCode, b.tp, errors.New("the answer lacks the partition")), now)
			continue
		}
		s.onBlock(l, b, block, now)
	}
}

// onBlock is the broker's word about one batch.
func (s *sender) onBlock(l *line, b *batch, block *sarama.ProduceResponseBlock, now time.Time) {
	code := int16(block.Err)
	err := NewError(broker.OpProduce, code, b.tp, block.Err)
	switch err.Class {
	case broker.Ignore: // written, now or before
		l.next = b.sequence + int32(len(b.records))
		if code == 0 && block.Offset >= 0 {
			s.ends[b.tp] = block.Offset + int64(len(b.records))
		}
		s.finish(l, b)
	case broker.Record: // its sequence is free for the batch behind it
		if block.ErrorMessage != nil {
			err.Cause = fmt.Errorf("%w: %s", block.Err, *block.ErrorMessage)
		}
		s.refuse(l, b, block, err)
	case broker.Retry:
		s.cluster.forget(b.tp)
		s.again(l, b, err, now)
	case broker.Abort: // the broker has forgotten the producer: another epoch, sequences from 0
		s.bump = true
		s.again(l, b, err, now)
	default:
		s.broken = err
		s.finish(l, b)
	}
}

// refuse takes the bad records out of a refused batch. A broker refuses the whole batch for one of them; where it names
// them the rest goes out again, and where it does not the batch is halved until the bad ones are alone. The sequence of the
// refused batch is free again, and nothing was in flight behind it.
func (s *sender) refuse(l *line, b *batch, block *sarama.ProduceResponseBlock, err *broker.Error) {
	bad := map[int]bool{}
	for _, e := range block.RecordErrors {
		bad[int(e.BatchIndex)] = true
	}
	n := len(b.records)
	var parts []*batch
	switch {
	case n == 1:
		bad = map[int]bool{0: true}
	case len(bad) > 0:
		parts = []*batch{s.part(b, 0, n, bad)}
	default:
		parts = []*batch{s.part(b, 0, n/2, nil), s.part(b, n/2, n, nil)}
	}
	for i := range bad {
		s.refused = append(s.refused, broker.Refused{Source: b.tp, Record: b.raw(i), Err: err})
	}
	s.finish(l, b)
	parts = slices.DeleteFunc(parts, func(p *batch) bool { return len(p.records) == 0 })
	l.queue = append(parts, l.queue...)
}

// part copies some records of a batch into a new one, which takes their bytes over.
func (s *sender) part(b *batch, from, to int, without map[int]bool) *batch {
	p := s.producer.newBatch(b.tp)
	p.number, p.deadline = b.number, b.deadline
	for i := from; i < to; i++ {
		if without[i] {
			continue
		}
		raw := b.raw(i)
		size := recordSize(&raw)
		p.add(&raw, size)
		b.bytes -= size
	}
	return p
}

// raw is one record as it was appended. Its bytes are its own.
func (b *batch) raw(i int) record.Raw {
	r := &b.records[i]
	raw := record.Raw{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Timestamp: b.first + r.TimestampDelta.Milliseconds()}
	for _, h := range r.Headers {
		raw.Headers = append(raw.Headers, record.Header{Key: string(h.Key), Value: bytes.Clone(h.Value)})
	}
	return raw
}

// again keeps a batch first in its line for another try, until its delivery time-out.
func (s *sender) again(l *line, b *batch, err *broker.Error, now time.Time) {
	b.attempts++
	b.retryAt = now.Add(backoff(b.attempts))
	if now.After(b.deadline) {
		err.Class = broker.Abort
		s.broken = err
		// Its sequence may be in the log: another one under the same number would be lost as a duplicate.
		s.bump = s.bump || b.sent
		s.finish(l, b)
	}
}

func (s *sender) expire(now time.Time, err error) {
	for _, l := range s.order {
		for len(l.queue) > 0 && now.After(l.queue[0].deadline) {
			s.again(l, l.queue[0], NewError(broker.OpInitProducerID, transportCode, l.tp, err), now)
		}
	}
}

func (s *sender) finish(l *line, b *batch) {
	for i, q := range l.queue {
		if q == b {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			break
		}
	}
	s.producer.release(b)
}

// answerFlushes answers those before which nothing is left.
func (s *sender) answerFlushes() {
	for len(s.waiting) > 0 {
		f := s.waiting[0]
		for _, l := range s.order {
			if len(l.queue) > 0 && l.queue[0].number <= f.upTo {
				return
			}
		}
		s.waiting = s.waiting[1:]
		s.deliver(broker.Flushed{Token: f.token, Ends: s.ends, Refused: s.refused, Err: s.broken})
		s.ends, s.refused, s.broken = map[record.TopicPartition]int64{}, nil, nil
	}
}
