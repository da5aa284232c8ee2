package wire

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/record"
)

// End is where a partition ends: for all, and for readers of what is committed.
type End struct{ HighWatermark, LastStable int64 }

// Ends looks at the ends of partitions.
func (c *Client) Ends(ctx context.Context, tps []record.TopicPartition) (map[record.TopicPartition]End, error) {
	ends := map[record.TopicPartition]End{}
	err := c.retry(ctx, "the ends of the partitions", func() error {
		for _, tp := range tps {
			// The last stable offset first: of two looks at a log that grows, the later one must not be the lower.
			stable, err := c.listOffset(tp, sarama.OffsetNewest, sarama.ReadCommitted)
			if err != nil {
				return err
			}
			high, err := c.listOffset(tp, sarama.OffsetNewest, sarama.ReadUncommitted)
			if err != nil {
				return err
			}
			ends[tp] = End{HighWatermark: high, LastStable: stable}
		}
		return nil
	})
	return ends, err
}

func (c *Client) listOffset(tp record.TopicPartition, at int64, isolation sarama.IsolationLevel) (int64, error) {
	l, err := c.leader(tp)
	if err != nil {
		return 0, err
	}
	request := &sarama.OffsetRequest{Version: 4, IsolationLevel: isolation}
	request.AddBlock(tp.Topic, tp.Partition, at, 1)
	answer, err := call(c, l.address, func(b *sarama.Broker) (*sarama.OffsetResponse, error) { return b.GetAvailableOffsets(request) })
	if err != nil {
		return 0, err
	}
	block := answer.GetBlock(tp.Topic, tp.Partition)
	switch {
	case block == nil:
		return 0, fmt.Errorf("the answer about offsets lacks %s", tp)
	case block.Err != sarama.ErrNoError:
		return 0, fmt.Errorf("the offsets of %s: %w", tp, block.Err)
	}
	return block.Offset, nil
}

// Committed is the group's next offset in each partition, -1 where it has none. An offset that a transaction is about to
// change is waited for.
func (c *Client) Committed(ctx context.Context, group string, tps []record.TopicPartition) (map[record.TopicPartition]int64, error) {
	offsets := map[record.TopicPartition]int64{}
	err := c.retry(ctx, "the committed offsets", func() error {
		request := &sarama.OffsetFetchRequest{Version: 7, ConsumerGroup: group, RequireStable: true}
		for _, tp := range tps {
			request.AddPartition(tp.Topic, tp.Partition)
		}
		coordinator, err := c.coordinator(group)
		if err != nil {
			return err
		}
		answer, err := call(c, coordinator, func(b *sarama.Broker) (*sarama.OffsetFetchResponse, error) { return b.FetchOffset(request) })
		if err != nil {
			return err
		}
		if answer.Err != sarama.ErrNoError {
			return fmt.Errorf("the committed offsets: %w", answer.Err)
		}
		for _, tp := range tps {
			block := answer.GetBlock(tp.Topic, tp.Partition)
			if block == nil {
				return fmt.Errorf("the answer about committed offsets lacks %s", tp)
			}
			if block.Err != sarama.ErrNoError {
				return fmt.Errorf("the committed offset of %s: %w", tp, block.Err)
			}
			offsets[tp] = block.Offset
		}
		return nil
	})
	return offsets, err
}

func (c *Client) coordinator(group string) (string, error) {
	answer, err := anyBroker(c, func(b *sarama.Broker) (*sarama.FindCoordinatorResponse, error) {
		return b.FindCoordinator(&sarama.FindCoordinatorRequest{Version: 2, CoordinatorKey: group, CoordinatorType: sarama.CoordinatorGroup})
	})
	if err != nil {
		return "", err
	}
	if answer.Err != sarama.ErrNoError {
		return "", fmt.Errorf("the coordinator of %s: %w", group, answer.Err)
	}
	return answer.Coordinator.Addr(), nil
}
