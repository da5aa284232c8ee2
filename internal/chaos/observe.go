package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace-io/millrace/internal/chaos/oracle"
	"github.com/millrace-io/millrace/internal/chaos/wire"
	"github.com/millrace-io/millrace/record"
)

// observer reads the outputs while they are made, through everything that happens to the brokers, and remembers what it
// was given.
type observer struct {
	brokers []string
	// last is closed when nobody writes any more; readers then end at the end.
	last   chan struct{}
	failed chan error
	done   sync.WaitGroup
	// seen has a slot for each output partition; its goroutine owns it until done.
	seen map[record.TopicPartition]*[]oracle.Output
}

func newObserver(brokers []string) *observer {
	o := &observer{brokers: brokers, last: make(chan struct{}), failed: make(chan error, len(jobs)*partitions), seen: map[record.TopicPartition]*[]oracle.Output{}}
	for _, j := range jobs {
		for p := range int32(partitions) {
			o.seen[record.TopicPartition{Topic: j.output, Partition: p}] = new([]oracle.Output)
		}
	}
	return o
}

func (o *observer) start(ctx context.Context) {
	for _, j := range jobs {
		for p := range int32(partitions) {
			tp := record.TopicPartition{Topic: j.output, Partition: p}
			seen := o.seen[tp]
			o.done.Go(func() {
				if err := o.follow(ctx, j, tp, seen); err != nil {
					o.failed <- fmt.Errorf("the observer of %s: %w", tp, err)
				}
			})
		}
	}
}

func (o *observer) follow(ctx context.Context, j job, tp record.TopicPartition, seen *[]oracle.Output) error {
	client := wire.New(o.brokers)
	defer client.Close()
	reader, err := client.NewReader(ctx, tp)
	if err != nil {
		return err
	}
	take := func(r record.Raw) error {
		out, err := j.readOutput(tp.Partition, &r)
		*seen = append(*seen, out)
		return err
	}
	for {
		select {
		case <-o.last:
			return reader.All(ctx, take)
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
		if err := reader.Poll(ctx, take); err != nil {
			return err
		}
	}
}

// finish waits until all readers are at the end.
func (o *observer) finish() error {
	close(o.last)
	o.done.Wait()
	select {
	case err := <-o.failed:
		return err
	default:
		return nil
	}
}

func (o *observer) outputs(j job) (all []oracle.Output) {
	for p := range int32(partitions) {
		all = append(all, *o.seen[record.TopicPartition{Topic: j.output, Partition: p}]...)
	}
	return all
}
