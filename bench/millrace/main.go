// Millrace runs one job of the benchmark on a Millrace node and prints the measurement as JSON. bench starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure"
)

type settings struct {
	brokers, does, app, in, out, state, profile, guarantee, compression, until string
	records, counted, cache                                                    int64
	threads, reads, procs                                                      int
	commit                                                                     time.Duration
	everyUpdate, leave, verbose                                                bool
}

func main() {
	var s settings
	flag.StringVar(&s.brokers, "brokers", "127.0.0.1:9092", "a broker's host:port")
	flag.StringVar(&s.does, "does", "", "pass, map, count, words or windows")
	flag.StringVar(&s.app, "app", "", "application id")
	flag.StringVar(&s.in, "in", "", "input topic")
	flag.StringVar(&s.out, "out", "", "output topic, which exists")
	flag.StringVar(&s.state, "state", "", "state directory")
	flag.StringVar(&s.guarantee, "guarantee", "exactly_once", "exactly_once or at_least_once")
	flag.StringVar(&s.compression, "compression", "none", "codec of what is produced")
	flag.StringVar(&s.until, "until", "done", "when it ends: done, running, or stopped (by the end of standard input)")
	flag.StringVar(&s.profile, "profile", "", "write PROFILE.cpu and PROFILE.heap")
	flag.Int64Var(&s.records, "records", 0, "number of input records")
	flag.Int64Var(&s.counted, "counted", 0, "number of records of the second stage")
	flag.Int64Var(&s.cache, "store-cache", 64<<20, "bytes of the store cache")
	flag.IntVar(&s.threads, "threads", 2, "stream threads")
	flag.IntVar(&s.reads, "reads", 0, "how many keys to read from while it runs and after it; 0 reads nothing")
	flag.IntVar(&s.procs, "procs", 0, "GOMAXPROCS; 0 leaves it to the runtime")
	flag.DurationVar(&s.commit, "commit", 100*time.Millisecond, "commit interval")
	flag.BoolVar(&s.everyUpdate, "every-update", false, "emit every update of a count")
	flag.BoolVar(&s.leave, "leave", true, "leave the group at the end")
	flag.BoolVar(&s.verbose, "v", false, "log to stderr")
	flag.Parse()
	if s.procs > 0 {
		runtime.GOMAXPROCS(s.procs)
	}
	if err := run(context.Background(), s); err != nil {
		fmt.Fprintln(os.Stderr, "millrace:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	var progress measure.Progress
	node, err := newNode(s, &progress)
	if err != nil {
		return err
	}
	stop, err := profile(s.profile)
	if err != nil {
		return err
	}
	r, err := measured(ctx, node, &progress, s)
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
		millrace.WithStoreCache(s.cache), millrace.WithGuarantee(guarantee), millrace.WithCompression(s.compression), millrace.WithLeaveGroup(s.leave))
}

// measured runs the node until the job is done. A node that ends earlier is an error.
func measured(ctx context.Context, node *millrace.Node, progress *measure.Progress, s settings) (r measure.Result, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	restores := watchRestores(ctx, node)
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
			took := time.Since(began)
			fmt.Println("RUNNING") // before it is known: the measurement must be the last line
			ready <- took
		}
		close(ready)
	}()
	read := make(chan *reads, 1)
	if s.reads > 0 {
		go func() { read <- readWhileItRuns(ctx, node, &progress.Seen, s) }()
	}
	running, r, err := s.wait(ctx, ready, progress)
	if err != nil {
		return r, errors.Join(err, context.Cause(ctx))
	}
	r.ToRunningS, r.RestoreS = running.Seconds(), restores()
	r.BlockedS = node.Blocked().Seconds() / float64(s.threads)
	if s.reads > 0 {
		err = (<-read).finish(ctx, &r)
	}
	patient, done := context.WithTimeout(ctx, 30*time.Second)
	defer done()
	return r, errors.Join(err, node.Shutdown(patient), <-ended)
}

// wait waits for what ends the measurement, and for RUNNING.
func (s settings) wait(ctx context.Context, ready <-chan time.Duration, progress *measure.Progress) (running time.Duration, r measure.Result, err error) {
	var stop chan struct{}
	switch s.until {
	case "done":
	case "running":
		stop = make(chan struct{})
		running = <-ready
		close(stop)
	case "stopped":
		stop = make(chan struct{})
		go func() {
			io.Copy(io.Discard, os.Stdin)
			close(stop)
		}()
	default:
		return 0, r, fmt.Errorf("until is not %q: it is done, running or stopped", s.until)
	}
	if r, err = progress.Watch(ctx, s.records, s.counted, stop); err != nil {
		return 0, r, err
	}
	if running == 0 {
		running = <-ready
	}
	return running, r, nil
}
