package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/millrace-io/millrace/bench/work"
)

// table is a part of the report. Its first column is text, the others are figures.
type table struct {
	title string
	head  []string
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) text(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n", t.title)
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{t.head}, t.rows...) {
		fmt.Fprintln(tabs, strings.Join(row, "\t")+"\t")
	}
	tabs.Flush()
}

func (t *table) markdown(w io.Writer) {
	fmt.Fprintf(w, "\n## %s\n\n| %s |\n|%s\n", t.title, strings.Join(t.head, " | "), strings.Repeat("---|", len(t.head)))
	for _, row := range t.rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
}

// tables are the parts for which there are rows.
func (r *report) tables() (filled []*table) {
	all := []*table{r.costs(), r.peers(), r.reads(), r.restores(), r.starts(), r.nodes()}
	for _, a := range work.Axes() {
		all = append(all, r.axis(a))
	}
	for _, t := range all {
		if len(t.rows) > 0 {
			filled = append(filled, t)
		}
	}
	return filled
}

// each calls add for each job and system that ran.
func (r *report) each(belongs func(work.Job) bool, add func(j work.Job, system string)) {
	for _, j := range r.ran(belongs) {
		for _, s := range systems {
			if _, runs := r.spread(j.Key(), s.name, rate); runs > 0 {
				add(j, s.name)
			}
		}
	}
}

// show is the median of a figure with its spread, in digits behind the point; "–" if the system does not tell.
func (r *report) show(j work.Job, system string, digits int, of figure) string {
	s, _ := r.spread(j.Key(), system, of)
	if s.max == 0 {
		return "–"
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, s.median, digits, s.min, digits, s.max)
}

// thousands is the rate in thousands per second.
func (r *report) thousands(j work.Job, system string) string {
	digits := 0
	if s, _ := r.spread(j.Key(), system, rate); s.median < 10_000 {
		digits = 1
	}
	return r.show(j, system, digits, func(r row) float64 { return r.Rate / 1000 })
}

func times(x float64) string {
	if x == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f×", x)
}

func percent(x float64) string {
	if x == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f", 100*x)
}

func (r *report) costs() *table {
	t := &table{title: "Cost of a record", head: []string{"job", "system", "k/s", "CPU-s per million", "peak MiB", "allocations per record", "bytes per record",
		"output records", "peer's CPU / its CPU", "its rate / peer's rate", "% of the ceiling's CPU", "% stood still"}}
	r.each(func(j work.Job) bool { return steady(j) && j.Records == 0 }, func(j work.Job, s string) {
		t.add(j.Key()+" ("+j.Unit()+")", s, r.thousands(j, s), r.show(j, s, 2, cpuPerMillion),
			r.show(j, s, 0, func(r row) float64 { return float64(r.PeakMiB) }), r.show(j, s, 3, func(r row) float64 { return r.Objects }),
			r.show(j, s, 0, func(r row) float64 { return r.Bytes }), r.show(j, s, 0, func(r row) float64 { return float64(r.Outputs) }),
			times(r.quotient(j.Key(), peer, s, cpuPerMillion)), times(r.quotient(j.Key(), s, peer, rate)),
			percent(r.quotient(j.Key(), ceiling, s, cpuPerMillion)), r.show(j, s, 1, func(r row) float64 { return r.Blocked }))
	})
	return t
}

// peers holds our peer against another one: it should be no slower.
func (r *report) peers() *table {
	t := &table{title: "Our peer and another", head: []string{"job", "other's CPU / our peer's", "our peer's rate / other's"}}
	for _, j := range r.ran(steady) {
		if cpu := r.quotient(j.Key(), shared, peer, cpuPerMillion); cpu > 0 {
			t.add(j.Key(), times(cpu), times(r.quotient(j.Key(), peer, shared, rate)))
		}
	}
	return t
}

func course(c work.Course) func(work.Job) bool {
	return func(j work.Job) bool { return j.Course == c }
}

func (r *report) reads() *table {
	t := &table{title: "Point reads, µs", head: []string{"job", "system", "when", "p50", "p99", "p99.9", "max", "reads", "speed that the job keeps"}}
	for _, row := range r.Rows {
		if row.UnderLoad != nil {
			l := row.UnderLoad
			kept := "–"
			if row.Kept > 0 {
				kept = fmt.Sprintf("%.0f %%", row.Kept)
			}
			t.add(row.Job, row.System, "under load", tenths(l.P50), tenths(l.P99), tenths(l.P999), tenths(l.Max), fmt.Sprint(l.Calls), kept)
		}
		if l := row.AtRest; l != nil {
			t.add(row.Job, row.System, "at rest", tenths(l.P50), tenths(l.P99), tenths(l.P999), tenths(l.Max), fmt.Sprint(l.Calls), "")
		}
	}
	return t
}

func tenths(x float64) string { return fmt.Sprintf("%.1f", x) }

func (r *report) restores() *table {
	t := &table{title: "Restore", head: []string{"job", "system", "records", "k/s", "seconds", "start to RUNNING, s", "its rate / peer's rate"}}
	r.each(course(work.Restores), func(j work.Job, s string) {
		t.add(j.Key(), s, r.show(j, s, 0, func(r row) float64 { return float64(r.Restored) }), r.show(j, s, 0, func(r row) float64 { return r.restoreRate() / 1000 }),
			r.show(j, s, 2, func(r row) float64 { return r.RestoreS }), r.show(j, s, 2, func(r row) float64 { return r.RestartS }),
			times(r.quotient(j.Key(), s, peer, row.restoreRate)))
	})
	return t
}

func (r *report) starts() *table {
	t := &table{title: "Start to RUNNING, seconds", head: []string{"job", "system", "cold", "again, with its state"}}
	r.each(course(work.Restarts), func(j work.Job, s string) {
		t.add(j.Key(), s, r.show(j, s, 2, func(r row) float64 { return r.ToRunningS }), r.show(j, s, 2, func(r row) float64 { return r.RestartS }))
	})
	return t
}

func (r *report) nodes() *table {
	t := &table{title: "Two nodes", head: []string{"job", "system", "k/s together", "CPU-s per million", "MiB together", "smaller share"}}
	r.each(course(work.Shares), func(j work.Job, s string) {
		t.add(j.Key(), s, r.thousands(j, s), r.show(j, s, 2, cpuPerMillion),
			r.show(j, s, 0, func(r row) float64 { return float64(r.PeakMiB) }), r.show(j, s, 2, row.smaller))
	})
	return t
}

// smaller is the share of the node that has done less.
func (r row) smaller() float64 {
	if len(r.Shares) != 2 {
		return 0
	}
	return min(r.Shares[0], r.Shares[1])
}

// axis shows how the cost of a record grows along an axis, against that of the axis' first job.
func (r *report) axis(a work.Axis) *table {
	t := &table{title: "Cost of a record against " + a.Name, head: []string{"job", "system", "k/s", "CPU-s per million", "against the first", "peak MiB", "peer's CPU / its CPU"}}
	belongs := func(j work.Job) bool {
		for _, of := range a.Jobs {
			if of.Name == j.Name {
				return true
			}
		}
		return false
	}
	first := map[string]float64{}
	r.each(belongs, func(j work.Job, s string) {
		cpu, _ := r.spread(j.Key(), s, cpuPerMillion)
		if first[s] == 0 {
			first[s] = cpu.median
		}
		t.add(j.Title, s, r.thousands(j, s), r.show(j, s, 2, cpuPerMillion), times(cpu.median/max(first[s], 1e-9)),
			r.show(j, s, 0, func(r row) float64 { return float64(r.PeakMiB) }), times(r.quotient(j.Key(), peer, s, cpuPerMillion)))
	})
	return t
}
