package raw

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
)

// Ceiling is a job for the raw client: fetch, change, produce, with nothing above the client. It writes the records that a
// runtime must write (outputs, a changelog, a repartition topic) and, exactly once, in transactions that commit the
// offsets; it joins no group, keeps its counts in a map and recovers from nothing.
type Ceiling struct {
	// Does is the topology, In what it reads, Out what it writes; topics of its own begin with App, which is its group too.
	Does, In, Out, App string
	// ExactlyOnce writes in transactions, EveryUpdate emits each count, Compression is the codec of what is written.
	ExactlyOnce, EveryUpdate bool
	Compression              string
}

// Run does the job up to the input's end.
func (c *Client) Run(ctx context.Context, job Ceiling, p *measure.Progress) error {
	switch job.Does {
	case "pass":
		return c.stateless(ctx, job, p, func(r *sarama.Record) bool { work.Upper(r.Value); return true })
	case "map":
		return c.stateless(ctx, job, p, func(r *sarama.Record) bool {
			r.Value = r.Value[:min(work.Kept, len(r.Value))]
			return work.Keep(r.Key)
		})
	case "count", "windows":
		ends, err := c.Ends(job.In)
		if err != nil {
			return err
		}
		s := &stage{c: c, job: job, name: "count", in: job.In, ends: ends, seen: p.Seen.New()}
		return s.counting(ctx, p.Outputs.New())
	case "words":
		return c.words(ctx, job, p)
	}
	return fmt.Errorf("the raw client knows no job %q", job.Does)
}

// stateless changes each record in place and writes it to the same partition, if change says so.
func (c *Client) stateless(ctx context.Context, job Ceiling, p *measure.Progress, change func(*sarama.Record) bool) error {
	ends, err := c.Ends(job.In)
	if err != nil {
		return err
	}
	s := &stage{c: c, job: job, name: "only", in: job.In, ends: ends, seen: p.Seen.New()}
	if err := s.open(); err != nil {
		return err
	}
	defer s.p.close()
	out, err := s.p.to(job.Out)
	if err != nil {
		return err
	}
	outputs := p.Outputs.New()
	return s.run(ctx, func(partition int32, timestamp int64, r *sarama.Record) error {
		if !change(r) {
			return nil
		}
		outputs.Add(1)
		return out.add(partition, r.Key, r.Value, timestamp)
	})
}
