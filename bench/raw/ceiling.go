package raw

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
)

// commitInterval is how often changed counts are written, as in the systems that are measured.
const commitInterval = 100 * time.Millisecond

// Run does a job with nothing above the client: fetch, change, produce. It writes the records that a runtime must write
// (outputs, a changelog, a repartition topic), but it joins no group, commits no offsets, keeps its counts in a map and
// recovers from nothing. Topics of its own begin with app.
func (c *Client) Run(ctx context.Context, job work.Job, app, out string, p *measure.Progress) error {
	switch job.Name {
	case "pass":
		return c.pass(ctx, job.Input, out, p)
	case "count":
		ends, err := c.Ends(job.Input)
		if err != nil {
			return err
		}
		return c.count(ctx, job.Input, ends, app, out, p.Seen.New(), p.Outputs.New())
	case "words":
		return c.words(ctx, job.Input, app, out, p)
	}
	return errors.New("the raw client knows no job " + job.Name)
}

func (c *Client) pass(ctx context.Context, in, out string, progress *measure.Progress) error {
	ends, err := c.Ends(in)
	if err != nil {
		return err
	}
	p, err := c.producer(out)
	if err != nil {
		return err
	}
	defer p.close()
	seen, outputs := progress.Seen.New(), progress.Outputs.New()
	err = c.fetch(ctx, in, len(ends), ends, func(partition int32, b *sarama.RecordBatch) error {
		for _, r := range b.Records {
			upper(r.Value)
			if err := p.add(partition, r.Key, r.Value); err != nil {
				return err
			}
		}
		seen.Add(int64(len(b.Records)))
		outputs.Add(int64(len(b.Records)))
		return nil
	})
	return errors.Join(err, p.flush())
}

// upper turns ASCII letters into capitals in place.
func upper(b []byte) {
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - ('a' - 'A')
		}
	}
}

// tally counts keys and writes those that changed, once per commit, to the output and the changelog.
type tally struct {
	out, changelog *producer
	counts         map[string]*tallied
	dirty          []*tallied
	due            time.Time
	outputs        *measure.Counter
}

type tallied struct {
	key       []byte
	partition int32
	n         int64
	dirty     bool
}

func (t *tally) add(partition int32, key []byte) {
	e := t.counts[string(key)]
	if e == nil {
		e = &tallied{key: bytes.Clone(key), partition: partition} // not the whole response
		t.counts[string(e.key)] = e
	}
	e.n++
	if !e.dirty {
		e.dirty = true
		t.dirty = append(t.dirty, e)
	}
}

func (t *tally) commit() error {
	values := make([]byte, 8*len(t.dirty))
	for i, e := range t.dirty {
		value := values[8*i : 8*i+8]
		binary.BigEndian.PutUint64(value, uint64(e.n))
		if err := errors.Join(t.out.add(e.partition, e.key, value), t.changelog.add(e.partition, e.key, value)); err != nil {
			return err
		}
		e.dirty = false
	}
	t.outputs.Add(int64(len(t.dirty)))
	t.dirty = t.dirty[:0]
	return errors.Join(t.out.push(), t.changelog.push())
}

// count reads in up to ends, or until ctx has ended if ends is nil.
func (c *Client) count(ctx context.Context, in string, ends []int64, app, out string, seen, outputs *measure.Counter) error {
	changelog := app + "-changelog"
	if err := c.Create(changelog); err != nil {
		return err
	}
	t := &tally{counts: map[string]*tallied{}, outputs: outputs, due: time.Now().Add(commitInterval)}
	var err error
	if t.out, err = c.producer(out); err != nil {
		return err
	}
	defer t.out.close()
	if t.changelog, err = c.producer(changelog); err != nil {
		return err
	}
	defer t.changelog.close()
	err = c.fetch(ctx, in, work.Partitions, ends, func(partition int32, b *sarama.RecordBatch) error {
		for _, r := range b.Records {
			t.add(partition, r.Key)
		}
		seen.Add(int64(len(b.Records)))
		if now := time.Now(); now.After(t.due) {
			t.due = now.Add(commitInterval)
			return t.commit()
		}
		return nil
	})
	return errors.Join(err, t.commit(), t.out.flush(), t.changelog.flush())
}
