package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
	"github.com/millrace-io/millrace/internal/realkafka"
)

// row is one run.
type row struct {
	Job    string `json:"job"`
	System string `json:"system"`
	// Rate is records (or words) per second, CPUPerMillion CPU-seconds per million of them.
	Rate          float64 `json:"per_s"`
	CPUPerMillion float64 `json:"cpu_s_per_million"`
	PeakMiB       int64   `json:"peak_mib"`
	ToRunningS    float64 `json:"to_running_s"`
	// Blocked is the share of the time, in per cent, in which its threads stood still for commits; 0 where it does not tell.
	Blocked   float64          `json:"blocked_percent,omitempty"`
	UnderLoad *measure.Latency `json:"under_load,omitempty"`
	AtRest    *measure.Latency `json:"at_rest,omitempty"`
	Kept      float64          `json:"kept_percent,omitempty"`
	Outputs   int64            `json:"outputs"`
	Records   int64            `json:"records"`
}

// report collects rows and knows the two systems that others are compared with.
type report struct {
	head map[string]any
	jobs []work.Job
	rows []row
}

const peer, ceiling = "kafka-streams", "raw"

func newReport(s settings) report {
	return report{head: map[string]any{
		"time": time.Now().UTC().Format(time.RFC3339), "go": runtime.Version(), "cpus": runtime.NumCPU(),
		"os": runtime.GOOS + "/" + runtime.GOARCH, "kafka": realkafka.Version,
		"records": s.records, "lines": s.lines, "repetitions": s.repetitions,
	}}
}

func (r *report) add(j work.Job, system string, m measure.Result, outputs int64) row {
	units := float64(m.Records) * float64(j.PerRecord)
	added := row{Job: j.Key(), System: system, PeakMiB: m.PeakMiB, ToRunningS: m.ToRunningS, Outputs: outputs, Records: m.Records,
		UnderLoad: m.UnderLoad, AtRest: m.AtRest, Kept: m.Kept,
		Blocked: 100 * m.BlockedS / max(m.Seconds, 0.001), CPUPerMillion: m.CPUS / units * 1e6, Rate: units / max(m.Seconds, 0.001)}
	r.rows = append(r.rows, added)
	return added
}

// printReads says how long the reads took.
func (r row) printReads(w io.Writer) {
	for _, l := range []struct {
		name string
		*measure.Latency
	}{{"while it runs", r.UnderLoad}, {"at rest", r.AtRest}} {
		if l.Latency != nil {
			fmt.Fprintf(w, "  reads %-13s p50 %.1f µs, p99 %.1f µs, p99.9 %.1f µs, max %.1f µs of %d\n", l.name, l.P50, l.P99, l.P999, l.Max, l.Calls)
		}
	}
	if r.Kept > 0 {
		fmt.Fprintf(w, "  the job kept %.0f %% of its speed while it was read from\n", r.Kept)
	}
}

// spread is the minimum, median and maximum of one figure over the runs of a job on a system.
type spread struct{ min, median, max float64 }

func (r *report) spread(job, system string, figure func(row) float64) (s spread, runs int) {
	var all []float64
	for _, row := range r.rows {
		if row.Job == job && row.System == system {
			all = append(all, figure(row))
		}
	}
	if len(all) == 0 {
		return spread{}, 0
	}
	slices.Sort(all)
	return spread{all[0], all[len(all)/2], all[len(all)-1]}, len(all)
}

func cpuPerMillion(r row) float64 { return r.CPUPerMillion }

// ratio is how many times less CPU than the peer a system needs, by medians; 0 if one of them did not run.
func (r *report) ratio(job, system string) float64 { return r.quotient(job, peer, job, system) }

// share is the part of a system's CPU, in per cent, that the raw client needs for the same job at least once.
func (r *report) share(j work.Job, system string) float64 {
	return 100 * r.quotient(plain(j), ceiling, j.Key(), system)
}

// surcharge is how many times the CPU of the same job at least once it costs; 0 if that did not run.
func (r *report) surcharge(j work.Job, system string) float64 {
	return r.quotient(j.Key(), system, plain(j), system)
}

func plain(j work.Job) string {
	j.Guarantee = "at_least_once"
	return j.Key()
}

func (r *report) quotient(job, of, byJob, by string) float64 {
	a, n := r.spread(job, of, cpuPerMillion)
	b, m := r.spread(byJob, by, cpuPerMillion)
	if n == 0 || m == 0 || b.median == 0 {
		return 0
	}
	return a.median / b.median
}

// print is the table: medians, with minimum and maximum behind them.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s, %d CPUs shared with the broker, Kafka %s, commit interval 100 ms\n\n", r.head["go"], r.head["cpus"], r.head["kafka"])
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	fmt.Fprintln(t, "job\tsystem\tk/s\tCPU-s/M\tpeak MiB\tto RUNNING s\toutputs\tpeer's CPU / its CPU\t% of the ceiling\tCPU / at least once\tstood still %\t")
	for _, j := range r.jobs {
		for _, s := range systems {
			r.line(t, j, s.name)
		}
	}
}

func (r *report) line(w io.Writer, j work.Job, system string) {
	rate, runs := r.spread(j.Key(), system, func(r row) float64 { return r.Rate / 1000 })
	if runs == 0 {
		return
	}
	cpu, _ := r.spread(j.Key(), system, cpuPerMillion)
	peak, _ := r.spread(j.Key(), system, func(r row) float64 { return float64(r.PeakMiB) })
	start, _ := r.spread(j.Key(), system, func(r row) float64 { return r.ToRunningS })
	outputs, _ := r.spread(j.Key(), system, func(r row) float64 { return float64(r.Outputs) })
	blocked, _ := r.spread(j.Key(), system, func(r row) float64 { return r.Blocked })
	fmt.Fprintf(w, "%s (%s)\t%s\t%.0f (%.0f–%.0f)\t%.2f (%.2f–%.2f)\t%.0f (%.0f–%.0f)\t%.2f\t%.0f\t%.1f\t%.0f\t%.2f\t%.1f\t\n",
		j.Key(), j.Unit, system, rate.median, rate.min, rate.max, cpu.median, cpu.min, cpu.max,
		peak.median, peak.min, peak.max, start.median, outputs.median, r.ratio(j.Key(), system), r.share(j, system), r.surcharge(j, system), blocked.median)
}

func (r *report) save(path string) error {
	if path == "" {
		return nil
	}
	r.head["runs"] = r.rows
	text, err := json.MarshalIndent(r.head, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	fmt.Println("\nevery run is in", path)
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
