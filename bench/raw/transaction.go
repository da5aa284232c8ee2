package raw

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

// transaction is a producer's, open or not. It is the least that exactly-once costs a client: partitions are added as they
// come up, and a commit waits for every acknowledgement, sends the offsets and ends. Nobody is fenced and nothing recovered.
type transaction struct {
	p *producer
	// conn is to the coordinator: behind records in flight, its requests would wait.
	conn        *sarama.Broker
	name, group string
	// added are the partitions that the open transaction knows.
	added map[string]map[int32]bool
	// ended are the offsets of the last commit.
	ended []int64
}

// transactional makes the producer one. group is whose offsets its transactions commit.
func (p *producer) transactional(name, group string) error {
	conn, err := p.client.connect()
	if err != nil {
		return err
	}
	p.transaction = &transaction{p: p, conn: conn, name: name, group: group, added: map[string]map[int32]bool{}}
	return errors.Join(coordinator(conn, sarama.CoordinatorTransaction, name), coordinator(conn, sarama.CoordinatorGroup, group))
}

// coordinator asks who it is, which on a young broker creates the topic that it keeps its state in.
func coordinator(conn *sarama.Broker, kind sarama.CoordinatorType, key string) error {
	return patiently(func() error {
		r, err := conn.FindCoordinator(&sarama.FindCoordinatorRequest{Version: 2, CoordinatorType: kind, CoordinatorKey: key})
		if err != nil {
			return err
		}
		return failed(r.Err)
	})
}

// add tells the coordinator about partitions that it does not know yet.
func (t *transaction) add(slots []slot) error {
	fresh := map[string][]int32{}
	for _, s := range slots {
		if t.added[s.topic] == nil {
			t.added[s.topic] = map[int32]bool{}
		}
		if !t.added[s.topic][s.partition] {
			t.added[s.topic][s.partition] = true
			fresh[s.topic] = append(fresh[s.topic], s.partition)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	request := &sarama.AddPartitionsToTxnRequest{Version: 1, TransactionalID: t.name, ProducerID: t.p.id, ProducerEpoch: t.p.epoch, TopicPartitions: fresh}
	return concurrently(func() error {
		r, err := t.conn.AddPartitionsToTxn(request)
		if err != nil {
			return err
		}
		return first(r.Errors)
	})
}

// end commits, unless nothing was written or read: next are the offsets of topic behind what was read.
func (t *transaction) end(topic string, next []int64) error {
	if err := t.p.flush(); err != nil {
		return err
	}
	if len(t.added) == 0 && slices.Equal(t.ended, next) {
		return nil
	}
	if err := errors.Join(t.addOffsets(), t.offsets(topic, next)); err != nil {
		return err
	}
	request := &sarama.EndTxnRequest{Version: 1, TransactionalID: t.name, ProducerID: t.p.id, ProducerEpoch: t.p.epoch, TransactionResult: true}
	clear(t.added)
	t.ended = append(t.ended[:0], next...)
	return concurrently(func() error {
		r, err := t.conn.EndTxn(request)
		if err != nil {
			return err
		}
		return failed(r.Err)
	})
}

func (t *transaction) addOffsets() error {
	request := &sarama.AddOffsetsToTxnRequest{Version: 1, TransactionalID: t.name, ProducerID: t.p.id, ProducerEpoch: t.p.epoch, GroupID: t.group}
	return concurrently(func() error {
		r, err := t.conn.AddOffsetsToTxn(request)
		if err != nil {
			return err
		}
		return failed(r.Err)
	})
}

func (t *transaction) offsets(topic string, next []int64) error {
	request := &sarama.TxnOffsetCommitRequest{Version: 2, TransactionalID: t.name, GroupID: t.group, ProducerID: t.p.id, ProducerEpoch: t.p.epoch,
		Topics: map[string][]*sarama.PartitionOffsetMetadata{}}
	for partition, offset := range next {
		request.Topics[topic] = append(request.Topics[topic], &sarama.PartitionOffsetMetadata{Partition: int32(partition), Offset: offset, LeaderEpoch: -1})
	}
	return concurrently(func() error {
		r, err := t.conn.TxnOffsetCommit(request)
		if err != nil {
			return err
		}
		return first(r.Topics)
	})
}

// busy are what a coordinator answers that has not ended the transaction before yet, or is not there yet.
var busy = []sarama.KError{
	sarama.ErrConcurrentTransactions, sarama.ErrConsumerCoordinatorNotAvailable, sarama.ErrNotCoordinatorForConsumer, sarama.ErrOffsetsLoadInProgress,
}

// concurrently tries again, every millisecond, while the coordinator is busy.
func concurrently(try func() error) (err error) {
	for range 10_000 {
		err = try()
		if !slices.ContainsFunc(busy, func(k sarama.KError) bool { return errors.Is(err, k) }) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

func failed(err sarama.KError) error {
	if err == sarama.ErrNoError {
		return nil
	}
	return err
}

func first(errs map[string][]*sarama.PartitionError) error {
	for topic, partitions := range errs {
		for _, p := range partitions {
			if p.Err != sarama.ErrNoError {
				return fmt.Errorf("%s-%d: %w", topic, p.Partition, p.Err)
			}
		}
	}
	return nil
}
