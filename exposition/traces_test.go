package exposition

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestTracesConfig(t *testing.T) {
	for _, c := range []struct {
		endpoint string
		ratio    float64
		field    string
	}{
		{"http://127.0.0.1:4318", 1, ""}, {"https://collector/otlp/traces", 0.001, ""}, {"http://[::1]:4318/", 1, ""},
		{"", 1, "Endpoint"}, {"127.0.0.1:4318", 1, "Endpoint"}, {"ftp://a", 1, "Endpoint"}, {"http://", 1, "Endpoint"},
		{"http://me:hunter@a", 1, "Endpoint"}, {"http://a?b", 1, "Endpoint"}, {"http://a#b", 1, "Endpoint"}, {"http://%zz", 1, "Endpoint"},
		{"http://a", 0, "Ratio"}, {"http://a", -1, "Ratio"}, {"http://a", 1.1, "Ratio"}, {"http://a", math.NaN(), "Ratio"}, {"http://a", math.Inf(1), "Ratio"},
	} {
		config := TracesConfig{Endpoint: c.endpoint, Ratio: c.ratio}
		wrong := (*TracesError)(nil)
		if err := config.Check(); (err != nil) != (c.field != "") || err != nil && (!errors.As(err, &wrong) || wrong.Field != c.field || strings.Contains(err.Error(), "hunter")) {
			t.Errorf("%+v: %v", c, err)
		}
		if _, err := NewTraces(config); c.field != "" && !errors.As(err, &wrong) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A collector that refuses and takes again is two lines, however many batches there were.
func TestTellsOnceWhenItBeginsAndWhenItEnds(t *testing.T) {
	var status atomic.Int32
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	defer collector.Close()
	var log bytes.Buffer
	traces, err := NewTraces(TracesConfig{Endpoint: collector.URL, Ratio: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer traces.Close(t.Context())
	some := tracetest.SpanStubs{{Name: "process"}}.Snapshots()
	for _, answer := range []int32{200, 403, 403, 400, 200, 200} {
		status.Store(answer)
		if err := traces.exporter.ExportSpans(t.Context(), some); err != nil {
			t.Error(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "does not take") || !strings.Contains(lines[1], "takes spans again") {
		t.Error(log.String())
	}
}

// The share is that of traces, and who does not trace has nothing to send.
func TestShareOfTraces(t *testing.T) {
	traces, err := NewTraces(TracesConfig{Endpoint: "http://127.0.0.1:1", Ratio: 1e-12})
	if err != nil {
		t.Fatal(err)
	}
	_, span := traces.Tracer("x").Start(t.Context(), "process")
	if _, ok := span.(sdk.ReadOnlySpan); ok || span.IsRecording() {
		t.Error("it is recorded")
	}
	span.End()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	traces.Close(ended)
}
