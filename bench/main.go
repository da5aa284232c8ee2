package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	// sizes are the numbers of input records, by the name that work.Job.Size has for them.
	sizes                               map[string]int
	repetitions, procsPerCore, cacheMiB int
	jobs, systems, guarantees, caching  []string
	profile, results, shared            string
	patience                            time.Duration
	quick, resume                       bool
	redo                                []string
}

const allSystems = "raw,kafka-streams,kafka-streams-leave,millrace,millrace-stay"

func parse(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.BoolVar(&s.quick, "quick", false, "small inputs, once: does the bench work?")
	records := f.Int("records", 3_000_000, "records of the keyed count, the pass-through, windows and the like")
	lines := f.Int("lines", 500_000, "lines of the word count, ten words each")
	keys := f.Int("keys", 2_000_000, "unique keys; the point reads are of keys that were counted twice each")
	large := f.Int("large", 60_000, "records with values of 10 KiB")
	many := f.Int("many", 400_000, "records over 200 partitions")
	f.IntVar(&s.repetitions, "repetitions", 3, "runs of each job on each system")
	f.IntVar(&s.procsPerCore, "procs-per-core", 4, "GOMAXPROCS of Millrace for each core, in jobs that are read from (docs/queries.md says why)")
	f.IntVar(&s.cacheMiB, "store-cache", 0, "MiB of Millrace's store cache; 0 for its default")
	jobs := f.String("jobs", "count,words,pass", "jobs, in order: names, matrix or scale")
	names := f.String("systems", allSystems, "systems, in order; those that cannot do a job are left out")
	guarantees := f.String("guarantees", "exactly_once", "at_least_once, exactly_once or both, in order")
	caching := f.String("caching", "on", "on: once per key and commit, as Kafka Streams' default; off: every update is emitted; or both")
	f.StringVar(&s.profile, "profile", "", "directory for Millrace's CPU and heap profiles (they cost a little)")
	f.StringVar(&s.results, "results", "bench/results/latest.json", "file for the results, and beside it .md and .png; empty for none")
	f.BoolVar(&s.resume, "resume", false, "keep what is in the results, and run only the cells that are not")
	redo := f.String("redo", "", "cells to run again, by the beginnings of their names, such as count/exactly_once; means -resume")
	f.StringVar(&s.shared, "shared", "", "directory with src/Peer.java of another Kafka Streams program, to hold ours against")
	f.DurationVar(&s.patience, "patience", 10*time.Minute, "longest that one run may take")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if s.quick {
		*records, *lines, *keys, *large, *many, s.repetitions = 100_000, 10_000, 20_000, 2_000, 20_000, 1
		if !set(f, "results") {
			s.results = ""
		}
	}
	s.sizes = map[string]int{"records": *records, "lines": *lines, "keys": *keys, "twice": 2 * *keys, "large": *large, "many": *many}
	s.jobs, s.systems, s.guarantees, s.caching = list(*jobs), list(*names), list(*guarantees), list(*caching)
	s.redo = list(*redo)
	s.resume = s.resume || len(s.redo) > 0
	if s.shared != "" {
		s.systems = append(s.systems, shared)
	}
	return s, s.validate()
}

func (s settings) validate() error {
	for name, n := range s.sizes {
		if n < 1 {
			return fmt.Errorf("%s must be at least 1", name)
		}
	}
	if s.repetitions < 1 || s.procsPerCore < 1 || s.cacheMiB < 0 {
		return errors.New("repetitions and procs-per-core must be at least 1, store-cache at least 0")
	}
	if len(s.jobs) == 0 || len(s.systems) == 0 || len(s.guarantees) == 0 || len(s.caching) == 0 {
		return errors.New("jobs, systems, guarantees and caching must each name one at least")
	}
	return nil
}

func set(f *flag.FlagSet, name string) (found bool) {
	f.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func main() {
	s, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
