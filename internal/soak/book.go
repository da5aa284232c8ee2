package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"
)

// book is what is known of all runs on one file.
type book struct {
	Rounds int
	// Parts are the sums of what each part has told, with "runs" and "seconds".
	Parts map[string]map[string]int64
	// Seeds are where each part goes on.
	Seeds      map[string]uint64
	Violations []violation
}

// violation is a run that was wrong, and how to repeat it.
type violation struct {
	Part, Command, Why, Said string
	At                       time.Time
}

// open reads a book; one that is not there is empty.
func open(path string) (*book, error) {
	b := &book{}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		if err := json.Unmarshal(text, b); err != nil {
			return nil, fmt.Errorf("%s does not hold totals: name another -file: %w", path, err)
		}
	}
	if b.Parts == nil {
		b.Parts = map[string]map[string]int64{}
	}
	if b.Seeds == nil {
		b.Seeds = map[string]uint64{}
	}
	return b, nil
}

// write replaces the file as a whole: whoever is stopped here leaves the former one.
func (b *book) write(path string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (b *book) runs(part string) int64 { return b.Parts[part]["runs"] }

// seed is where a part goes on. What make sim and .ci/run try lies below.
func (b *book) seed(part string) uint64 { return max(b.Seeds[part], 1_000_000) }

func (b *book) add(p *part, o *outcome) {
	sums := b.Parts[p.name]
	if sums == nil {
		sums = map[string]int64{}
		b.Parts[p.name] = sums
	}
	for name, n := range o.figures {
		sums[name] += n
	}
	sums["runs"]++
	sums["seconds"] += int64(o.took.Seconds())
	b.Seeds[p.name] = b.seed(p.name) + o.takes
	if o.wrong != nil {
		o.wrong.At = time.Now().UTC().Truncate(time.Second)
		b.Violations = append(b.Violations, *o.wrong)
	}
}

// print tells the totals.
func (b *book) print(out io.Writer) {
	fmt.Fprintf(out, "rounds=%d violations=%d\n", b.Rounds, len(b.Violations))
	for _, p := range slices.Sorted(maps.Keys(b.Parts)) {
		fmt.Fprint(out, p, ":")
		for _, name := range slices.Sorted(maps.Keys(b.Parts[p])) {
			fmt.Fprintf(out, " %s=%d", name, b.Parts[p][name])
		}
		fmt.Fprintln(out)
	}
	for _, v := range b.Violations {
		fmt.Fprintf(out, "VIOLATION: %s: %s (%s)\n", v.Why, v.Command, v.At.Format(time.DateTime))
	}
}
