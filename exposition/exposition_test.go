package exposition_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
