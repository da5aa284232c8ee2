package exposition_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/exposition"
)

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
