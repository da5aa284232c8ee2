// Ceiling runs one job of the benchmark with the raw client and prints the measurement as JSON. bench starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/raw"
	"github.com/millrace-io/millrace/bench/work"
)

func main() {
	broker := flag.String("broker", "", "the broker's host:port")
	job := flag.String("job", "", "count, words or pass")
	app := flag.String("app", "", "prefix of the topics of its own")
	out := flag.String("out", "", "output topic, which exists")
	records := flag.Int("records", 0, "number of input records")
	flag.Parse()
	if err := run(*broker, *job, *app, *out, *records); err != nil {
		fmt.Fprintln(os.Stderr, "ceiling:", err)
		os.Exit(1)
	}
}

func run(broker, name, app, out string, records int) error {
	job, err := work.Find(name)
	if err != nil {
		return err
	}
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
		err := c.Run(ctx, job, app, out, &progress)
		if err != nil {
			cancel(err)
		}
		done <- err
	}()
	r, err := progress.Watch(ctx, int64(records), int64(job.Counted(records)))
	if err != nil {
		return context.Cause(ctx)
	}
	if err := <-done; err != nil {
		return err
	}
	return r.Write(os.Stdout)
}
