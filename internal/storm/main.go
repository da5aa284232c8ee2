package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// settings are the choices of a run.
type settings struct {
	duration time.Duration
	every    time.Duration
	clients  int
	rate     int
	least    int
	deadline time.Duration
	brokers  int
	seed     uint64
	keep     bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "node" {
		os.Exit(nodeMain(os.Args[2:]))
	}
	s, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "storm:", err)
		os.Exit(2)
	}
	os.Exit(storm(ctx, s))
}

func parse(args []string) (s settings, err error) {
	flags := flag.NewFlagSet("storm", flag.ContinueOnError)
	flags.DurationVar(&s.duration, "duration", 20*time.Second, "how long questions are asked")
	flags.DurationVar(&s.every, "every", 20*time.Second, "time between forced rebalances; a quarter of the duration at most")
	flags.IntVar(&s.clients, "clients", 32, "how many ask at the same time")
	flags.IntVar(&s.rate, "rate", 500, "inputs per second")
	flags.IntVar(&s.least, "least", 2000, "questions per second that must be reached")
	flags.DurationVar(&s.deadline, "deadline", time.Second, "how long an asker waits")
	flags.IntVar(&s.brokers, "brokers", 1, "how many brokers to start")
	flags.Uint64Var(&s.seed, "seed", 1, "what decides keys, and which node a fault hits")
	flags.BoolVar(&s.keep, "keep", false, "keep the nodes' logs even if all is well")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("%q is no flag", flags.Arg(0))
	case s.duration < time.Second || s.every < time.Second || s.deadline <= 0:
		return s, errors.New("-duration and -every must be a second at least, -deadline above 0")
	case s.clients < 1 || s.rate < 1 || s.brokers < 1:
		return s, errors.New("-clients, -rate and -brokers must be above 0")
	}
	s.every = min(s.every, s.duration/4)
	return s, nil
}
