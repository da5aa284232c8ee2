package exposition_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/millrace-io/millrace/exposition"
)

// Every series is shown, however many tasks a topology has.
func TestNothingIsLumpedTogether(t *testing.T) {
	shown, err := exposition.New()
	if err != nil {
		t.Fatal(err)
	}
	const tasks = 5_000
	_, err = shown.Meter("test").Int64ObservableGauge("test.lag", metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
		for i := range tasks {
			o.Observe(int64(i), metric.WithAttributes(attribute.Int("task", i)))
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	shown.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if n := strings.Count(w.Body.String(), "\ntest_lag{"); n != tasks {
		t.Errorf("%d series, not %d", n, tasks)
	}
}

// Whatever values labels have, and however many series share a name, Prometheus can read the answer, and what is right in it is
// there: one wrong series takes none of the others with it.
func TestNoLabelBreaksTheText(t *testing.T) {
	shown, err := exposition.New()
	if err != nil {
		t.Fatal(err)
	}
	counter, err := shown.Meter("test").Int64Counter("test.odd", metric.WithDescription("a \\ and\na \"line\" more\n# TYPE test_odd gauge"))
	if err != nil {
		t.Fatal(err)
	}
	values := []string{"", `"`, `\`, `\"`, "a\nb", "\n# HELP test_odd", "} 1", "\x00", "\u2028", strings.Repeat("x", 100_000)}
	for i, v := range values {
		counter.Add(t.Context(), int64(i)+1, metric.WithAttributes(attribute.String("name", v)))
	}
	counter.Add(t.Context(), 100, metric.WithAttributes(attribute.String("name", "no \xff\xfe text")))
	var heard []error
	before := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { heard = append(heard, err) }))
	defer otel.SetErrorHandler(before)
	w := httptest.NewRecorder()
	shown.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err)
	}
	got := map[string]float64{}
	for _, m := range families["test_odd_total"].GetMetric() {
		for _, l := range m.Label {
			got[l.GetValue()] = m.GetCounter().GetValue()
		}
	}
	for i, v := range values {
		if v != "" && got[v] != float64(i)+1 { // a label without a value is none
			t.Errorf("%.20q is %v, not %d", v, got[v], i+1)
		}
	}
	if families["go_goroutines"] == nil || got["no \xff\xfe text"] != 0 {
		t.Error("the process is not there, or what is no text is")
	}
	if len(heard) != 1 || !strings.Contains(heard[0].Error(), "UTF-8") {
		t.Errorf("the error handler has heard %v", heard)
	}
}

// Two expositions of a process do not get in each other's way, and both tell of the process.
func TestExpositionsAreApart(t *testing.T) {
	for _, name := range []string{"one", "two"} {
		shown, err := exposition.New()
		if err != nil {
			t.Fatal(err)
		}
		gauge, err := shown.Meter("test").Int64Gauge("test." + name)
		if err != nil {
			t.Fatal(err)
		}
		gauge.Record(t.Context(), 1)
		w := httptest.NewRecorder()
		shown.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		body := w.Body.String()
		if w.Code != http.StatusOK || strings.Count(body, "\ntest_") != 1 || !strings.Contains(body, "\ntest_"+name+" 1\n") || !strings.Contains(body, "\ngo_goroutines ") {
			t.Errorf("%d:\n%s", w.Code, body)
		}
		if strings.Contains(body, "otel_scope") || strings.Contains(body, "target_info") {
			t.Errorf("it has series that nobody asked for:\n%s", body)
		}
		if err := shown.Close(); err != nil {
			t.Error(err)
		}
	}
}
