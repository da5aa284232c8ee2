package millrace

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/lifecycle"
	"github.com/millrace-io/millrace/thread"
)

var rewrite = flag.Bool("rewrite", false, "write docs/metrics.md from the table")

const (
	metricsPage  = "docs/metrics.md"
	metricsBegin = "<!-- begin metrics -->\n"
	metricsEnd   = "<!-- end metrics -->\n"
)

// metricsTable is the table of the page.
func metricsTable() string {
	var b strings.Builder
	b.WriteString("| Prometheus | OpenTelemetry | unit | labels | what it is | Kafka Streams |\n|---|---|---|---|---|---|\n")
	for i := range metricRows {
		r := &metricRows[i]
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s | %s |\n", r.exposed(), r.name, strings.Trim(r.unit, "{}"), strings.Join(r.labels, ", "), r.help, r.streams)
	}
	for i := range histogramRows {
		r := &histogramRows[i]
		fmt.Fprintf(&b, "| `%s` | `%s` | s | %s | %s | %s |\n", r.exposed(), r.name, strings.Join(r.labels, ", "), r.help, r.streams)
	}
	return b.String()
}

// docs/metrics.md lists what is measured, and nothing else.
func TestMetricsPageIsTheTable(t *testing.T) {
	text, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), metricsBegin)
	_, after, ended := strings.Cut(rest, metricsEnd)
	if !ok || !ended {
		t.Fatalf("%s lacks the markers of the table", metricsPage)
	}
	want := before + metricsBegin + metricsTable() + metricsEnd + after
	if *rewrite {
		err = os.WriteFile(metricsPage, []byte(want), 0o644)
	} else if want != string(text) {
		t.Errorf("%s differs from the table; run go test -run MetricsPage . -rewrite", metricsPage)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Names are Prometheus' and OpenTelemetry's at once, and labels have as many values as names.
func TestMetricRowsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	everything := &scrape{threads: []threadFigures{{stream: true, errors: make([]uint64, 16)}}, tasks: []taskFigures{{}}, stores: []storeFigures{{}},
		globals: []GlobalStatus{{}}, refusals: map[string]int64{"peers": 1}}
	for i := range metricRows {
		r := &metricRows[i]
		if seen[r.exposed()] || !strings.HasPrefix(r.name, "millrace.") || strings.ToLower(r.name) != r.name || r.help == "" || strings.Contains(r.help, "|") {
			t.Errorf("%+v", r)
		}
		seen[r.exposed()] = true
		if !slices.Contains([]string{"", "s", "By"}, r.unit) && !strings.HasPrefix(r.unit, "{") {
			t.Errorf("%s has unit %q", r.name, r.unit)
		}
		series := map[string]bool{}
		r.read(everything, func(_ float64, values ...string) {
			if len(values) != len(r.labels) || series[fmt.Sprint(values)] {
				t.Errorf("%s: %v are the values of %v", r.name, values, r.labels)
			}
			series[fmt.Sprint(values)] = true
		})
		if len(series) == 0 && !strings.HasPrefix(r.name, "millrace.query.") {
			t.Errorf("%s shows nothing", r.name)
		}
	}
	for i := range histogramRows {
		r := &histogramRows[i]
		if seen[r.exposed()] || seen[r.exposed()+"_total"] || !slices.IsSorted(r.buckets) || len(r.labels) != 1 || r.help == "" || len(r.buckets) != 14 {
			t.Errorf("%+v", r)
		}
		seen[r.exposed()] = true
	}
}

// Each row shows its own figure: no two of these are the same.
func TestMetricRowsShowTheirFigures(t *testing.T) {
	s := &scrape{
		dropped: 1, producers: 2,
		threads: []threadFigures{{
			stream: true, restarts: 3, blocked: 4 * time.Second, buffered: 5, errors: make([]uint64, 16), ThreadStatus: lifecycle.ThreadStatus{Name: "t"},
			transactions: TransactionCounts{Reinits: 6, Fenced: 7, Committed: 8, Aborted: 9, CommitUnknown: 10},
			Totals:       thread.Totals{Steps: 11, Busy: 12 * time.Second, Fetches: 13, Fetched: 14, Processes: 15, Records: 16, Punctuations: 17},
		}},
		tasks: []taskFigures{{id: "0_0", TaskTotals: thread.TaskTotals{Records: 18, Lag: 19, Buffered: 20}}},
		stores: []storeFigures{{storePartition: storePartition{"s", "0_0"}, gets: 21, scans: 22, puts: 23, bytes: 24, disk: 25, restored: 26, discarded: 27, remaining: 28,
			restoring: 29 * time.Second}},
		globals: []GlobalStatus{{Store: "g", Records: 30}},
	}
	want := map[string]float64{
		"query.dropped": 1, "producer.created": 2, "thread.restarts": 3, "thread.blocked": 4, "producer.buffered": 5, "producer.reinits": 6, "producer.fenced": 7,
		"thread.steps": 11, "thread.busy": 12, "thread.fetches": 13, "thread.fetched": 14, "thread.processes": 15, "thread.records": 16, "thread.punctuations": 17,
		"task.records": 18, "task.lag": 19, "task.buffered": 20, "store.gets": 21, "store.scans": 22, "store.puts": 23, "store.written": 24, "store.disk": 25,
		"restore.records": 26, "restore.discarded": 27, "restore.remaining": 28, "restore.duration": 29, "global.records": 30,
		"thread.transactions committed": 8, "thread.transactions aborted": 9, "thread.transactions unknown": 10,
	}
	for i := range metricRows {
		r := &metricRows[i]
		r.read(s, func(v float64, labels ...string) {
			key := strings.TrimPrefix(r.name, "millrace.")
			if key == "thread.transactions" {
				key += " " + labels[1]
			}
			if w, ok := want[key]; ok && v != w {
				t.Errorf("%s%v is %v, not %v", key, labels, v, w)
			}
			delete(want, key)
		})
	}
	if len(want) > 0 {
		t.Errorf("nothing shows %v", want)
	}
}
