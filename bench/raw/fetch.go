package raw

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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

// fetch reads a topic's committed records from its beginning up to ends, or, if follow, until ctx ends, and hands over each
// batch. A second goroutine fetches and decodes one response ahead.
func (c *Client) fetch(ctx context.Context, topic string, ends []int64, follow bool, each func(partition int32, b *sarama.RecordBatch) error) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer)
	next := make([]int64, len(ends))
	if follow {
		ends = nil
	}
	go read(ctx, conn, topic, next, ends, answers)
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
		request := &sarama.FetchRequest{Version: 11, MaxWaitTime: fetchWaitMS, MinBytes: 1, MaxBytes: 64 << 20, SessionEpoch: -1, Isolation: sarama.ReadCommitted}
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
				next[p] = b.LastOffset() + 1
			}
		}
	}
	return nil
}

// batches hands over what is no marker and not aborted.
func batches(response *sarama.FetchResponse, topic string, each func(int32, *sarama.RecordBatch) error) error {
	for p, block := range response.Blocks[topic] {
		aborted := abortions{ahead: block.AbortedTransactions}
		for _, set := range block.RecordsSet {
			if b := set.RecordBatch; b != nil && !b.PartialTrailingRecord && !aborted.hide(b) && !b.Control {
				if err := each(p, b); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// abortions are the aborted transactions of one partition in one response: those that begin further on, and the producers
// in the midst of one.
type abortions struct {
	ahead []*sarama.AbortedTransaction
	open  map[int64]bool
}

// hide says that a batch belongs to an aborted transaction. Batches come in order; a marker ends its producer's.
func (a *abortions) hide(b *sarama.RecordBatch) bool {
	if len(a.ahead) > 0 && a.open == nil {
		a.open = map[int64]bool{}
		slices.SortFunc(a.ahead, func(x, y *sarama.AbortedTransaction) int { return cmp.Compare(x.FirstOffset, y.FirstOffset) })
	}
	for len(a.ahead) > 0 && a.ahead[0].FirstOffset <= b.LastOffset() {
		a.open[a.ahead[0].ProducerID] = true
		a.ahead = a.ahead[1:]
	}
	hidden := b.IsTransactional && a.open[b.ProducerID]
	if b.Control {
		delete(a.open, b.ProducerID)
	}
	return hidden
}

// Read hands over every committed record of a topic as it is now. Key and value may be kept.
func (c *Client) Read(topic string, each func(partition int32, key, value []byte) error) error {
	ends, err := c.Ends(topic)
	if err != nil {
		return err
	}
	return c.fetch(context.Background(), topic, ends, false, func(p int32, b *sarama.RecordBatch) error {
		for _, r := range b.Records {
			if err := each(p, r.Key, r.Value); err != nil {
				return err
			}
		}
		return nil
	})
}
