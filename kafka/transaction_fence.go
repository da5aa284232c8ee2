package kafka

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/transaction"
	"github.com/millrace-io/millrace/record"
)

// fence takes another transactional id over, which aborts its open transaction and shuts its producer out. It has connections of
// its own: its coordinator may be a broker that is just dying, and nothing of this producer's should wait behind that.
func (s *sender) fence(token uint64, id string) {
	s.work.Go(func() {
		s.deliver(broker.Fenced{Token: token, Err: s.takeOver(id)})
	})
}

func (s *sender) takeOver(id string) *broker.Error {
	cfg := s.producer.cfg
	cfg.TransactionalID = id
	c := newCoordinator(cfg, func(broker.Event) {})
	defer context.AfterFunc(s.ctx, c.close)()
	defer c.close()
	deadline := time.Now().Add(cfg.DeliveryTimeout)
	for attempt := 1; ; attempt++ {
		a := c.answer(transaction.InitProducerID{PID: -1, Epoch: -1})
		if a.Code == 0 {
			return nil
		}
		err := classified(broker.OpInitProducerID, a.Code, transaction.First, record.TopicPartition{}, a.Cause)
		if err.Class != broker.Retry {
			return err
		}
		pause := backoff(attempt)
		if a.Code == 51 {
			pause = time.Duration(min(attempt, 5)) * time.Millisecond
		}
		if time.Now().After(deadline) || !sleep(s.ctx, pause) {
			err.Class = broker.Abort
			return err
		}
	}
}
