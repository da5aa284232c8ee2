// Millrace runs one job of the benchmark on a Millrace node and prints the measurement as JSON. bench starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
)

type settings struct {
	brokers, job, app, in, out, state, profile, guarantee string
	records, threads                                      int
	commit                                                time.Duration
	verbose                                               bool
}

func main() {
	var s settings
	flag.StringVar(&s.brokers, "brokers", "127.0.0.1:9092", "a broker's host:port")
	flag.StringVar(&s.job, "job", "", "count, words, pass or gets")
	flag.StringVar(&s.app, "app", "", "application id")
	flag.StringVar(&s.in, "in", "", "input topic")
	flag.StringVar(&s.out, "out", "", "output topic, which exists")
	flag.StringVar(&s.state, "state", "", "state directory")
	flag.StringVar(&s.guarantee, "guarantee", "exactly_once", "exactly_once or at_least_once")
	flag.StringVar(&s.profile, "profile", "", "write PROFILE.cpu and PROFILE.heap")
	flag.IntVar(&s.records, "records", 0, "number of input records")
	flag.IntVar(&s.threads, "threads", 2, "stream threads")
	flag.DurationVar(&s.commit, "commit", 100*time.Millisecond, "commit interval")
	flag.BoolVar(&s.verbose, "v", false, "log to stderr")
	flag.Parse()
	if err := run(context.Background(), s); err != nil {
		fmt.Fprintln(os.Stderr, "millrace:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	job, err := work.Find(s.job)
	if err != nil {
		return err
	}
	var progress measure.Progress
	node, err := newNode(s, &progress)
	if err != nil {
		return err
	}
	stop, err := profile(s.profile)
	if err != nil {
		return err
	}
	r, err := measured(ctx, node, &progress, s, job)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	return r.Write(os.Stdout)
}

func newNode(s settings, progress *measure.Progress) (*millrace.Node, error) {
	t, err := build(s, progress)
	if err != nil {
		return nil, err
	}
	guarantee, err := millrace.ParseGuarantee(s.guarantee)
	if err != nil {
		return nil, err
	}
	logger := slog.New(slog.DiscardHandler)
	if s.verbose {
		logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return millrace.New(s.app, t, millrace.WithBrokers(s.brokers), millrace.WithStateDir(s.state),
		millrace.WithThreads(s.threads), millrace.WithCommitInterval(s.commit), millrace.WithLogger(logger),
		millrace.WithGuarantee(guarantee))
}

// measured runs the node until the job is done. A node that ends earlier is an error.
func measured(ctx context.Context, node *millrace.Node, progress *measure.Progress, s settings, job work.Job) (r measure.Result, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	ended := make(chan error, 1)
	go func() {
		err := node.Run(ctx)
		if err != nil {
			cancel(err)
		}
		ended <- err
	}()
	ready := make(chan time.Duration, 1)
	go func() {
		if node.Ready(ctx) == nil {
			ready <- time.Since(began)
		}
		close(ready)
	}()
	read := make(chan *reads, 1)
	if job.Reads {
		go func() { read <- readWhileItRuns(ctx, node, &progress.Seen, s.records) }()
	}
	if r, err = progress.Watch(ctx, int64(s.records), int64(job.Counted(s.records))); err != nil {
		return r, context.Cause(ctx)
	}
	r.ToRunningS = (<-ready).Seconds()
	r.BlockedS = node.Blocked().Seconds() / float64(s.threads)
	if job.Reads {
		err = (<-read).finish(ctx, &r)
	}
	patient, done := context.WithTimeout(ctx, 30*time.Second)
	defer done()
	return r, errors.Join(err, node.Shutdown(patient), <-ended)
}
