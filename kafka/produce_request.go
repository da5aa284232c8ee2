package kafka

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/transaction"
	"github.com/millrace-io/millrace/record"
)

// A request holds batches of many partitions, one of each; these bound it.
const (
	requestPartitions = 200
	requestBytes      = 4 << 20
)

// produced is what came back for one request.
type produced struct {
	link    *link
	broker  *sarama.Broker
	batches []*transaction.Batch
	parts   map[record.TopicPartition]producedPart
	err     error
}

// dialed is the end of a dial to a leader.
type dialed struct {
	link *link
	err  error
}

// searched is the end of a search for leaders. Topics have a code where the cluster does not know them.
type searched struct {
	topics map[string]int16
	err    error
}

// send sends what may be sent and has a leader with room.
func (s *sender) send(now time.Time) {
	for s.round(now) {
	}
	s.searched = nil
	clear(s.dialed)
}

// reach says that a leader is connected, or lets somebody dial: an address that swallows packets takes seconds to fail, and
// the other leaders, and a commit, should not wait for that.
func (s *sender) reach(to *link) bool {
	if s.dialing[to] {
		return false
	}
	if to.connected() {
		return true
	}
	s.dialing[to] = true
	s.work.Go(func() {
		_, err := to.open()
		s.put(dialed{to, err})
	})
	return false
}

// connected does not wait for a dial that is under way.
func (l *link) connected() bool {
	if !l.mu.TryLock() {
		return false
	}
	defer l.mu.Unlock()
	return l.broker != nil
}

// round takes at most one batch of each partition, and says whether it sent any: a partition may have more.
func (s *sender) round(now time.Time) bool {
	requests := map[*link][]*transaction.Batch{}
	bytes := map[*link]int{}
	var homeless []*transaction.Batch
	var unreached []transaction.Failure
	for b := range s.machine.Ready(now) {
		to, _, ok := s.cluster.leaderOf(b.To)
		if !ok {
			homeless = append(homeless, b)
			continue
		}
		to = to.data
		if err := s.dialed[to]; err != nil {
			s.cluster.forget(b.To)
			unreached = append(unreached, transaction.Failure{Batch: b, Code: transaction.NotSent, Cause: err})
			continue
		}
		if !s.reach(to) {
			continue
		}
		size := b.Payload.(*batch).bytes
		if s.inFlight[to] >= s.producer.cfg.MaxInFlight || len(requests[to]) >= requestPartitions || (bytes[to] > 0 && bytes[to]+size > requestBytes) {
			continue
		}
		requests[to] = append(requests[to], b)
		bytes[to] += size
	}
	failures := append(s.search(homeless), unreached...)
	sent := false
	for to, batches := range requests {
		err := s.request(to, batches)
		sent = sent || err == nil
		for _, b := range batches {
			if err != nil {
				failures = append(failures, transaction.Failure{Batch: b, Code: transaction.NotSent, Cause: err})
			}
		}
	}
	if len(failures) > 0 {
		s.carryOut(now, s.machine.Failed(now, failures))
	}
	return sent
}

// search looks for the leaders of partitions that have none, on a goroutine of its own; those that have none afterwards
// wait for their next try.
func (s *sender) search(homeless []*transaction.Batch) (failures []transaction.Failure) {
	topics := map[string]int16{}
	var names []string
	for _, b := range homeless {
		if s.searched != nil {
			if code, ok := s.searched.topics[b.To.Topic]; ok {
				failures = append(failures, transaction.Failure{Batch: b, Code: code, Cause: s.searched.err})
				continue
			}
		}
		if _, ok := topics[b.To.Topic]; !ok {
			topics[b.To.Topic] = int16(sarama.ErrLeaderNotAvailable)
			names = append(names, b.To.Topic)
		}
	}
	if !s.seeking && len(names) > 0 {
		s.seek(names, topics)
	}
	return failures
}

// seek asks for metadata. topics has a code for each of the names, for the case that no leader comes out.
func (s *sender) seek(names []string, topics map[string]int16) {
	s.seeking = true
	s.work.Go(func() {
		m, err := s.cluster.metadata(names)
		if err == nil {
			for _, t := range m.Topics {
				if t.Err != sarama.ErrNoError {
					topics[t.Name] = int16(t.Err)
				}
			}
		}
		s.put(searched{topics, err})
	})
}

// request sends one batch each of some partitions to their leader.
func (s *sender) request(to *link, batches []*transaction.Batch) error {
	b, err := to.open()
	if err != nil {
		s.cluster.note(err)
		for _, batch := range batches {
			s.cluster.forget(batch.To)
		}
		return err
	}
	r := produce{clientID: s.cluster.cfg.clientID(), transactionalID: s.producer.cfg.TransactionalID, codec: s.codec}
	sent := make([]numbered, len(batches))
	for i, batch := range batches {
		pid, epoch := s.machine.Sent(batch)
		sent[i] = numbered{batchOf(batch), pid, epoch}
	}
	s.inFlight[to]++
	err = net.ErrClosed
	if stream := to.streamOf(b); stream != nil {
		err = stream.send(func(answer []byte, err error) {
			p := produced{link: to, broker: b, batches: batches, err: err}
			if err == nil {
				p.parts, p.err = decodeProduce(answer)
			}
			s.put(p)
		}, r.encode(sent)...)
	}
	if err != nil {
		s.put(produced{link: to, broker: b, batches: batches, err: err})
	}
	return nil
}

func batchOf(b *transaction.Batch) *batch { return b.Payload.(*batch) }

func (s *sender) onProduced(now time.Time, a produced) {
	if s.inFlight[a.link]--; s.inFlight[a.link] <= 0 {
		delete(s.inFlight, a.link)
	}
	if a.err != nil {
		a.link.drop(a.broker)
	}
	s.cluster.note(a.err)
	for _, b := range a.batches {
		s.carryOut(now, s.machine.Produced(now, b, s.result(a, b)))
	}
}

// result is the broker's word about one batch of an answer.
func (s *sender) result(a produced, b *transaction.Batch) transaction.Result {
	if a.err != nil {
		s.cluster.forget(b.To)
		return transaction.Result{Code: codeOf(a.err), Base: -1, Cause: a.err}
	}
	part, ok := a.parts[b.To]
	if !ok {
		return transaction.Result{Code: transaction.Malformed, Base: -1, Cause: errors.New("the answer lacks the partition")}
	}
	r := transaction.Result{Code: part.code, Base: part.base}
	if r.Code == 0 {
		return r
	}
	r.Cause, r.Base = sarama.KError(part.code), -1
	if part.message != "" {
		r.Cause = fmt.Errorf("%w: %s", r.Cause, part.message)
	}
	switch Classify(broker.OpProduce, r.Code) {
	case broker.Retry:
		s.cluster.forget(b.To)
	case broker.Record:
		if len(part.refused) > 0 {
			s.refusals[batchOf(b)] = part.refused
		}
	}
	return r
}

// anyProducerID asks any broker for a new producer id, without a transactional one.
func (s *sender) anyProducerID() transaction.Answer {
	last := transaction.Answer{Code: transaction.NotSent}
	for _, addr := range s.cluster.addresses() {
		res, err := call(s.cluster.link(addr), func(b *sarama.Broker) (*sarama.InitProducerIDResponse, error) {
			return b.InitProducerID(&sarama.InitProducerIDRequest{Version: 4, ProducerID: -1, ProducerEpoch: -1, TransactionTimeout: time.Minute})
		})
		if err == nil && res.Err == sarama.ErrNoError {
			return transaction.Answer{PID: res.ProducerID, Epoch: res.ProducerEpoch}
		}
		if err != nil {
			last = transaction.Answer{Code: codeOf(err), Cause: err}
			continue
		}
		last = transaction.Answer{Code: int16(res.Err), Cause: res.Err}
	}
	return last
}
