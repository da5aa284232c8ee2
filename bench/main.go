package main

import (
	"context"
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
	records, lines, keys, repetitions int
	jobs, systems, guarantees         []string
	profile, results                  string
	patience                          time.Duration
}

func parse(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := f.Bool("quick", false, "small inputs, once: does the bench work?")
	f.IntVar(&s.records, "records", 3_000_000, "records of the keyed count and the pass-through")
	f.IntVar(&s.lines, "lines", 500_000, "lines of the word count, ten words each")
	f.IntVar(&s.keys, "keys", 2_000_000, "keys of the point reads, counted twice each")
	f.IntVar(&s.repetitions, "repetitions", 3, "runs of each job on each system")
	jobs := f.String("jobs", "count,words,pass,gets", "jobs, in order; gets runs once, at the end, under the last guarantee")
	names := f.String("systems", "raw,kafka-streams,millrace", "systems, in order")
	guarantees := f.String("guarantees", "at_least_once,exactly_once", "guarantees, in order")
	f.StringVar(&s.profile, "profile", "", "directory for Millrace's CPU and heap profiles (they cost a little)")
	f.StringVar(&s.results, "results", "bench/results/latest.json", "file for the results, empty for none")
	f.DurationVar(&s.patience, "patience", 5*time.Minute, "longest that one run may take")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if *quick {
		s.records, s.lines, s.keys, s.repetitions, s.results = 100_000, 10_000, 50_000, 1, ""
	}
	if s.records < 1 || s.lines < 1 || s.keys < 1 || s.repetitions < 1 {
		return s, fmt.Errorf("records, lines, keys and repetitions must be at least 1")
	}
	s.jobs, s.systems = strings.Split(*jobs, ","), strings.Split(*names, ",")
	s.guarantees = strings.Split(*guarantees, ",")
	return s, nil
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
