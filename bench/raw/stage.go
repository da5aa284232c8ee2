package raw

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/bench/measure"
)

// commitInterval is how often changed counts are written and transactions committed, as in the systems that are measured.
const commitInterval = 100 * time.Millisecond

// stage is a loop from one topic to some others: a job has one, the word count two.
type stage struct {
	c        *Client
	job      Ceiling
	name, in string
	ends     []int64
	// follow says that it goes on behind ends until its context ends.
	follow bool
	seen   *measure.Counter
	p      *producer
	// before writes what waits for a commit; nil for nothing.
	before func() error
	// next are the offsets behind what was processed, due is when they are committed.
	next []int64
	due  time.Time
}

// open connects the producer; who called it closes that.
func (s *stage) open() (err error) {
	transactional := ""
	if s.job.ExactlyOnce {
		transactional = s.job.App + "-" + s.name
	}
	s.p, err = s.c.producer(s.job.Compression, transactional, s.job.App)
	s.next, s.due = make([]int64, len(s.ends)), time.Now().Add(commitInterval)
	return err
}

// run hands over every record of the input; timestamps are in milliseconds. What a batch's records refer to stays as it is
// until the next commit.
func (s *stage) run(ctx context.Context, each func(partition int32, timestamp int64, r *sarama.Record) error) error {
	err := s.c.fetch(ctx, s.in, s.ends, s.follow, func(partition int32, b *sarama.RecordBatch) error {
		first := b.FirstTimestamp.UnixMilli()
		for _, r := range b.Records {
			if err := each(partition, first+r.TimestampDelta.Milliseconds(), r); err != nil {
				return err
			}
		}
		s.seen.Add(int64(len(b.Records)))
		s.next[partition] = b.LastOffset() + 1
		if now := time.Now(); now.After(s.due) {
			s.due = now.Add(commitInterval)
			return s.commit()
		}
		return nil
	})
	return errors.Join(err, s.commit(), s.p.flush())
}

// commit ends the interval. At least once it does not wait for what is in flight: that is what a runtime may leave to the
// next interval at best.
func (s *stage) commit() error {
	if s.before != nil {
		if err := s.before(); err != nil {
			return err
		}
	}
	if s.p.transaction != nil {
		return s.p.transaction.end(s.in, s.next)
	}
	return s.p.push()
}
