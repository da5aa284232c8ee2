package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are the choices of a run.
type settings struct {
	file   string
	rounds int
	lasts  time.Duration
	parts  []string
	bin    string
	sizes
}

// sizes are how much of each part is in a round.
type sizes struct {
	seeds, cycles int
	storm         time.Duration
	least         int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	os.Exit(soak(ctx, s, os.Stdout))
}

func parse(args []string) (s settings, err error) {
	var all []string
	for _, p := range parts {
		all = append(all, p.name)
	}
	s.parts = all
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.StringVar(&s.file, "file", "soak.json", "where the totals are")
	flags.IntVar(&s.rounds, "rounds", 0, "how many rounds; 0 is until it is stopped")
	flags.DurationVar(&s.lasts, "for", 0, "after how long no further step begins; 0 is never")
	flags.StringVar(&s.bin, "bin", "", "a directory with the commands; they are built if it is not given")
	flags.IntVar(&s.seeds, "seeds", 5000, "seeds of a round")
	flags.IntVar(&s.cycles, "cycles", 20, "chaos cycles of a round")
	flags.DurationVar(&s.storm, "storm", 3*time.Minute, "how long the storm of a round lasts")
	flags.IntVar(&s.least, "least", 1000, "questions per second that a storm must reach")
	flags.Func("parts", "what a round is made of, with commas between: "+strings.Join(all, ","), func(text string) error {
		s.parts = strings.Split(text, ",")
		for _, name := range s.parts {
			if !slices.Contains(all, name) {
				return fmt.Errorf("%q is not one of %s", name, strings.Join(all, ","))
			}
		}
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("%q is no flag", flags.Arg(0))
	}
	if s.seeds < 1 || s.cycles < 1 || s.storm < time.Second || s.file == "" {
		return s, errors.New("-seeds and -cycles must be above 0, -storm a second at least, and -file named")
	}
	return s, nil
}

// soak runs rounds until it is to end, and gives the exit code.
func soak(ctx context.Context, s settings, out io.Writer) int {
	b, err := open(s.file)
	if err == nil {
		err = rounds(ctx, s, b, out)
	}
	if err != nil {
		fmt.Fprintln(out, "soak:", err)
	}
	if b == nil {
		return 2
	}
	b.print(out)
	if err != nil || len(b.Violations) > 0 {
		return 1
	}
	return 0
}

// rounds carries out step after step. The book is written after each.
func rounds(ctx context.Context, s settings, b *book, out io.Writer) error {
	bin, done, err := s.commands(ctx)
	if err != nil {
		return err
	}
	defer done()
	began, before := time.Now(), b.Rounds
	for ctx.Err() == nil && (s.rounds == 0 || b.Rounds-before < s.rounds) && (s.lasts == 0 || time.Since(began) < s.lasts) {
		p := s.next(b)
		fmt.Fprintf(out, "round %d: %s from seed %d\n", b.Rounds+1, p.name, b.seed(p.name))
		found, err := p.run(ctx, bin, s, b.seed(p.name))
		if err != nil {
			return err
		}
		if found == nil { // stopped: it counts for nothing
			break
		}
		if b.add(p, found); s.last(p) {
			b.Rounds++
		}
		if err := b.write(s.file); err != nil {
			return err
		}
	}
	return nil
}

// next is the part whose turn it is: the first that has run less often than the one before it.
func (s settings) next(b *book) *part {
	turn := 0
	for i := 1; i < len(s.parts); i++ {
		if b.runs(s.parts[i]) < b.runs(s.parts[i-1]) {
			turn = i
			break
		}
	}
	return partOf(s.parts[turn])
}

// last says that a round ends with a part.
func (s settings) last(p *part) bool { return s.parts[len(s.parts)-1] == p.name }

// commands is where the commands are. done removes them if they were built for this run.
func (s settings) commands(ctx context.Context) (dir string, done func(), err error) {
	if s.bin != "" {
		return s.bin, func() {}, nil
	}
	if dir, err = os.MkdirTemp("", "millrace-soak-"); err != nil {
		return "", nil, err
	}
	done = func() { os.RemoveAll(dir) } // it is in the directory for temporary files
	for _, name := range s.parts {
		build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, name), "./internal/"+name)
		if text, err := build.CombinedOutput(); err != nil {
			done()
			return "", nil, fmt.Errorf("%s cannot be built: %w: %s", name, err, text)
		}
	}
	return dir, done, nil
}
