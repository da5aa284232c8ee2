package main

import (
	"context"
	"errors"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/work"
)

// ran is a report of some rows: each is a cell's name, CPU-seconds per million, and records per second.
func ran(t *testing.T, rows ...row) *report {
	t.Helper()
	r := &report{commit: "c0ffee"}
	for _, given := range rows {
		parts := strings.Split(given.Cell, "/")
		jobs, err := work.Find(parts[0])
		if err != nil {
			t.Fatal(err)
		}
		j := jobs[0]
		j.Guarantee, j.Uncached = parts[1], parts[2] == "off"
		given.Job, given.System = j.Key(), parts[3]
		r.Rows = append(r.Rows, given)
	}
	return r
}

func TestReportComparesMedians(t *testing.T) {
	r := ran(t, row{Cell: "count/exactly_once/on/raw/1", CPUPerMillion: 0.5, Rate: 30},
		row{Cell: "count/exactly_once/on/kafka-streams/1", CPUPerMillion: 9, Rate: 1}, row{Cell: "count/exactly_once/on/kafka-streams/2", CPUPerMillion: 8, Rate: 2},
		row{Cell: "count/exactly_once/on/kafka-streams/3", CPUPerMillion: 7, Rate: 3},
		row{Cell: "count/exactly_once/on/millrace/1", CPUPerMillion: 2, Rate: 10}, row{Cell: "count/at_least_once/on/millrace/1", CPUPerMillion: 1, Rate: 20})
	got := r.costs().rows
	want := []string{"count, exactly once (records)", "millrace", "0.0 (0.0–0.0)", "2.00 (2.00–2.00)", "–", "–", "–", "–", "4.00×", "5.00×", "25", "–"}
	if len(got) != 4 || !slices.Equal(got[3], want) {
		t.Errorf("the costs are %q, want the fourth to be %q", got, want)
	}
	if other := got[0]; other[0] != "count, at least once (records)" || other[8] != "–" {
		t.Errorf("a guarantee was compared with another: %q", other)
	}
}

func TestReportTellsEveryCourse(t *testing.T) {
	r := ran(t, row{Cell: "restore/exactly_once/on/kafka-streams/1", Restored: 100, RestoreS: 2, RestartS: 3}, row{Cell: "restore/exactly_once/on/millrace/1", Restored: 100, RestoreS: 1, RestartS: 2},
		row{Cell: "start/exactly_once/on/millrace-stay/1", ToRunningS: 1, RestartS: 0.5}, row{Cell: "nodes/exactly_once/on/millrace/1", Shares: []float64{0.6, 0.4}},
		row{Cell: "gets/exactly_once/on/millrace/1", UnderLoad: &measure.Latency{Calls: 1}, AtRest: &measure.Latency{Calls: 2}},
		row{Cell: "keys-10000/exactly_once/on/millrace/1", CPUPerMillion: 1}, row{Cell: "keys-1000000/exactly_once/on/millrace/1", CPUPerMillion: 2},
		row{Cell: "pass/exactly_once/on/kafka-streams/1", CPUPerMillion: 5, Rate: 2}, row{Cell: "pass/exactly_once/on/shared-peer/1", CPUPerMillion: 10, Rate: 1})
	var all strings.Builder
	for _, table := range r.tables() {
		for _, row := range table.rows {
			if len(row) != len(table.head) {
				t.Errorf("%s: %q has %d columns, not %d", table.title, row, len(row), len(table.head))
			}
			all.WriteString(table.title + ": " + strings.Join(row, " ") + "\n")
		}
	}
	for _, want := range []string{"Restore: restore, exactly once millrace 100", "2.00×\n", "0.50 (0.50–0.50)\n", "0.40 (0.40–0.40)\n", "under load", "at rest",
		"Cost of a record against keys: keyed count, 1000000 keys millrace – 2.00 (2.00–2.00) 2.00×", "Our peer and another: pass, exactly once 2.00× 2.00×"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("%q is missing from\n%s", want, all.String())
		}
	}
}

// A run that was interrupted goes on where it stopped; -redo forgets some; other sizes are refused.
func TestResultsAreResumed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	flags := []string{"-quick", "-repetitions", "2", "-jobs", "pass,count", "-systems", "millrace", "-resume", "-results", path}
	left := func(more ...string) (names []string) {
		t.Helper()
		s, err := parse(append(slices.Clone(flags), more...))
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{settings: s}
		cells, err := b.choose()
		if err != nil {
			t.Fatal(err)
		}
		r, err := openReport(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.missing(cells) {
			names = append(names, c.name())
			if err := r.add(r.row(c, outcome{}, 0), s.results); err != nil {
				t.Fatal(err)
			}
		}
		return names
	}
	if got := left(); !slices.Equal(got, []string{"pass/exactly_once/on/millrace/1", "count/exactly_once/on/millrace/1"}) {
		t.Errorf("the first run has the cells %q", got)
	}
	if got := left(); len(got) != 0 {
		t.Errorf("the second run has the cells %q", got)
	}
	if got := left("-redo", "count"); !slices.Equal(got, []string{"count/exactly_once/on/millrace/1"}) {
		t.Errorf("-redo count has the cells %q", got)
	}
	s, err := parse([]string{"-resume", "-results", path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openReport(t.Context(), s); err == nil || !strings.Contains(err.Error(), "other sizes") {
		t.Errorf("results of small inputs were taken for others: %v", err)
	}
}

// Repetitions come last, so that systems take turns, also in who is first; reads are measured once.
func TestCellsAreInterleaved(t *testing.T) {
	s, err := parse([]string{"-repetitions", "2", "-jobs", "count,gets,start", "-systems", "raw,kafka-streams-leave,millrace"})
	if err != nil {
		t.Fatal(err)
	}
	cells, err := (&bench{settings: s}).choose()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range cells {
		names = append(names, c.job.Name+" "+c.system.name)
	}
	want := []string{"count raw", "count millrace", "gets millrace", "start kafka-streams-leave", "start millrace",
		"count millrace", "count raw", "start kafka-streams-leave", "start millrace"}
	if !slices.Equal(names, want) {
		t.Errorf("the cells are %q, want %q", names, want)
	}
}

// A system is built once, also one that is another with other flags, and only if a cell needs it.
func TestProgramsAreBuiltOnce(t *testing.T) {
	for _, s := range systems {
		if builders[s.program] == nil {
			t.Errorf("nothing builds %s", s.name)
		}
	}
	for args, want := range map[string][]string{
		"-jobs start -systems millrace-stay": {ours}, "-jobs start -systems kafka-streams-leave": {peer}, "-jobs start": {peer, ours}, "-jobs pass": {ceiling, peer, ours},
	} {
		s, err := parse(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		cells, err := (&bench{settings: s}).choose()
		if got := programs(cells); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s builds %q, want %q: %v", args, got, want, err)
		}
	}
}

// A cell that fails does not keep the others from being measured, unless nothing works any more or the run was interrupted.
func TestCellsThatFail(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	for _, test := range []struct {
		fails []bool
		done  int
	}{
		{[]bool{false, true, true, false, true}, 5}, {[]bool{false, true, true, true, false, false}, 4},
	} {
		done, failed := 0, 0
		err := inTurn(ctx, make([]cell, len(test.fails)), func(i int, _ cell) error {
			done++
			if test.fails[i] {
				failed++
				return errors.New("wrong")
			}
			return nil
		})
		if done != test.done || err == nil || strings.Count(err.Error(), "wrong") != failed {
			t.Errorf("of %v, %d cells were done, want %d: %v", test.fails, done, test.done, err)
		}
	}
	done := 0
	err := inTurn(ctx, make([]cell, 5), func(int, cell) error { done++; cancel(); return ctx.Err() })
	if done != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d cells were done after the interruption: %v", done, err)
	}
}

func TestChartIsAPicture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chart.png")
	if err := ran(t, row{Cell: "restore/exactly_once/on/millrace/1"}).chart(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("there is a chart of nothing")
	}
	r := ran(t, row{Cell: "pass/exactly_once/on/millrace/1", CPUPerMillion: 1, Rate: 1e6}, row{Cell: "pass/exactly_once/on/kafka-streams/1", CPUPerMillion: 6, Rate: 2e5})
	if err := r.chart(path); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	colors := map[[3]uint32]bool{}
	for x := 0; x < picture.Bounds().Dx(); x += 4 { // a bar is wider
		for y := 0; y < picture.Bounds().Dy(); y += 4 {
			r, g, b, _ := picture.At(x, y).RGBA()
			colors[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
		}
	}
	for _, d := range drawn[1:] {
		if !colors[[3]uint32{uint32(d.color.R), uint32(d.color.G), uint32(d.color.B)}] {
			t.Errorf("the chart has no bar of %s", d.system)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range []string{"-records 0", "-repetitions -1", "-procs-per-core 0", "-guarantees=", "-caching=", "-jobs=", "-systems=", "-nonsense"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s was taken", args)
		}
	}
	for _, args := range []string{"-jobs nonsense", "-systems nonsense", "-guarantees never", "-caching maybe", "-jobs pass -systems millrace-stay"} {
		s, err := parse(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (&bench{settings: s}).choose(); err == nil {
			t.Errorf("%s was taken", args)
		}
	}
}

func TestSharedPeersLastLine(t *testing.T) {
	r, err := parseShared("system=kafka-streams job=count guarantee=eos to_running_s=1.50 records=3000000 words=0 updates=920000 seconds=14.00 records_per_s=214285 cpu_s=25.50 cpu_s_per_million=8.50 rss_mib=830")
	if err != nil || r.Records != 3_000_000 || r.Outputs != 920_000 || r.CPUS != 25.5 || r.Seconds != 14 || r.PeakMiB != 830 || r.ToRunningS != 1.5 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := parseShared("system=kafka-streams job=count records=0"); err == nil {
		t.Error("a line without figures was taken")
	}
}
