package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
	"github.com/millrace-io/millrace/query"
)

const (
	// pace is the time between two reads while the job runs, slice how long it reads and then leaves off, in turn.
	pace  = 200 * time.Microsecond
	slice = 250 * time.Millisecond
	// rest is how long it reads when the job is done.
	rest = 3 * time.Second
)

// reader asks for keys that are there, each as likely as the others, from a fixed seed.
type reader struct {
	view   *query.View[string, int64]
	keys   int
	random *rand.Rand
	key    []byte
	calls  []time.Duration
}

func newReader(ctx context.Context, node *millrace.Node, keys int) (*reader, error) {
	view, err := query.Open(ctx, node, counts)
	if err != nil {
		return nil, err
	}
	return &reader{view: view, keys: keys, random: rand.New(rand.NewPCG(42, 0))}, nil
}

// get asks for one key. Before the end, the key may not be committed yet.
func (r *reader) get(ctx context.Context, there bool) error {
	r.key = work.AppendWord(r.key[:0], r.random.IntN(r.keys))
	key := string(r.key)
	began := time.Now()
	_, found, err := r.view.Get(ctx, key)
	r.calls = append(r.calls, time.Since(began))
	if err == nil && there && !found {
		err = fmt.Errorf("%q is not in the store", key)
	}
	return err
}

// underLoad reads while the job goes through the keys for the second time. kept is the share of its speed, in per cent,
// that the job has while it is read from, against the slices in between.
func (r *reader) underLoad(ctx context.Context, seen *measure.Sum, until int64) (l *measure.Latency, kept float64, err error) {
	var records [2]int64
	var spent [2]time.Duration
	began, before := time.Now(), seen.Load()
	for turn := 0; before < until; turn = 1 - turn {
		if turn == 0 {
			err = r.paced(ctx, began.Add(slice))
		} else {
			err = measure.Pause(ctx, time.Until(began.Add(slice)))
		}
		if err != nil {
			return nil, 0, err
		}
		now, after := time.Now(), seen.Load()
		if after < until { // the last slice is in part idle
			records[turn] += after - before
			spent[turn] += now.Sub(began)
		}
		began, before = now, after
	}
	if records[1] > 0 {
		kept = 100 * (float64(records[0]) / spent[0].Seconds()) / (float64(records[1]) / spent[1].Seconds())
	}
	return r.summary(), kept, nil
}

// paced reads at a fixed rate; up to a millisecond that it is late is made up for.
func (r *reader) paced(ctx context.Context, until time.Time) error {
	for next := time.Now(); next.Before(until); next = next.Add(pace) {
		if now := time.Now(); now.Sub(next) > time.Millisecond {
			next = now
		}
		if err := errors.Join(measure.Pause(ctx, time.Until(next)), r.get(ctx, false)); err != nil {
			return err
		}
	}
	return nil
}

// atRest reads one key after the other.
func (r *reader) atRest(ctx context.Context) (*measure.Latency, error) {
	for began := time.Now(); time.Since(began) < rest; {
		if err := r.get(ctx, true); err != nil {
			return nil, err
		}
	}
	return r.summary(), nil
}

func (r *reader) summary() *measure.Latency {
	l := measure.Summarize(r.calls)
	r.calls = r.calls[:0]
	return l
}

// reads is what a job of reads measures beside the processing.
type reads struct {
	reader    *reader
	underLoad *measure.Latency
	kept      float64
	err       error
}

// readWhileItRuns begins when every key is in the store, and ends with the job's last record.
func readWhileItRuns(ctx context.Context, node *millrace.Node, seen *measure.Sum, s settings) *reads {
	r := &reads{}
	if r.err = errors.Join(seen.Await(ctx, s.records/2), node.Ready(ctx)); r.err != nil {
		return r
	}
	if r.reader, r.err = newReader(ctx, node, s.reads); r.err != nil {
		return r
	}
	r.underLoad, r.kept, r.err = r.reader.underLoad(ctx, seen, s.records)
	return r
}

// finish reads at rest, and puts all of it into the job's result.
func (r *reads) finish(ctx context.Context, into *measure.Result) (err error) {
	if r.err != nil {
		return r.err
	}
	into.UnderLoad, into.Kept = r.underLoad, r.kept
	into.AtRest, err = r.reader.atRest(ctx)
	return err
}
