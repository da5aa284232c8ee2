package main

import (
	"fmt"
	"io"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
)

// row is one run: what it was of, and the figures.
type row struct {
	// Cell names the run: job/guarantee/caching/system/repetition. Job is the job's key, without the system.
	Cell   string `json:"cell"`
	Job    string `json:"job"`
	System string `json:"system"`
	// Commit is Millrace's commit; Time when the run ended.
	Commit string `json:"commit"`
	Time   string `json:"time"`
	// Rate is records (or words) per second, CPUPerMillion CPU-seconds per million of them.
	Rate          float64 `json:"per_s"`
	CPUPerMillion float64 `json:"cpu_s_per_million"`
	PeakMiB       int64   `json:"peak_mib"`
	// Objects and Bytes are allocations per record (or word); 0 where the system does not tell.
	Objects    float64 `json:"objects_per_record,omitempty"`
	Bytes      float64 `json:"bytes_per_record,omitempty"`
	ToRunningS float64 `json:"to_running_s"`
	// Blocked is the share of the time, in per cent, in which its threads stood still for commits; 0 where it does not tell.
	Blocked   float64          `json:"blocked_percent,omitempty"`
	UnderLoad *measure.Latency `json:"under_load,omitempty"`
	AtRest    *measure.Latency `json:"at_rest,omitempty"`
	Kept      float64          `json:"kept_percent,omitempty"`
	// RestartS is a second start's time to RUNNING; Restored records came back in RestoreS.
	RestartS float64 `json:"restart_s,omitempty"`
	RestoreS float64 `json:"restore_s,omitempty"`
	Restored int64   `json:"restored,omitempty"`
	// Shares are the parts of the records that each node has seen.
	Shares  []float64 `json:"shares,omitempty"`
	Outputs int64     `json:"outputs"`
	Records int64     `json:"records"`
}

// name is what a cell is called in results and flags.
func (c cell) name() string {
	caching := "on"
	if c.job.Uncached {
		caching = "off"
	}
	return fmt.Sprintf("%s/%s/%s/%s/%d", c.job.Name, c.job.Guarantee, caching, c.system.name, c.repetition)
}

func (r *report) row(c cell, o outcome, outputs int64) row {
	units := max(1, float64(o.Records)*float64(c.job.PerRecord()))
	seconds := max(o.Seconds, 0.001)
	return row{
		Cell: c.name(), Job: c.job.Key(), System: c.system.name, Commit: r.commit, Time: time.Now().UTC().Format(time.RFC3339),
		Rate: units / seconds, CPUPerMillion: o.CPUS / units * 1e6, PeakMiB: o.PeakMiB, Objects: float64(o.Objects) / units, Bytes: float64(o.Bytes) / units,
		ToRunningS: o.ToRunningS, Blocked: 100 * o.BlockedS / seconds, UnderLoad: o.UnderLoad, AtRest: o.AtRest, Kept: o.Kept,
		RestartS: o.RestartS, RestoreS: o.RestoreS, Restored: o.Restored, Shares: o.Shares, Outputs: outputs, Records: o.Records,
	}
}

// print says what a run has given, as soon as it has.
func (r row) print(w io.Writer, j work.Job, took time.Duration) {
	fmt.Fprintf(w, "%-36s %-19s %9.0f %s/s %6.2f CPU-s/M %5d MiB  %d outputs, all right  (%.0f s)\n",
		r.Job, r.System, r.Rate, j.Unit(), r.CPUPerMillion, r.PeakMiB, r.Outputs, took.Seconds())
	for _, l := range []struct {
		name string
		*measure.Latency
	}{{"while it runs", r.UnderLoad}, {"at rest", r.AtRest}} {
		if l.Latency != nil {
			fmt.Fprintf(w, "  reads %-13s p50 %.1f µs, p99 %.1f µs, p99.9 %.1f µs, max %.1f µs of %d\n", l.name, l.P50, l.P99, l.P999, l.Max, l.Calls)
		}
	}
	switch j.Course {
	case work.Reads:
		if r.Kept > 0 {
			fmt.Fprintf(w, "  the job kept %.0f %% of its speed while it was read from\n", r.Kept)
		}
	case work.Restores:
		fmt.Fprintf(w, "  restored %d records in %.2f s, RUNNING after %.2f s\n", r.Restored, r.RestoreS, r.RestartS)
	case work.Restarts:
		fmt.Fprintf(w, "  cold start to RUNNING %.2f s, with its state %.2f s\n", r.ToRunningS, r.RestartS)
	case work.Shares:
		fmt.Fprintf(w, "  the nodes' shares are %.2f\n", r.Shares)
	}
}

// restoreRate is records per second of the restore.
func (r row) restoreRate() float64 { return float64(r.Restored) / max(r.RestoreS, 0.001) }
