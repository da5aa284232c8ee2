package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/millrace-io/millrace/bench/raw"
	"github.com/millrace-io/millrace/bench/work"
	"github.com/millrace-io/millrace/internal/realkafka"
)

// bench is one run of the whole.
type bench struct {
	settings
	dir     string
	broker  string
	client  *raw.Client
	report  *report
	answers map[string]*work.Answer
	// filled are the input topics that were written, with the error if that failed.
	filled map[string]error
}

func run(ctx context.Context, s settings) (err error) {
	b := &bench{settings: s, answers: map[string]*work.Answer{}, filled: map[string]error{}}
	cells, err := b.choose()
	if err != nil {
		return err
	}
	if b.report, err = openReport(ctx, s); err != nil {
		return err
	}
	if cells = b.report.missing(cells); len(cells) == 0 {
		fmt.Println("every cell is in the results; -redo runs one again")
		return b.report.finish(os.Stdout, s)
	}
	if b.dir, err = os.MkdirTemp("", "millrace-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	for _, program := range programs(cells) {
		if err := builders[program](ctx, b); err != nil {
			return fmt.Errorf("%s cannot be built: %w", program, err)
		}
	}
	return b.onBroker(ctx, cells)
}

// onBroker starts a broker that keeps records whatever their timestamps are, and forgets deleted topics at once.
func (b *bench) onBroker(ctx context.Context, cells []cell) (err error) {
	fmt.Println("starting a broker")
	cluster, err := realkafka.Start(ctx, 1, realkafka.HeapMiB(768), realkafka.Setting("log.retention.ms", "-1"),
		realkafka.Setting("log.retention.check.interval.ms", "86400000"), realkafka.Setting("log.segment.delete.delay.ms", "1000"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Wipe()) }()
	b.broker = cluster.Brokers()[0]
	if b.client, err = raw.Dial(b.broker); err != nil {
		return err
	}
	defer b.client.Close()
	return b.all(ctx, cells)
}

// choose returns the cells that the flags ask for, at least one, in the order in which they run. It interleaves: within a
// repetition every system runs once per job, so that a slow minute of the machine or of the broker falls on all of them; and
// another one begins in each repetition, because the first finds the broker as the fill has left it.
func (b *bench) choose() (cells []cell, err error) {
	jobs, err := b.variants()
	if err != nil {
		return nil, err
	}
	var asked []system
	for _, name := range b.systems {
		s, err := findSystem(name)
		if err != nil {
			return nil, err
		}
		asked = append(asked, s)
	}
	for repetition := range b.repetitions {
		for _, j := range jobs {
			for i := range asked {
				s := asked[(i+repetition)%len(asked)]
				if s.does(j) && (repetition == 0 || j.Course != work.Reads) {
					cells = append(cells, cell{j, s, repetition + 1})
				}
			}
		}
	}
	if len(cells) == 0 {
		return nil, errors.New("none of -systems does any of -jobs")
	}
	return cells, nil
}

// programs are those that the cells run, each once.
func programs(cells []cell) (needed []string) {
	for _, c := range cells {
		if !slices.Contains(needed, c.system.program) {
			needed = append(needed, c.system.program)
		}
	}
	return needed
}

func (b *bench) variants() (jobs []work.Job, err error) {
	for _, name := range b.jobs {
		found, err := work.Find(name)
		if err != nil {
			return nil, err
		}
		for _, j := range found {
			if b.quick {
				j = j.Smaller()
			}
			variants, err := j.Variants(b.guarantees, b.caching)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, variants...)
		}
	}
	return jobs, nil
}

func (b *bench) all(ctx context.Context, cells []cell) error {
	err := inTurn(ctx, cells, func(i int, c cell) error {
		if err := b.fill(c.job); err != nil {
			return err
		}
		fmt.Printf("%d of %d  ", i+1, len(cells))
		return b.run(ctx, c)
	})
	return errors.Join(err, b.report.finish(os.Stdout, b.settings))
}

// fill writes a job's input, once. An input that failed is half there, so it fails for every cell that needs it.
func (b *bench) fill(j work.Job) error {
	topic := j.Input.Topic
	if _, tried := b.filled[topic]; !tried && j.Course != work.Shares {
		fmt.Printf("filling %s with %d records\n", topic, b.size(j))
		if b.filled[topic] = b.client.Fill(j.Input, b.size(j)); b.filled[topic] != nil {
			b.filled[topic] = fmt.Errorf("topic %s: %w", topic, b.filled[topic])
		}
	}
	return b.filled[topic]
}

// inARow is how many cells may fail one after the other: then it is not the cells.
const inARow = 3

// inTurn does cells. One that fails is reported at once and at the end, and the others are done all the same: in a run of
// hours, one wrong output should not cost the rest.
func inTurn(ctx context.Context, cells []cell, do func(i int, c cell) error) (all error) {
	row := 0
	for i, c := range cells {
		err := do(i, c)
		if err == nil {
			row = 0
			continue
		}
		err = fmt.Errorf("%s: %w", c.name(), err)
		fmt.Println(err)
		all = errors.Join(all, err)
		if row++; row == inARow || ctx.Err() != nil {
			return all
		}
	}
	return all
}

// size is the number of input records of a job.
func (b *bench) size(j work.Job) int {
	if j.Records > 0 {
		return j.Records
	}
	return b.sizes[j.Size]
}
