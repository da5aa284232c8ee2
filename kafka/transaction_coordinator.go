package kafka

import (
	"errors"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/kafka/transaction"
	"github.com/millrace-io/millrace/record"
)

// coordinator makes the machine's requests, each to the coordinator that it is for, on connections that nothing else uses:
// a broker answers a connection in order, and a commit behind anything that waits by design would wait with it. The machine
// has one request under way at a time, so nothing here needs a lock.
type coordinator struct {
	cluster *cluster
	id      string
	timeout time.Duration
	// own is the transaction coordinator's connection, groups the group coordinators'; nil until found.
	own    *link
	groups map[string]*link
}

func newCoordinator(cfg ProducerConfig, deliver func(broker.Event)) *coordinator {
	return &coordinator{
		cluster: newCluster(cfg.Config, "transaction", cfg.Config.requestTimeout(), deliver), id: cfg.TransactionalID, timeout: cfg.TransactionTimeout,
		groups: map[string]*link{},
	}
}

func (c *coordinator) close() { c.cluster.close() }

// answer carries one request out. It asks once: the machine knows what to do about a failure.
func (c *coordinator) answer(e transaction.Effect) transaction.Answer {
	switch e := e.(type) {
	case transaction.InitProducerID:
		return onTransaction(c, func(b *sarama.Broker) (transaction.Answer, error) {
			res, err := b.InitProducerID(&sarama.InitProducerIDRequest{Version: 4, TransactionalID: &c.id, TransactionTimeout: c.timeout, ProducerID: e.PID, ProducerEpoch: e.Epoch})
			if err != nil {
				return transaction.Answer{}, err
			}
			return transaction.Answer{Code: int16(res.Err), PID: res.ProducerID, Epoch: res.ProducerEpoch}, nil
		})
	case transaction.AddPartitions:
		return onTransaction(c, func(b *sarama.Broker) (transaction.Answer, error) { return c.addPartitions(b, e) })
	case transaction.AddOffsets:
		return onTransaction(c, func(b *sarama.Broker) (transaction.Answer, error) {
			res, err := b.AddOffsetsToTxn(&sarama.AddOffsetsToTxnRequest{Version: 3, TransactionalID: c.id, ProducerID: e.PID, ProducerEpoch: e.Epoch, GroupID: e.Group})
			if err != nil {
				return transaction.Answer{}, err
			}
			return transaction.Answer{Code: int16(res.Err)}, nil
		})
	case transaction.EndTxn:
		return onTransaction(c, func(b *sarama.Broker) (transaction.Answer, error) {
			res, err := b.EndTxn(&sarama.EndTxnRequest{Version: 3, TransactionalID: c.id, ProducerID: e.PID, ProducerEpoch: e.Epoch, TransactionResult: e.Commit})
			if err != nil {
				return transaction.Answer{}, err
			}
			return transaction.Answer{Code: int16(res.Err)}, nil
		})
	case transaction.TxnOffsetCommit:
		return c.offsets(e)
	case transaction.Describe:
		return onTransaction(c, c.describe)
	}
	return transaction.Answer{Code: transaction.NotSent, Cause: errors.New("no such request")}
}

func (c *coordinator) addPartitions(b *sarama.Broker, e transaction.AddPartitions) (transaction.Answer, error) {
	r := &sarama.AddPartitionsToTxnRequest{Version: 3, TransactionalID: c.id, ProducerID: e.PID, ProducerEpoch: e.Epoch, TopicPartitions: map[string][]int32{}}
	for _, tp := range e.Partitions {
		r.TopicPartitions[tp.Topic] = append(r.TopicPartitions[tp.Topic], tp.Partition)
	}
	res, err := b.AddPartitionsToTxn(r)
	if err != nil {
		return transaction.Answer{}, err
	}
	return transaction.Answer{Codes: codesOf(res.Errors)}, nil
}

func codesOf(errs map[string][]*sarama.PartitionError) map[record.TopicPartition]int16 {
	codes := map[record.TopicPartition]int16{}
	for topic, partitions := range errs {
		for _, p := range partitions {
			codes[record.TopicPartition{Topic: topic, Partition: p.Partition}] = int16(p.Err)
		}
	}
	return codes
}

// describe looks at the transactional id without touching it.
func (c *coordinator) describe(b *sarama.Broker) (transaction.Answer, error) {
	res, err := b.DescribeTransactions(&sarama.DescribeTransactionsRequest{TransactionalIDs: []string{c.id}})
	if err != nil {
		return transaction.Answer{}, err
	}
	for _, s := range res.TransactionStates {
		if s.TransactionalID == c.id {
			return transaction.Answer{Code: int16(s.ErrorCode), PID: s.ProducerID, Epoch: s.ProducerEpoch, Open: s.TransactionState == "Ongoing"}, nil
		}
	}
	return transaction.Answer{Code: transaction.Malformed}, nil
}

// offsets goes to the group's coordinator, which is another broker in general.
func (c *coordinator) offsets(e transaction.TxnOffsetCommit) transaction.Answer {
	r := &sarama.TxnOffsetCommitRequest{
		Version: 3, TransactionalID: c.id, GroupID: e.Of.Group, ProducerID: e.PID, ProducerEpoch: e.Epoch,
		GenerationID: e.Of.Generation, MemberID: e.Of.MemberID, Topics: map[string][]*sarama.PartitionOffsetMetadata{},
	}
	if e.Of.InstanceID != "" {
		r.GroupInstanceID = &e.Of.InstanceID
	}
	for tp, o := range e.Offsets {
		r.Topics[tp.Topic] = append(r.Topics[tp.Topic], &sarama.PartitionOffsetMetadata{Partition: tp.Partition, Offset: o.At, LeaderEpoch: -1, Metadata: &o.Metadata})
	}
	l := c.groups[e.Of.Group]
	a := c.on(&l, e.Of.Group, sarama.CoordinatorGroup, func(b *sarama.Broker) (transaction.Answer, error) {
		res, err := b.TxnOffsetCommit(r)
		if err != nil {
			return transaction.Answer{}, err
		}
		codes := codesOf(res.Topics)
		for tp := range e.Offsets {
			if _, ok := codes[tp]; !ok {
				return transaction.Answer{Code: transaction.Malformed, Cause: errors.New("the answer lacks a partition")}, nil
			}
		}
		return transaction.Answer{Codes: codes}, nil
	})
	c.groups[e.Of.Group] = l
	return a
}

func onTransaction(c *coordinator, f func(*sarama.Broker) (transaction.Answer, error)) transaction.Answer {
	return c.on(&c.own, c.id, sarama.CoordinatorTransaction, f)
}

// on makes a request to the coordinator of a key; at is forgotten when it is not the right one any more.
func (c *coordinator) on(at **link, key string, kind sarama.CoordinatorType, f func(*sarama.Broker) (transaction.Answer, error)) transaction.Answer {
	if *at == nil {
		l, code, err := c.cluster.find(key, kind)
		if l == nil {
			return transaction.Answer{Code: code, Cause: err}
		}
		*at = l
	}
	l := *at
	b, err := l.open()
	if err != nil {
		c.cluster.note(err)
		*at = nil
		return transaction.Answer{Code: transaction.NotSent, Cause: err}
	}
	a, err := f(b)
	c.cluster.note(err)
	if err != nil {
		l.drop(b)
		*at = nil
		return transaction.Answer{Code: codeOf(err), Cause: err}
	}
	moved := a.Code == 15 || a.Code == 16
	for _, code := range a.Codes {
		moved = moved || code == 15 || code == 16
	}
	if moved {
		*at = nil
	}
	if a.Code > 0 {
		a.Cause = sarama.KError(a.Code)
	}
	return a
}

// find asks for the coordinator of a key. Without one it gives the code of the answer, or NotSent.
func (c *cluster) find(key string, kind sarama.CoordinatorType) (*link, int16, error) {
	if _, err := c.metadata(nil); err != nil { // the seeds may be gone; it also says that the cluster is out of reach
		return nil, transaction.NotSent, err
	}
	last := errors.New("no broker is named")
	for _, addr := range c.addresses() {
		answer, err := call(c.link(addr), func(b *sarama.Broker) (*sarama.FindCoordinatorResponse, error) {
			return b.FindCoordinator(&sarama.FindCoordinatorRequest{Version: 3, CoordinatorKey: key, CoordinatorType: kind})
		})
		if err != nil {
			last = err
			continue
		}
		if answer.Err != sarama.ErrNoError {
			return nil, int16(answer.Err), answer.Err
		}
		return c.link(answer.Coordinator.Addr()), 0, nil
	}
	c.note(last)
	return nil, transaction.NotSent, last
}
