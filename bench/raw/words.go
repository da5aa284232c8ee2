package raw

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/bench/measure"
)

// words counts in two stages with a topic in between, each on a goroutine of its own. The second stage does not know
// where its input ends, so it reads until it has counted every word that the first has written.
func (c *Client) words(ctx context.Context, job Ceiling, p *measure.Progress) error {
	ends, err := c.Ends(job.In)
	if err != nil {
		return err
	}
	repartition := job.App + "-repartition"
	if err := c.Create(repartition, int32(len(ends))); err != nil {
		return err
	}
	counted := p.Counted.New()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() {
		second := &stage{c: c, job: job, name: "count", in: repartition, ends: ends, follow: true, seen: counted}
		err := second.counting(ctx, p.Outputs.New())
		cancel(err)
		done <- err
	}()
	first := &stage{c: c, job: job, name: "split", in: job.In, ends: ends, seen: p.Seen.New()}
	written, err := first.splitting(ctx, repartition)
	if err == nil {
		err = p.Counted.Await(ctx, written)
	}
	cancel(err)
	return errors.Join(err, <-done)
}

// splitting writes the words of each line to the topic, keyed by themselves, and returns how many there were.
func (s *stage) splitting(ctx context.Context, to string) (written int64, err error) {
	if err := s.open(); err != nil {
		return 0, err
	}
	defer s.p.close()
	out, err := s.p.to(to)
	if err != nil {
		return 0, err
	}
	seed, n := maphash.MakeSeed(), uint64(len(s.ends))
	err = s.run(ctx, func(_ int32, timestamp int64, r *sarama.Record) error {
		for word := range bytes.SplitSeq(r.Value, []byte(" ")) {
			written++
			if err := out.add(int32(maphash.Bytes(seed, word)%n), word, word, timestamp); err != nil {
				return err
			}
		}
		return nil
	})
	return written, err
}
