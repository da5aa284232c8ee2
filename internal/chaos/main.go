package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-io/millrace"
)

// settings are the choices of a run.
type settings struct {
	cycles    int
	seed      uint64
	file      string
	guarantee millrace.Guarantee
	rate      int
	threads   int
	keep      bool
	// strict checks for exactly_once whatever the nodes promise.
	strict bool
	// storm lets faults follow each other before the nodes have recovered.
	storm bool
	// faults are the kinds to choose from; none means all of them.
	faults []kind
	// rolling restarts node after node instead, and asks meanwhile. down is how long a process is away between its end and
	// the start of the next; beyond is how much longer no partition's questions may go without a value.
	rolling      bool
	brokers      int
	down, beyond time.Duration
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
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	os.Exit(chaos(ctx, s))
}

func parse(args []string) (s settings, err error) {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.IntVar(&s.cycles, "cycles", 5, "number of faults")
	flags.Uint64Var(&s.seed, "seed", 0, "what decides the faults; 0 draws one")
	flags.StringVar(&s.file, "file", "", "JSON file to add this run's totals to")
	guaranteeFlag(flags, &s.guarantee)
	flags.IntVar(&s.rate, "rate", 240, "inputs per second")
	flags.IntVar(&s.threads, "threads", 2, "stream threads per node")
	flags.BoolVar(&s.keep, "keep", false, "keep logs and state directories even if all is well")
	flags.BoolVar(&s.strict, "strict", false, "check for exactly_once even of nodes that run at_least_once: shows that the check can fail")
	flags.BoolVar(&s.storm, "storm", false, "wait for the nodes to recover after every third fault only")
	flags.BoolVar(&s.rolling, "rolling", false, "restart the nodes one after the other, -cycles times in all, while their stores are asked")
	flags.IntVar(&s.brokers, "brokers", members, "rolling: how many brokers to start; without it, always three")
	flags.DurationVar(&s.down, "down", time.Second, "rolling: how long a process is away")
	flags.DurationVar(&s.beyond, "beyond", time.Second, "rolling: how much longer than a process is away a partition may be refused")
	flags.Func("faults", "what to try, with commas between; all by default: "+strings.Join(kindNames[:], ","), func(text string) (err error) {
		s.faults, err = parseKinds(text)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("%q is no flag", flags.Arg(0))
	case s.cycles < 1 || s.rate < 1 || s.threads < 1:
		return s, errors.New("-cycles, -rate and -threads must be above 0")
	case s.rolling && (s.down < 0 || s.beyond < 0):
		return s, errors.New("-down and -beyond must not be below 0")
	case s.brokers < 1 || s.brokers != members && !s.rolling:
		return s, errors.New("-brokers must be above 0, and is for -rolling only")
	case s.rolling && (s.storm || len(s.faults) > 0):
		return s, errors.New("-rolling has no other faults: leave -storm and -faults out")
	}
	if s.seed == 0 {
		s.seed = 1 + rand.Uint64N(1_000_000)
	}
	return s, nil
}

// guaranteeFlag defines the flag; the guarantee stays as it is if it is not given.
func guaranteeFlag(flags *flag.FlagSet, g *millrace.Guarantee) {
	flags.Func("guarantee", "exactly_once (the default) or at_least_once", func(text string) (err error) {
		*g, err = millrace.ParseGuarantee(text)
		return err
	})
}
