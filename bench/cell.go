package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
)

// cell is one run of one job on one system.
type cell struct {
	job        work.Job
	system     system
	repetition int
}

// outcome is what a cell has measured.
type outcome struct {
	measure.Result
	// RestartS is the time from a second start to RUNNING. Restored is how many records the restore read.
	RestartS float64
	Restored int64
	// Shares are the parts of the records, from 0 to 1, that each of several nodes has seen.
	Shares []float64
}

// run runs a cell: fresh application, fresh topics, fresh state; all gone afterwards.
func (b *bench) run(ctx context.Context, c cell) (err error) {
	app := "bench-" + strings.ReplaceAll(c.name(), "/", "-")
	a := assignment{job: c.job, app: app, in: c.job.Input.Topic, out: app + "-out", records: b.size(c.job), state: filepath.Join(b.dir, "state", app), until: "done"}
	if c.system.out != "" {
		a.out = c.system.out
	}
	if err := b.client.Create(a.out, c.job.Input.Partitions); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, b.client.DeletePrefix(app), b.client.DeletePrefix(a.out), os.RemoveAll(a.state)) // out may have a name of its own
	}()
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	began := time.Now()
	o, err := b.course(ctx, c, a)
	if err != nil {
		return err
	}
	outputs, err := b.check(a)
	if err != nil {
		return err
	}
	r := b.report.row(c, o, outputs)
	r.print(os.Stdout, c.job, time.Since(began))
	return b.report.add(r, b.results)
}

// course takes a cell through what its job measures.
func (b *bench) course(ctx context.Context, c cell, a assignment) (outcome, error) {
	switch c.job.Course {
	case work.Restores:
		return b.restore(ctx, c.system, a)
	case work.Restarts:
		return b.restart(ctx, c.system, a)
	case work.Shares:
		return b.share(ctx, c.system, a)
	}
	r, err := b.once(ctx, c.system, a)
	return outcome{Result: r}, err
}

// restore runs the job, deletes its state and starts it again. It leaves the group in between whatever the default is: how
// long a member is waited for is the restart's business.
func (b *bench) restore(ctx context.Context, s system, a assignment) (o outcome, err error) {
	a.leave = true
	if o.Result, err = b.once(ctx, s, a); err != nil {
		return o, err
	}
	if err := os.RemoveAll(a.state); err != nil {
		return o, err
	}
	a.until = "running"
	again, err := b.once(ctx, s, a)
	if err != nil {
		return o, fmt.Errorf("the second time: %w", err)
	}
	o.RestoreS, o.RestartS = again.RestoreS, again.ToRunningS
	err = b.client.Read(a.app+"-counts-changelog", func(int32, []byte, []byte) error { o.Restored++; return nil })
	return o, err
}

// restart runs the job and starts it again on its state.
func (b *bench) restart(ctx context.Context, s system, a assignment) (o outcome, err error) {
	if o.Result, err = b.once(ctx, s, a); err != nil {
		return o, err
	}
	a.until = "running"
	again, err := b.once(ctx, s, a)
	if err != nil {
		return o, fmt.Errorf("the second time: %w", err)
	}
	o.RestartS = again.ToRunningS
	return o, nil
}

// settle is how long two nodes may take to agree about who has what once both are RUNNING, before the input comes.
const settle = 3 * time.Second

// share lets two nodes do the job. The input is written when both are RUNNING, so that neither has a start.
func (b *bench) share(ctx context.Context, s system, a assignment) (o outcome, err error) {
	in := a.job.Input
	in.Topic = a.app + "-in"
	if err := b.client.Create(in.Topic, in.Partitions); err != nil {
		return o, err
	}
	a.in, a.until = in.Topic, "stopped"
	ctx, cancel := context.WithCancel(ctx)
	var nodes []*process
	defer func() { // none outlives the cell
		cancel()
		for _, p := range nodes {
			<-p.ended
		}
	}()
	for n := range 2 {
		one := a
		one.state = filepath.Join(a.state, fmt.Sprint(n))
		p, err := b.start(ctx, s, one)
		if err != nil {
			return o, err
		}
		nodes = append(nodes, p)
	}
	for _, p := range nodes {
		if err := p.awaitRunning(); err != nil {
			return o, err
		}
	}
	if err := measure.Pause(ctx, settle); err != nil {
		return o, err
	}
	if err := errors.Join(b.client.Fill(in, a.records), b.awaitCommitted(ctx, a)); err != nil {
		return o, err
	}
	return together(nodes)
}

// awaitCommitted waits until the group has committed all of its input, and then half a second, as one node alone does.
func (b *bench) awaitCommitted(ctx context.Context, a assignment) error {
	for {
		n, err := b.client.Committed(a.app, a.in, a.job.Input.Partitions)
		if err != nil {
			return err
		}
		if n >= int64(a.records) {
			return measure.Pause(ctx, 500*time.Millisecond)
		}
		if err := measure.Pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d records were committed: %w", n, a.records, err)
		}
	}
}

// together stops the nodes and adds up what they have done. The time is that of the node which took longest.
func together(nodes []*process) (o outcome, err error) {
	for _, p := range nodes {
		p.stop.Close()
	}
	for _, p := range nodes {
		r, err := p.result()
		if err != nil {
			return o, err
		}
		o.Shares = append(o.Shares, float64(r.Records))
		o.Records, o.Outputs, o.Objects, o.Bytes = o.Records+r.Records, o.Outputs+r.Outputs, o.Objects+r.Objects, o.Bytes+r.Bytes
		o.CPUS, o.PeakMiB = o.CPUS+r.CPUS, o.PeakMiB+r.PeakMiB
		o.Seconds, o.ToRunningS, o.BlockedS = max(o.Seconds, r.Seconds), max(o.ToRunningS, r.ToRunningS), max(o.BlockedS, r.BlockedS)
	}
	for i := range o.Shares {
		o.Shares[i] /= max(1, float64(o.Records))
	}
	return o, nil
}
