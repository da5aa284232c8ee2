// Compare runs the micro-benchmarks of two trees in turn and has benchstat say what differs:
//
//	go run ./bench/compare -ref v0.1.0
//
// The new tree is the working directory, with what is not committed, or the commit of -with. A run of each follows a run of
// the other, so that a slow minute of the machine falls on both; the order is swapped from round to round.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// packages are where the benchmarks are: decoding and encoding, the chain, the overlay and a commit's batch, the store, a
// question.
var packages = []string{"kafka", "topology", "task", "store", "actors"}

// benchmarks are the names of those that stand for a step of a record's way, or a query's.
const benchmarks = "^Benchmark(FetchDecode|ProduceEncode|Chain|Process|Overlay|CommitBatch|StoreGet|StorePut|Ask)$"

type settings struct {
	ref, with, bench, benchtime, results string
	count                                int
}

func main() {
	var s settings
	flag.StringVar(&s.ref, "ref", "", "the old commit")
	flag.StringVar(&s.with, "with", "", "the new commit; the working directory if it is empty")
	flag.StringVar(&s.bench, "bench", benchmarks, "which benchmarks, as go test has it")
	flag.StringVar(&s.benchtime, "benchtime", "300ms", "how long each runs, each time")
	flag.StringVar(&s.results, "results", "", "file for the table of benchstat; empty for none")
	flag.IntVar(&s.count, "count", 8, "runs of each benchmark in each tree; benchstat wants six at least")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := compare(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// tree is one of the two: where its files are, and the test binaries that were built from them, by package.
type tree struct {
	name, root string
	binaries   map[string]string
	output     strings.Builder
}

func compare(ctx context.Context, s settings) (err error) {
	if s.ref == "" || s.count < 1 {
		return errors.New("name the old commit: -ref COMMIT (make bench-compare REF=COMMIT), and a count of 1 or more")
	}
	dir, err := os.MkdirTemp("", "millrace-compare-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	old, done, err := checkout(ctx, dir, "old", s.ref)
	if err != nil {
		return err
	}
	defer done()
	young := &tree{name: "new", root: "."}
	if s.with != "" {
		var done func()
		if young, done, err = checkout(ctx, dir, "new", s.with); err != nil {
			return err
		}
		defer done()
	}
	trees := []*tree{old, young}
	for _, t := range trees {
		if err := t.build(ctx, dir); err != nil {
			return err
		}
	}
	if err := rounds(ctx, trees, s); err != nil {
		return err
	}
	return benchstat(ctx, dir, trees, s.results)
}

// checkout makes a worktree of a commit; done takes it away again.
func checkout(ctx context.Context, dir, name, commit string) (t *tree, done func(), err error) {
	root := filepath.Join(dir, name)
	if _, err := output(ctx, ".", "git", "worktree", "add", "--detach", root, commit); err != nil {
		return nil, nil, fmt.Errorf("no worktree of %s: %w", commit, err)
	}
	return &tree{name: name, root: root}, func() {
		exec.Command("git", "worktree", "remove", "--force", root).Run() // what is left of it goes with dir
		exec.Command("git", "worktree", "prune").Run()
	}, nil
}

// build compiles the packages' tests. A package that the tree does not have is left out.
func (t *tree) build(ctx context.Context, dir string) error {
	t.binaries = map[string]string{}
	for _, name := range packages {
		at, binary := filepath.Join(t.root, name), filepath.Join(dir, t.name+"-"+name+".test")
		if _, err := os.Stat(at); err != nil {
			continue
		}
		if _, err := output(ctx, at, "go", "test", "-c", "-o", binary, "."); err != nil {
			return err
		}
		t.binaries[at] = binary
	}
	return nil
}

func rounds(ctx context.Context, trees []*tree, s settings) error {
	for round := range s.count {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, s.count)
		for i := range trees {
			if err := trees[(i+round)%len(trees)].run(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// run runs every benchmark once.
func (t *tree) run(ctx context.Context, s settings) error {
	for at, binary := range t.binaries {
		out, err := output(ctx, at, binary, "-test.run", "^$", "-test.bench", s.bench, "-test.benchmem", "-test.benchtime", s.benchtime)
		if err != nil {
			return err
		}
		t.output.WriteString(out)
	}
	return nil
}

func benchstat(ctx context.Context, dir string, trees []*tree, results string) error {
	args := []string{"tool", "benchstat"}
	for _, t := range trees {
		if !strings.Contains(t.output.String(), "Benchmark") {
			return fmt.Errorf("no benchmark has run in the %s tree", t.name)
		}
		path := filepath.Join(dir, t.name+".txt")
		if err := os.WriteFile(path, []byte(t.output.String()), 0o644); err != nil {
			return err
		}
		args = append(args, t.name+"="+path)
	}
	table, err := output(ctx, ".", "go", args...)
	if err != nil {
		return err
	}
	fmt.Print(table)
	if results == "" {
		return nil
	}
	return os.WriteFile(results, []byte(table), 0o644)
}

// output runs a command in a directory and returns what it printed; its error has what it complained of.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, complaints.String())
	}
	return string(out), nil
}
