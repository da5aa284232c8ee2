package raw

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/IBM/sarama"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
)

// tally counts keys and writes those that changed, once per commit, to the output and the changelog; with every, each
// change goes to the output at once.
type tally struct {
	out, changelog *outlet
	every          bool
	counts         map[string]*tallied
	dirty          []*tallied
	outputs        *measure.Counter
}

type tallied struct {
	key       []byte
	partition int32
	n         int64
	timestamp int64
	dirty     bool
}

func (t *tally) add(partition int32, key []byte, timestamp int64) error {
	e := t.counts[string(key)]
	if e == nil {
		e = &tallied{key: bytes.Clone(key), partition: partition} // not the whole response
		t.counts[string(e.key)] = e
	}
	e.n++
	e.timestamp = max(e.timestamp, timestamp)
	if !e.dirty {
		e.dirty = true
		t.dirty = append(t.dirty, e)
	}
	if !t.every {
		return nil
	}
	t.outputs.Add(1)
	return t.out.add(partition, e.key, binary.BigEndian.AppendUint64(nil, uint64(e.n)), e.timestamp)
}

// write adds what changed to the changelog, and to the output unless it is there already.
func (t *tally) write() error {
	values := make([]byte, 8*len(t.dirty))
	for i, e := range t.dirty {
		value := values[8*i : 8*i+8]
		binary.BigEndian.PutUint64(value, uint64(e.n))
		if err := t.changelog.add(e.partition, e.key, value, e.timestamp); err != nil {
			return err
		}
		e.dirty = false
		if t.every {
			continue
		}
		if err := t.out.add(e.partition, e.key, value, e.timestamp); err != nil {
			return err
		}
	}
	if !t.every {
		t.outputs.Add(int64(len(t.dirty)))
	}
	t.dirty = t.dirty[:0]
	return nil
}

// counting counts by key, or by key and window.
func (s *stage) counting(ctx context.Context, outputs *measure.Counter) error {
	changelog := s.job.App + "-changelog"
	if err := s.c.Create(changelog, int32(len(s.ends))); err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return err
	}
	defer s.p.close()
	t := &tally{counts: map[string]*tallied{}, every: s.job.EveryUpdate, outputs: outputs}
	var err error
	if t.out, err = s.p.to(s.job.Out); err != nil {
		return err
	}
	if t.changelog, err = s.p.to(changelog); err != nil {
		return err
	}
	s.before = t.write
	var windowed []byte
	return s.run(ctx, func(partition int32, timestamp int64, r *sarama.Record) error {
		if s.job.Does != "windows" {
			return t.add(partition, r.Key, timestamp)
		}
		start := timestamp - timestamp%work.WindowSize.Milliseconds()
		windowed = binary.BigEndian.AppendUint64(append(windowed[:0], r.Key...), uint64(start))
		return t.add(partition, windowed, timestamp)
	})
}
