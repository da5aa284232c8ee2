package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// options are what the command line says.
type options struct {
	seeds, first, only uint64
	processes          int
	transcript, child  bool
	play, out          string
	shrink, stop       bool
	kinds              []kind
}

// chunk is how many seeds one child runs. Engines that have died keep their memory for as long as their process lives.
const chunk = 100

func main() {
	var o options
	flag.Uint64Var(&o.seeds, "seeds", 100, "how many seeds")
	flag.Uint64Var(&o.first, "first", 1, "the first seed")
	flag.Uint64Var(&o.only, "seed", 0, "one seed only")
	flag.IntVar(&o.processes, "processes", 2, "how many processes")
	flag.BoolVar(&o.transcript, "transcript", false, "print what happens")
	flag.StringVar(&o.play, "play", "", "play a scenario file")
	flag.BoolVar(&o.shrink, "shrink", true, "make a seed that fails smaller and write it to a file")
	flag.StringVar(&o.out, "out", filepath.Join("internal", "sim", "testdata"), "where such files go")
	flag.BoolVar(&o.stop, "stop", false, "end at the first violation")
	flag.Func("kinds", "kinds of faults, with commas between; all if it is not given", func(text string) error {
		for name := range strings.SplitSeq(text, ",") {
			k, err := parseKind(name)
			if err != nil {
				return err
			}
			o.kinds = append(o.kinds, k)
		}
		return nil
	})
	flag.BoolVar(&o.child, "child", false, "for this command's own use")
	flag.Parse()
	os.Exit(o.run(os.Stdout))
}

func (o *options) run(out io.Writer) int {
	switch {
	case o.child:
		return o.runChild(out)
	case o.play != "":
		return o.playFile(out)
	case o.only != 0:
		return o.runOne(out, o.scenario(o.only))
	}
	return o.runAll(out)
}

func (o *options) scenario(seed uint64) *scenario { return fromSeed(seed, o.kinds...) }

func (o *options) playFile(out io.Writer) int {
	text, err := os.ReadFile(o.play)
	if err != nil {
		fmt.Fprintln(out, err)
		return 2
	}
	s, err := parse(string(text))
	if err != nil {
		fmt.Fprintf(out, "%s: %v\n", o.play, err)
		return 2
	}
	return o.runOne(out, s)
}

func (o *options) runOne(out io.Writer, s *scenario) int {
	var transcript io.Writer
	buffered := bufio.NewWriter(out)
	if o.transcript {
		transcript = buffered
	}
	began := time.Now()
	t, hurt := play(s, transcript)
	buffered.Flush()
	if !o.transcript {
		t.print(out, time.Since(began))
	}
	if hurt == nil {
		return 0
	}
	fmt.Fprintf(out, "seed %d: VIOLATION: %s\n", s.Seed, hurt.text)
	if o.shrink && !o.transcript {
		o.keep(out, s, hurt)
	}
	return 1
}

// keep makes a failing scenario smaller and writes it down.
func (o *options) keep(out io.Writer, s *scenario, hurt *violation) {
	small, why := shrink(s, hurt, func(s *scenario) *violation {
		_, hurt := play(s, nil)
		return hurt
	})
	name := filepath.Join(o.out, fmt.Sprintf("seed-%d.txt", s.Seed))
	text := "# " + strings.SplitN(why.text, "\n", 2)[0] + "\n" + small.String()
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		fmt.Fprintln(out, err)
		return
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		fmt.Fprintln(out, err)
		return
	}
	fmt.Fprintf(out, "%d faults and %d records are left of it in %s\n", len(small.Faults), small.Records, name)
}

// play runs one scenario.
func play(s *scenario, transcript io.Writer) (tally, *violation) {
	w := newWorld(s, transcript)
	hurt := w.run()
	t := w.tally
	t.Seeds, t.Nodes, t.Tasks, t.Records = 1, s.Nodes, 2*s.Partitions, len(w.truth.fed)
	if t.counts() {
		t.Counted = 1
	}
	if hurt != nil {
		t.Violations = 1
	}
	return t, hurt
}

// runChild runs seeds and prints a line for each violation, and the tally at the end.
func (o *options) runChild(out io.Writer) int {
	all := newTally()
	for seed := o.first; seed < o.first+o.seeds && (all.Violations == 0 || !o.stop); seed++ {
		t, hurt := play(o.scenario(seed), nil)
		all.add(&t)
		if hurt != nil {
			fmt.Fprintf(out, "violation %d %s\n", seed, strings.SplitN(hurt.text, "\n", 2)[0])
		}
	}
	fmt.Fprintln(out, "tally", all.encode())
	return 0
}

// runAll shares the seeds among children, each of which runs them on one goroutine.
func (o *options) runAll(out io.Writer) int {
	began := time.Now()
	all, bad := newTally(), map[uint64]string{}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	work := o.parts(ctx)
	// The mutex protects the sums, which each worker adds to when a child has ended.
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range max(o.processes, 1) {
		wg.Go(func() {
			for part := range work {
				t, found, err := o.inChild(part[0], part[1])
				mu.Lock()
				if err != nil {
					fmt.Fprintf(out, "seeds %d to %d: %v\n", part[0], part[0]+part[1]-1, err)
					t.Violations++
				}
				all.add(&t)
				for seed, text := range found {
					bad[seed] = text
					fmt.Fprintf(out, "seed %d: VIOLATION: %s\n", seed, text)
				}
				if o.stop && all.Violations > 0 {
					stop()
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	all.print(out, time.Since(began))
	return o.judge(out, &all, bad)
}

// parts are the first seed and the number of seeds of each child, until ctx ends.
func (o *options) parts(ctx context.Context) <-chan [2]uint64 {
	part := max(1, min(chunk, o.seeds/uint64(max(o.processes, 1))))
	if o.stop {
		part = min(part, 10)
	}
	work := make(chan [2]uint64)
	go func() {
		defer close(work)
		for first := o.first; first < o.first+o.seeds; first += part {
			select {
			case work <- [2]uint64{first, min(part, o.first+o.seeds-first)}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return work
}

// mostKept is how many of the seeds that fail are made smaller: each takes as long as some hundred seeds.
const mostKept = 5

// judge: no violation, and no kind of fault that never fired where there were enough seeds for each.
func (o *options) judge(out io.Writer, all *tally, bad map[uint64]string) (code int) {
	if silent := all.silent(o.kinds); len(silent) > 0 && all.Seeds >= 50 {
		fmt.Fprintf(out, "never fired: %s\n", strings.Join(silent, ", "))
		code = 1
	}
	if all.Violations > 0 {
		code = 1
	}
	if !o.shrink {
		return code
	}
	for _, seed := range slices.Sorted(maps.Keys(bad))[:min(len(bad), mostKept)] {
		s := o.scenario(seed)
		if _, hurt := play(s, nil); hurt != nil {
			o.keep(out, s, hurt)
		}
	}
	return code
}

// inChild runs seeds in a process of its own.
func (o *options) inChild(first, seeds uint64) (t tally, bad map[uint64]string, err error) {
	t, bad = newTally(), map[uint64]string{}
	self, err := os.Executable()
	if err != nil {
		return t, bad, err
	}
	cmd := exec.Command(self, "-child", "-first", strconv.FormatUint(first, 10), "-seeds", strconv.FormatUint(seeds, 10), "-stop="+strconv.FormatBool(o.stop))
	if len(o.kinds) > 0 {
		cmd.Args = append(cmd.Args, "-kinds", join(o.kinds))
	}
	// One goroutine does the work; a second processor is for the collector and for Pebble's own.
	cmd.Env = append(os.Environ(), "GOGC=400")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	done := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "violation "); ok {
			number, why, _ := strings.Cut(rest, " ")
			seed, _ := strconv.ParseUint(number, 10, 64)
			bad[seed] = why
		}
		if rest, ok := strings.CutPrefix(line, "tally "); ok && err == nil {
			t, err = decodeTally(rest)
			done = true
		}
	}
	if err == nil && !done {
		err = fmt.Errorf("the child has told nothing")
	}
	return t, bad, err
}
