package raw

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
)

// words counts in two stages with a topic in between, each on a goroutine of its own. The second stage does not know
// where its input ends, so it reads until it has counted every word that the first has written.
func (c *Client) words(ctx context.Context, in, app, out string, p *measure.Progress) error {
	repartition := app + "-repartition"
	if err := c.Create(repartition); err != nil {
		return err
	}
	counted := p.Counted.New()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	second := make(chan error, 1)
	go func() {
		err := c.count(ctx, repartition, nil, app, out, counted, p.Outputs.New())
		cancel(err)
		second <- err
	}()
	if err := c.split(ctx, in, repartition, p.Seen.New()); err != nil {
		cancel(err)
		return errors.Join(err, <-second)
	}
	ends, err := c.Ends(repartition)
	if err == nil {
		err = p.Counted.Await(ctx, sum(ends))
	}
	cancel(nil)
	return errors.Join(err, <-second)
}

func sum(offsets []int64) (total int64) {
	for _, o := range offsets {
		total += o
	}
	return total
}

// split writes the words of each line to the topic, keyed by themselves.
func (c *Client) split(ctx context.Context, in, to string, seen *measure.Counter) error {
	ends, err := c.Ends(in)
	if err != nil {
		return err
	}
	p, err := c.producer(to)
	if err != nil {
		return err
	}
	defer p.close()
	seed := maphash.MakeSeed()
	err = c.fetch(ctx, in, len(ends), ends, func(_ int32, b *sarama.RecordBatch) error {
		for _, r := range b.Records {
			for word := range bytes.SplitSeq(r.Value, []byte(" ")) {
				if err := p.add(int32(maphash.Bytes(seed, word)%work.Partitions), word, word); err != nil {
					return err
				}
			}
		}
		seen.Add(int64(len(b.Records)))
		return nil
	})
	return errors.Join(err, p.flush())
}
