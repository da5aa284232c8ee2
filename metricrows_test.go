package millrace

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
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
