package kafka

import (
	"context"
	"maps"
	"slices"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// Requests about groups that are known to this room only.
const (
	opDescribeGroups broker.Op = "DescribeGroups"
	opDeleteGroups   broker.Op = "DeleteGroups"
)

// coordinatorCall makes one request to a group's coordinator, again while that is of use.
func coordinatorCall[T any](ctx context.Context, a *Admin, op broker.Op, group string, request func(*sarama.Broker) (T, error), codes func(T) []sarama.KError) (answer T, err error) {
	err = retry(ctx, func() error {
		to, err := a.cluster.coordinator(ctx, group)
		if err != nil {
			return err
		}
		if answer, err = callUntil(ctx, to, request); err != nil {
			return asError(op, record.TopicPartition{}, err)
		}
		for _, code := range codes(answer) {
			if code != sarama.ErrNoError && Classify(op, int16(code)) != broker.Ignore {
				return NewError(op, int16(code), record.TopicPartition{}, code)
			}
		}
		return nil
	})
	return answer, err
}

// Group says whether a group is there, and names its members in order. It has the errors of every Admin method.
func (a *Admin) Group(ctx context.Context, group string) (exists bool, members []string, err error) {
	answer, err := coordinatorCall(ctx, a, opDescribeGroups, group, func(b *sarama.Broker) (*sarama.DescribeGroupsResponse, error) {
		return b.DescribeGroups(&sarama.DescribeGroupsRequest{Version: 4, Groups: []string{group}})
	}, func(r *sarama.DescribeGroupsResponse) (codes []sarama.KError) {
		for _, g := range r.Groups {
			codes = append(codes, sarama.KError(g.ErrorCode))
		}
		return codes
	})
	if err != nil {
		return false, nil, err
	}
	for _, g := range answer.Groups {
		exists = exists || g.State != "Dead" // what Kafka says of a group that is not there
		for _, m := range g.Members {
			members = append(members, m.MemberId)
		}
	}
	slices.Sort(members)
	return exists, members, nil
}

// GroupTopics are the topics, in order, of which a group has positions. While a transaction has some pending the group is asked
// again. It has the errors of every Admin method.
func (a *Admin) GroupTopics(ctx context.Context, group string) ([]string, error) {
	answer, err := coordinatorCall(ctx, a, broker.OpOffsetFetch, group, func(b *sarama.Broker) (*sarama.OffsetFetchResponse, error) {
		// no partitions at all stand for every one
		return b.FetchOffset(&sarama.OffsetFetchRequest{Version: 7, ConsumerGroup: group, RequireStable: true})
	}, func(r *sarama.OffsetFetchResponse) []sarama.KError {
		codes := []sarama.KError{r.Err}
		for _, partitions := range r.Blocks {
			for _, b := range partitions {
				codes = append(codes, b.Err)
			}
		}
		return codes
	})
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(answer.Blocks)), nil
}

// DeleteGroup deletes a group with its offsets; one that does not exist is passed over. A group with members is an error of
// class Fatal with code 68.
func (a *Admin) DeleteGroup(ctx context.Context, group string) error {
	_, err := coordinatorCall(ctx, a, opDeleteGroups, group, func(b *sarama.Broker) (*sarama.DeleteGroupsResponse, error) {
		return b.DeleteGroups(&sarama.DeleteGroupsRequest{Version: 1, Groups: []string{group}})
	}, func(r *sarama.DeleteGroupsResponse) []sarama.KError { return []sarama.KError{r.GroupErrorCodes[group]} })
	return err
}

// CommitOffsets sets the positions of a group without members. With members it is an error of class Migrated with code 25.
func (a *Admin) CommitOffsets(ctx context.Context, group string, at map[record.TopicPartition]int64) error {
	if len(at) == 0 {
		return nil
	}
	r := &sarama.OffsetCommitRequest{Version: 7, ConsumerGroup: group, ConsumerGroupGeneration: sarama.GroupGenerationUndefined, RetentionTime: -1}
	for tp, offset := range at {
		r.AddBlockWithLeaderEpoch(tp.Topic, tp.Partition, offset, -1, 0, "")
	}
	_, err := coordinatorCall(ctx, a, broker.OpOffsetCommit, group, func(b *sarama.Broker) (*sarama.OffsetCommitResponse, error) {
		return b.CommitOffset(r)
	}, func(r *sarama.OffsetCommitResponse) (codes []sarama.KError) {
		for _, partitions := range r.Errors {
			for _, code := range partitions {
				codes = append(codes, code)
			}
		}
		return codes
	})
	return err
}
