package exposition

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// What a scrape may take: it reads memory and asks nobody, so that more than that is a mistake somewhere.
const (
	scrapesAtOnce = 4
	scrapeTime    = 10 * time.Second
)

// Exposition is a metric.MeterProvider, and an http.Handler that gives what its instruments hold. Nodes of one process may
// share one: the label app tells applications apart, so two nodes of the same application need one each.
type Exposition struct {
	*metric.MeterProvider
	handler http.Handler
}

// New returns an exposition with a registry of its own. It fails only if the exporter cannot be registered there, which
// would be a bug.
func New() (*Exposition, error) {
	registry := prometheus.NewRegistry()
	// No series about the scope and the SDK: Prometheus says itself which target a figure is from.
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("exposition: %w", err)
	}
	for _, c := range []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("exposition: %w", err)
		}
	}
	// The SDK lumps what is above 2,000 series of a metric together. What a topology bounds needs no other bound.
	provider := metric.NewMeterProvider(metric.WithReader(reader), metric.WithCardinalityLimit(0))
	// A series that Prometheus does not take, with a label that is no text, is left out, and OpenTelemetry's error handler hears
	// of it. The default answers with the error alone, so that one value somebody measures would hide everything.
	return &Exposition{provider, promhttp.HandlerFor(registry,
		promhttp.HandlerOpts{MaxRequestsInFlight: scrapesAtOnce, Timeout: scrapeTime, ErrorHandling: promhttp.ContinueOnError, ErrorLog: handled{}})}, nil
}

// handled tells OpenTelemetry's error handler what went wrong in a scrape.
type handled struct{}

// Println implements promhttp.Logger.
func (handled) Println(v ...any) {
	otel.Handle(fmt.Errorf("exposition: %s", strings.TrimSpace(fmt.Sprintln(v...))))
}

// ServeHTTP implements http.Handler: the text form, or another that the request asks for and Prometheus' client knows.
func (e *Exposition) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.handler.ServeHTTP(w, r) }

// Close ends it: instruments record nothing any more. Its error is the OpenTelemetry provider's, of a second Close for example.
func (e *Exposition) Close() error { return e.Shutdown(context.Background()) }
