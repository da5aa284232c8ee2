package millrace_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/exposition"
	"github.com/millrace-io/millrace/kafka/embedded"
	"github.com/millrace-io/millrace/query"
	"github.com/millrace-io/millrace/record"
	"github.com/millrace-io/millrace/record/codec"
	"github.com/millrace-io/millrace/topology"
)

// figures are what one scrape shows.
type figures map[string]*dto.MetricFamily

func scrape(t testing.TB, n *millrace.Node) figures {
	t.Helper()
	w := httptest.NewRecorder()
	n.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// sum adds the series of a family that have all the labels, each written name=value. Without one it is NaN.
func (f figures) sum(name string, labels ...string) float64 {
	total, found := 0.0, false
	for _, m := range f[name].GetMetric() {
		has := []string{}
		for _, l := range m.Label {
			has = append(has, l.GetName()+"="+l.GetValue())
		}
		if slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(has, l) }) {
			continue
		}
		found = true
		total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
	}
	if !found {
		return math.NaN()
	}
	return total
}

// observed is how often a histogram was told of something, of the series with a label.
func (f figures) observed(name string, labels ...string) (n uint64) {
	for _, m := range f[name].GetMetric() {
		has := []string{}
		for _, l := range m.Label {
			has = append(has, l.GetName()+"="+l.GetValue())
		}
		if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(has, l) }) {
			n += m.GetHistogram().GetSampleCount()
		}
	}
	return n
}

// expect compares sums with what they have to be; a key is the name, and labels behind it.
func (f figures) expect(t testing.TB, want map[string]float64) {
	t.Helper()
	for key, v := range want {
		parts := strings.Split(key, " ")
		if got := f.sum(parts[0], parts[1:]...); got != v {
			t.Errorf("%s is %v, not %v", key, got, v)
		}
	}
}

// tallied counts lines by their keys, beside a table; f sees each line first.
func tallied(t testing.TB, f func(string) error) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	b.AddGlobalStore(topology.NewGlobalStore("countries", topology.NewTopic("countries", codec.String, codec.String)))
	checked := topology.FlatMap(topology.From(b, lines), func(r record.Record[string, string], emit func(record.Record[string, string]) error) error {
		if err := f(r.Value); err != nil {
			return err
		}
		return emit(r)
	})
	topology.Count(topology.Through(checked, topology.NewRepartition("again", codec.String, codec.String)), counts)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// metered starts a node with metrics on a cluster that has so many lines under 10 keys, three without a key, and two countries.
func metered(t *testing.T, c *embedded.Cluster, cured *atomic.Bool, lines int, opts ...millrace.Option) *running {
	t.Helper()
	if err := c.Kfake().CreateTopic("countries", 1, nil); err != nil {
		t.Fatal(err)
	}
	w := newWriter(t, c, "")
	for i := range lines {
		w.put(record.TopicPartition{Topic: "lines", Partition: int32(i % 4)}, record.Raw{Key: fmt.Append(nil, i%10), Value: []byte("x"), Timestamp: int64(i)})
	}
	for range 3 {
		w.put(record.TopicPartition{Topic: "lines"}, record.Raw{Value: []byte("x"), Timestamp: 1})
	}
	for _, key := range []string{"de", "fr"} {
		w.put(record.TopicPartition{Topic: "countries"}, record.Raw{Key: []byte(key), Value: []byte("x"), Timestamp: 1})
	}
	w.flush()
	shown, err := exposition.New()
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, tallied(t, poisoned(cured)), onto(t, c, append(opts, millrace.WithMeterProvider(shown))...)...)
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// The figures are those of what was fed and asked.
func TestMetricsAreTrue(t *testing.T) {
	bothGuarantees(t, func(t *testing.T, c *embedded.Cluster, opts ...millrace.Option) {
		n := metered(t, c, new(atomic.Bool), 100, opts...)
		for i := range 10 {
			if v, ok, err := query.Get(t.Context(), n, counts, fmt.Sprint(i)); err != nil || !ok || v != 10 {
				t.Fatal(v, ok, err)
			}
		}
		if _, _, err := query.Get(t.Context(), n, topology.NewKeyValueStore("none", codec.String, codec.Int64), "x", query.Partition(0)); err == nil {
			t.Fatal("there is such a store")
		}
		f := scrape(t, n.Node)
		tr := n.Transactions()
		f.expect(t, map[string]float64{
			// 103 lines, and all of them once more behind the repartition topic.
			"millrace_task_records_total app=app":                   206,
			"millrace_thread_records_total thread=thread-1":         206,
			"millrace_thread_fetched_total":                         206,
			"millrace_task_records_total task=0_0":                  28,
			"millrace_task_lag":                                     0,
			"millrace_task_buffered_bytes":                          0,
			"millrace_task_quarantined":                             0,
			"millrace_node_tasks":                                   8,
			"millrace_node_state state=RUNNING":                     1,
			"millrace_node_state":                                   1,
			"millrace_thread_state thread=thread-1 state=RUNNING":   1,
			"millrace_thread_state thread=global-countries":         1,
			"millrace_transitions_total kind=node state=RUNNING":    1,
			"millrace_thread_failures_total":                        0,
			"millrace_thread_restarts_total":                        0,
			"millrace_thread_transactions_total outcome=committed":  float64(tr.Committed),
			"millrace_producer_created_total":                       1,
			"millrace_producer_errors_total class=Fatal":            0,
			"millrace_producer_buffered_bytes":                      0,
			"millrace_query_answers_total store=counts":             10,
			"millrace_query_failures_total store=counts":            0,
			"millrace_query_failures_total kind=UnknownStateStore":  1,
			"millrace_query_waiting":                                0,
			"millrace_global_records_total store=countries":         2,
			"millrace_store_puts_total store=countries":             2,
			"millrace_restore_ends_total store=counts outcome=done": 4,
			"millrace_restore_remaining":                            0,
			"millrace_restore_discarded_total":                      0,
			"millrace_thread_commits_total outcome=Abort":           0,
			"millrace_task_responses_total stage=processing":        0,
			"millrace_query_refusals_total reason=malformed":        0,
		})
		f.expect(t, map[string]float64{"millrace_task_dropped_total": 3})
		for name, least := range map[string]float64{"millrace_thread_commits_total": 1, "millrace_store_puts_total": 10, "millrace_store_written_bytes_total": 90,
			"millrace_store_gets_total": 10, "millrace_thread_steps_total": 2, "millrace_thread_fetches_total": 1, "millrace_thread_processes_total": 1} {
			if got := f.sum(name); !(got >= least) {
				t.Errorf("%s is %v, less than %v", name, got, least)
			}
		}
		for _, name := range []string{"millrace_thread_busy_seconds_total", "millrace_thread_process_seconds", "millrace_thread_commit_seconds", "millrace_query_duration_seconds"} {
			if got := f.sum(name); !(got > 0) {
				t.Errorf("%s is %v", name, got)
			}
		}
		if n := f.observed("millrace_query_duration_seconds", "store=counts"); n != 10 {
			t.Errorf("%d answers were timed", n)
		}
		if n, all := f.observed("millrace_thread_commit_seconds"), f.sum("millrace_thread_commits_total", "outcome=Committed"); n == 0 || float64(n) > all {
			t.Errorf("%d commits of %v were timed", n, all)
		}
	})
}

// A record that fails shows as a failure by kind, a restart and a quarantine, and the latter ends with it.
func TestMetricsTellOfAFailure(t *testing.T) {
	c, cured := cluster(t), new(atomic.Bool)
	n := metered(t, c, cured, 4)
	feed(t, c, "fail")
	awaitQuarantine(t, n, 2)
	f := scrape(t, n.Node)
	f.expect(t, map[string]float64{
		"millrace_thread_failures_total thread=thread-1 kind=record": 1,
		"millrace_thread_failures_total":                             1,
		"millrace_thread_restarts_total thread=thread-1":             1,
		"millrace_task_quarantined task=0_0":                         1,
		"millrace_task_quarantined":                                  1,
		"millrace_producer_created_total":                            1,
	})
	cured.Store(true)
	if err := n.RetryTask(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	f = scrape(t, n.Node)
	f.expect(t, map[string]float64{"millrace_task_quarantined": 0, "millrace_thread_failures_total": 1})
}

// listed matches the name in a row of docs/metrics.md.
var listed = regexp.MustCompile("(?m)^\\| `(millrace_[a-z_]+)` \\|")

// What /metrics shows is what docs/metrics.md lists, and the families of Prometheus' client about the process.
func TestMetricsAreThoseOfThePage(t *testing.T) {
	n := metered(t, cluster(t), new(atomic.Bool), 4)
	page, err := os.ReadFile("docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, m := range listed.FindAllStringSubmatch(string(page), -1) {
		want = append(want, m[1])
	}
	for name, family := range scrape(t, n.Node) {
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			got = append(got, name)
		}
		if strings.HasPrefix(name, "millrace_") && (family.GetHelp() == "" || (family.GetType() == dto.MetricType_COUNTER) != strings.HasSuffix(name, "_total")) {
			t.Errorf("%s: %s, %q", name, family.GetType(), family.GetHelp())
		}
	}
	// A histogram shows when it was told of something, and here nothing is punctuated, restored or asked.
	want = slices.DeleteFunc(want, func(name string) bool {
		return !slices.Contains(got, name) && slices.Contains([]string{"millrace_thread_punctuate_seconds", "millrace_restore_batch_seconds", "millrace_query_duration_seconds"}, name)
	})
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) || len(want) < 40 {
		t.Errorf("the page lists %d: %v\n/metrics shows %d: %v", len(want), want, len(got), got)
	}
}

// A node without a provider has no metrics, and says so. A provider that shows nothing itself has none at /metrics.
func TestMetricsAreAskedFor(t *testing.T) {
	n, err := millrace.New("app", callback(t, func(string) error { return nil }), millrace.WithMeterProvider(nil))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	n.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "MeterProvider") {
		t.Error(w.Code, w.Body)
	}
}

// Metrics are there from New to the end; then the next node of the application has them.
func TestMetricsEndWithTheNode(t *testing.T) {
	shown, err := exposition.New()
	if err != nil {
		t.Fatal(err)
	}
	topo := callback(t, func(string) error { return nil })
	for range 2 {
		n, err := millrace.New("app", topo, millrace.WithMeterProvider(shown))
		if err != nil {
			t.Fatal(err)
		}
		scrape(t, n).expect(t, map[string]float64{"millrace_node_state state=CREATED": 1})
		if err := n.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if f := scrape(t, n); f["millrace_node_state"] != nil {
			t.Errorf("%v", f["millrace_node_state"])
		}
	}
}
