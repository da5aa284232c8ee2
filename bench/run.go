package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/raw"
	"github.com/millrace-io/millrace/bench/work"
	"github.com/millrace-io/millrace/internal/realkafka"
)

// bench is one run of the whole.
type bench struct {
	settings
	dir    string
	broker string
	client *raw.Client
	report report
}

func run(ctx context.Context, s settings) (err error) {
	b := &bench{settings: s, report: newReport(s)}
	jobs, systems, err := b.choose()
	if err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "millrace-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	for _, s := range systems {
		if err := s.build(ctx, b); err != nil {
			return fmt.Errorf("%s cannot be built: %w", s.name, err)
		}
	}
	fmt.Println("starting a broker")
	cluster, err := realkafka.Start(ctx, 1, realkafka.HeapMiB(768))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Wipe()) }()
	b.broker = cluster.Brokers()[0]
	if b.client, err = raw.Dial(b.broker); err != nil {
		return err
	}
	defer b.client.Close()
	return b.all(ctx, jobs, systems)
}

func (b *bench) choose() (jobs []work.Job, systems []system, err error) {
	for _, name := range b.jobs {
		j, err := work.Find(name)
		if err != nil {
			return nil, nil, err
		}
		guarantees := b.guarantees
		if j.Reads {
			guarantees = guarantees[len(guarantees)-1:]
		}
		for _, g := range guarantees {
			if j, err = j.Under(g); err != nil {
				return nil, nil, err
			}
			jobs = append(jobs, j)
		}
	}
	b.report.jobs = jobs
	for _, name := range b.systems {
		s, err := findSystem(name)
		if err != nil {
			return nil, nil, err
		}
		systems = append(systems, s)
	}
	return jobs, systems, nil
}

// all interleaves: within a repetition every system runs once per job, so that a slow minute of the machine or of the
// broker falls on all of them.
func (b *bench) all(ctx context.Context, jobs []work.Job, systems []system) error {
	if err := b.fill(jobs); err != nil {
		return err
	}
	for repetition := range b.repetitions {
		for _, job := range jobs {
			for _, s := range systems {
				if !s.does(job) || (job.Reads && repetition > 0) {
					continue
				}
				if err := b.cell(ctx, job, s, repetition); err != nil {
					return fmt.Errorf("%s on %s: %w", job.Key(), s.name, err)
				}
			}
		}
	}
	b.report.print(os.Stdout)
	return b.report.save(b.results)
}

// size is the number of input records of a job.
func (b *bench) size(j work.Job) int {
	switch j.Input {
	case "lines":
		return b.lines
	case "twice":
		return 2 * b.keys
	default:
		return b.records
	}
}

func (b *bench) fill(jobs []work.Job) error {
	inputs := map[string]func(int, func(work.Message) error) error{"keyed": work.Keyed, "lines": work.Lines, "twice": work.Twice}
	filled := map[string]bool{}
	for _, j := range jobs {
		if filled[j.Input] {
			continue
		}
		filled[j.Input] = true
		fmt.Printf("filling %s with %d records\n", j.Input, b.size(j))
		if err := b.client.Fill(j.Input, b.size(j), inputs[j.Input]); err != nil {
			return fmt.Errorf("topic %s: %w", j.Input, err)
		}
	}
	return nil
}

// cell is one run of one job on one system: fresh application, fresh topics, fresh state; all gone afterwards.
func (b *bench) cell(ctx context.Context, job work.Job, s system, repetition int) (err error) {
	app := fmt.Sprintf("bench-%s-%s-%s-%d", job.Name, strings.ReplaceAll(job.Guarantee, "_", "-"), s.name, repetition+1)
	a := assignment{job: job, app: app, out: app + "-out", records: b.size(job), state: filepath.Join(b.dir, "state", app)}
	if err := b.client.Create(a.out); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, b.client.DeletePrefix(app), os.RemoveAll(a.state))
	}()
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	began := time.Now()
	r, err := b.child(ctx, s.command(b, a))
	if err != nil {
		return err
	}
	found, err := check(b.client, a)
	if err != nil {
		return err
	}
	row := b.report.add(job, s.name, r, found)
	fmt.Printf("%-20s %-13s %9.0f %s/s %6.2f CPU-s/M %5d MiB  %d outputs, all right  (%.0f s)\n",
		job.Key(), s.name, row.Rate, job.Unit, row.CPUPerMillion, row.PeakMiB, row.Outputs, time.Since(began).Seconds())
	if job.Reads {
		row.printReads(os.Stdout)
	}
	return nil
}
