package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/broker"
	"github.com/millrace-io/millrace/record"
)

// Changelog reads whole stretches of partitions for restores, on its own connections.
type Changelog struct{ cluster *cluster }

// NewChangelog returns a reader that has connected to nothing yet. Its error says what of the authentication in cfg cannot work.
func NewChangelog(cfg Config) (*Changelog, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Changelog{newCluster(cfg, "restore", 40*time.Second, nil)}, nil
}

// Close ends its connections; reads that are under way fail.
func (c *Changelog) Close() { c.cluster.close() }

// Ends says what partitions hold. Its error has a *broker.Error in its chain, and ctx's cause if that ended first.
func (c *Changelog) Ends(ctx context.Context, tps []record.TopicPartition) (map[record.TopicPartition]Range, error) {
	ranges := map[record.TopicPartition]Range{}
	err := retry(ctx, func() error { return c.cluster.ends(ctx, tps, false, ranges) })
	return ranges, err
}

// OutOfRangeError is a position that the log does not hold.
type OutOfRangeError struct {
	Source        record.TopicPartition
	Position      int64
	Start, LogEnd int64
}

// Error names the position and the range.
func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("kafka: offset %d of %s is outside its log, which holds %d to %d", e.Position, e.Source, e.Start, e.LogEnd)
}

// Read gives fn the batches from one position to another, until the position has reached to: control records and
// compacted gaps count, so a stretch without records ends too. Nothing is waited for if from is at to already. What a
// batch refers to is valid until fn returns. It ends with fn's error, ctx's cause, or a *broker.Error: one
// with broker.CodeOffsetOutOfRange has an *OutOfRangeError as its cause; what is transient is tried again.
func (c *Changelog) Read(ctx context.Context, tp record.TopicPartition, from, to int64, committed bool, fn func(broker.Batch) error) error {
	for attempt := 0; from < to; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b, err := c.fetch(ctx, tp, from, committed)
		if err != nil {
			var be *broker.Error
			if !errors.As(err, &be) || be.Class != broker.Retry {
				return err
			}
			attempt++
			if !sleep(ctx, backoff(attempt)) {
				return context.Cause(ctx)
			}
			continue
		}
		attempt = 0
		if b.Next == from {
			// Behind an open transaction: above the last stable offset a broker answers at once, whatever MaxWait says.
			if !sleep(ctx, 20*time.Millisecond) {
				return context.Cause(ctx)
			}
			continue
		}
		from = b.Next
		if err := fn(b); err != nil {
			return err
		}
	}
	return nil
}

func (c *Changelog) fetch(ctx context.Context, tp record.TopicPartition, from int64, committed bool) (broker.Batch, error) {
	to, led, ok := c.cluster.leaderOf(tp)
	if !ok {
		if _, err := c.cluster.metadataUntil(ctx, []string{tp.Topic}); err != nil {
			return broker.Batch{}, err
		}
		if to, led, ok = c.cluster.leaderOf(tp); !ok {
			return broker.Batch{}, NewError(broker.OpFetch, int16(sarama.ErrLeaderNotAvailable), tp, sarama.ErrLeaderNotAvailable)
		}
	}
	r := &fetch{waitMS: 100, answerBytes: 16 << 20, committed: committed, parts: []fetchPart{{tp, led.epoch, from, 4 << 20}}}
	answer, err := r.ask(ctx, to)
	if err != nil {
		c.cluster.forget(tp)
		return broker.Batch{}, asError(broker.OpFetch, tp, err)
	}
	part := answer[tp]
	switch {
	case part == nil:
		return broker.Batch{}, NewError(broker.OpFetch, transportCode, tp, errors.New("the answer lacks the partition"))
	case part.code == broker.CodeOffsetOutOfRange:
		ranges := map[record.TopicPartition]Range{}
		if err := c.cluster.ends(ctx, []record.TopicPartition{tp}, false, ranges); err != nil {
			return broker.Batch{}, err
		}
		return broker.Batch{}, NewError(broker.OpFetch, broker.CodeOffsetOutOfRange, tp, &OutOfRangeError{tp, from, ranges[tp].Start, ranges[tp].HighWatermark})
	case part.code != 0:
		c.cluster.forget(tp)
		return broker.Batch{}, NewError(broker.OpFetch, part.code, tp, nil)
	}
	b, err := decodeBatches(tp, from, part, committed)
	if err != nil {
		return broker.Batch{}, NewError(broker.OpFetch, int16(sarama.ErrInvalidMessage), tp, err)
	}
	return b, nil
}
