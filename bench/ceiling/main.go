// Ceiling runs one job of the benchmark with the raw client and prints the measurement as JSON. bench starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/raw"
)

func main() {
	var job raw.Ceiling
	broker := flag.String("broker", "", "the broker's host:port")
	flag.StringVar(&job.Does, "does", "", "pass, map, count, words or windows")
	flag.StringVar(&job.App, "app", "", "prefix of the topics of its own")
	flag.StringVar(&job.In, "in", "", "input topic")
	flag.StringVar(&job.Out, "out", "", "output topic, which exists")
	flag.BoolVar(&job.ExactlyOnce, "exactly-once", false, "write in transactions")
	flag.BoolVar(&job.EveryUpdate, "every-update", false, "emit every update of a count")
	flag.StringVar(&job.Compression, "compression", "", "codec of what it writes")
	records := flag.Int64("records", 0, "number of input records")
	counted := flag.Int64("counted", 0, "number of records of the second stage")
	flag.Parse()
	if err := run(*broker, job, *records, *counted); err != nil {
		fmt.Fprintln(os.Stderr, "ceiling:", err)
		os.Exit(1)
	}
}

func run(broker string, job raw.Ceiling, records, counted int64) error {
	c, err := raw.Dial(broker)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var progress measure.Progress
	done := make(chan error, 1)
	go func() {
		err := c.Run(ctx, job, &progress)
		if err != nil {
			cancel(err)
		}
		done <- err
	}()
	r, err := progress.Watch(ctx, records, counted, nil)
	if err != nil {
		return context.Cause(ctx)
	}
	if err := <-done; err != nil {
		return err
	}
	return r.Write(os.Stdout)
}
