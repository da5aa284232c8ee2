package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/bench/work"
	"github.com/millrace-io/millrace/internal/realkafka"
)

// report is the rows so far, those of earlier runs included if it was resumed. It is written after each row, so that a run
// that is interrupted goes on where it stopped.
type report struct {
	Head head  `json:"head"`
	Rows []row `json:"runs"`

	commit string
}

// head is what the rows have in common; rows of different heads are not compared.
type head struct {
	Go    string         `json:"go"`
	CPUs  int            `json:"cpus"`
	OS    string         `json:"os"`
	Kafka string         `json:"kafka"`
	Sizes map[string]int `json:"sizes"`
	Quick bool           `json:"quick,omitempty"`
	// ProcsPerCore and CacheMiB are flags.
	ProcsPerCore int `json:"procs_per_core"`
	CacheMiB     int `json:"store_cache_mib,omitempty"`
}

// openReport begins a report, or takes up the one in the results file.
func openReport(ctx context.Context, s settings) (*report, error) {
	r := &report{commit: commit(ctx), Head: head{
		Go: runtime.Version(), CPUs: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Kafka: realkafka.Version,
		Sizes: s.sizes, Quick: s.quick, ProcsPerCore: s.procsPerCore, CacheMiB: s.cacheMiB,
	}}
	if !s.resume || s.results == "" {
		return r, nil
	}
	text, err := os.ReadFile(s.results)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	var before report
	if err := json.Unmarshal(text, &before); err != nil {
		return nil, fmt.Errorf("%s is not a file of results: %w", s.results, err)
	}
	if !reflect.DeepEqual(before.Head, r.Head) {
		return nil, fmt.Errorf("%s has results of another machine, Go or Kafka, or of other sizes, procs-per-core or store-cache: "+
			"delete it, or give -results another name", s.results)
	}
	r.Rows = slices.DeleteFunc(before.Rows, func(r row) bool {
		return slices.ContainsFunc(s.redo, func(prefix string) bool { return strings.HasPrefix(r.Cell, prefix) })
	})
	return r, nil
}

// commit is the tree's, with a + if files were changed since. Those in bench/results do not count: every run changes them.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(out))
	if exec.CommandContext(ctx, "git", "diff", "--quiet", "HEAD", "--", ":/", ":(top,exclude)bench/results").Run() != nil {
		name += "+"
	}
	return name
}

// missing are the cells that have no row yet.
func (r *report) missing(cells []cell) []cell {
	return slices.DeleteFunc(cells, func(c cell) bool {
		return slices.ContainsFunc(r.Rows, func(r row) bool { return r.Cell == c.name() })
	})
}

// add takes up a row and writes the file.
func (r *report) add(added row, path string) error {
	r.Rows = append(r.Rows, added)
	return r.save(path)
}

func (r *report) save(path string) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// Whole or not at all: a run that is killed here must find what it had.
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// finish prints the tables and writes what belongs beside the results.
func (r *report) finish(w io.Writer, s settings) error {
	tables := r.tables()
	fmt.Fprintf(w, "\n%s\n", r.title())
	for _, t := range tables {
		t.text(w)
	}
	if s.results == "" {
		return nil
	}
	base := strings.TrimSuffix(s.results, filepath.Ext(s.results))
	var text strings.Builder
	fmt.Fprintf(&text, "# What the benchmark measured\n\n%s\n", r.title())
	for _, t := range tables {
		t.markdown(&text)
	}
	fmt.Fprintf(w, "\nevery run is in %s; the tables, and a chart if there are costs of records, are beside it\n", s.results)
	return errors.Join(os.WriteFile(base+".md", []byte(text.String()), 0o644), r.chart(base+".png"))
}

func (r *report) title() string {
	var commits []string
	for _, row := range r.Rows {
		if !slices.Contains(commits, row.Commit) {
			commits = append(commits, row.Commit)
		}
	}
	title := fmt.Sprintf("%s, %d CPUs shared with the broker, Kafka %s, commit interval 100 ms, Millrace %s. Median (minimum–maximum).",
		r.Head.Go, r.Head.CPUs, r.Head.Kafka, strings.Join(commits, " and "))
	if r.Head.Quick {
		title += " Small inputs: these figures mean nothing."
	}
	return title
}

// spread is the minimum, median and maximum of one figure over the runs of a job on a system.
type spread struct{ min, median, max float64 }

// figure is one number of a row.
type figure func(row) float64

func cpuPerMillion(r row) float64 { return r.CPUPerMillion }
func rate(r row) float64          { return r.Rate }

func (r *report) spread(job, system string, of figure) (s spread, runs int) {
	var all []float64
	for _, row := range r.Rows {
		if row.Job == job && row.System == system {
			all = append(all, of(row))
		}
	}
	if len(all) == 0 {
		return spread{}, 0
	}
	slices.Sort(all)
	middle := all[len(all)/2]
	if len(all)%2 == 0 {
		middle = (middle + all[len(all)/2-1]) / 2
	}
	return spread{all[0], middle, all[len(all)-1]}, len(all)
}

// quotient is the median of one system's figure over that of another, for the same job; 0 if one of them did not run.
func (r *report) quotient(job, over, under string, of figure) float64 {
	a, n := r.spread(job, over, of)
	b, m := r.spread(job, under, of)
	if n == 0 || m == 0 || b.median == 0 {
		return 0
	}
	return a.median / b.median
}

// ran are the jobs of some rows with their keys, in the order of all jobs.
func (r *report) ran(belongs func(work.Job) bool) (found []work.Job) {
	order := append(slices.Clone(work.Jobs), work.Scale()...)
	seen := map[string]bool{}
	for _, row := range r.Rows {
		parts := strings.Split(row.Cell, "/")
		if i := slices.IndexFunc(order, func(j work.Job) bool { return j.Name == parts[0] }); i >= 0 && belongs(order[i]) && !seen[row.Job] {
			seen[row.Job] = true
			j := order[i]
			j.Guarantee, j.Uncached = parts[1], parts[2] == "off"
			found = append(found, j)
		}
	}
	rank := func(j work.Job) int {
		return slices.IndexFunc(order, func(o work.Job) bool { return o.Name == j.Name })
	}
	slices.SortStableFunc(found, func(a, b work.Job) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Key(), b.Key())) })
	return found
}
