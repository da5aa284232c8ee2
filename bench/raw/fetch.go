package raw

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"
)

const (
	fetchBytes  = 1 << 20 // per partition and request
	fetchWaitMS = 100
)

// answer is one fetch response, decoded.
type answer struct {
	response *sarama.FetchResponse
	err      error
}

// fetch reads a topic from its beginning up to ends, or until ctx ends if ends is nil, and hands over each batch. A
// second goroutine fetches and decodes one response ahead.
func (c *Client) fetch(ctx context.Context, topic string, partitions int, ends []int64, each func(partition int32, b *sarama.RecordBatch) error) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer)
	go read(ctx, conn, topic, make([]int64, partitions), ends, answers)
	for a := range answers {
		if a.err != nil {
			return a.err
		}
		if err := batches(a.response, topic, each); err != nil {
			return err
		}
	}
	return nil
}

// read sends fetches, one after the other, from next on; it closes answers when all is read or ctx has ended.
func read(ctx context.Context, conn *sarama.Broker, topic string, next, ends []int64, answers chan<- answer) {
	defer close(answers)
	for ctx.Err() == nil {
		request := &sarama.FetchRequest{Version: 11, MaxWaitTime: fetchWaitMS, MinBytes: 1, MaxBytes: 64 << 20, SessionEpoch: -1}
		open := 0
		for p := range next {
			if ends == nil || next[p] < ends[p] {
				request.AddBlock(topic, int32(p), next[p], fetchBytes, -1)
				open++
			}
		}
		if open == 0 {
			return
		}
		response, err := conn.Fetch(request)
		if err == nil {
			err = advance(response, topic, next)
		}
		select {
		case answers <- answer{response, err}:
		case <-ctx.Done():
		}
		if err != nil {
			return
		}
	}
}

func advance(response *sarama.FetchResponse, topic string, next []int64) error {
	for p, block := range response.Blocks[topic] {
		if block.Err != sarama.ErrNoError {
			return fmt.Errorf("fetch of %s-%d: %w", topic, p, block.Err)
		}
		for _, set := range block.RecordsSet {
			if b := set.RecordBatch; b != nil && !b.PartialTrailingRecord {
				next[p] = b.FirstOffset + int64(b.LastOffsetDelta) + 1
			}
		}
	}
	return nil
}

func batches(response *sarama.FetchResponse, topic string, each func(int32, *sarama.RecordBatch) error) error {
	for p, block := range response.Blocks[topic] {
		for _, set := range block.RecordsSet {
			if b := set.RecordBatch; b != nil && !b.Control && !b.PartialTrailingRecord {
				if err := each(p, b); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Read hands over every record of a topic as it is now. Key and value may be kept.
func (c *Client) Read(topic string, each func(partition int32, key, value []byte) error) error {
	ends, err := c.Ends(topic)
	if err != nil {
		return err
	}
	return c.fetch(context.Background(), topic, len(ends), ends, func(p int32, b *sarama.RecordBatch) error {
		for _, r := range b.Records {
			if err := each(p, r.Key, r.Value); err != nil {
				return err
			}
		}
		return nil
	})
}
