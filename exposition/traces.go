package exposition

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TracesConfig says which spans go where. Headers with a token and attributes of the resource are taken from OpenTelemetry's variables
// of the environment: OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_TRACES_HEADERS, and OTEL_RESOURCE_ATTRIBUTES.
type TracesConfig struct {
	// Endpoint is the URL of a collector that takes spans as OTLP over HTTP, such as http://127.0.0.1:4318. Without a path it
	// gets /v1/traces.
	Endpoint string
	// Ratio is the share of traces that are sent, above 0 and up to 1.
	Ratio float64
	// Service and Instance are service.name and service.instance.id of the resource.
	Service, Instance string
	// Logger is told when the collector begins and ends to refuse spans; nil is nobody.
	Logger *slog.Logger
}

// TracesError is a field of a TracesConfig that cannot be used.
type TracesError struct {
	// Field is its name, and Problem what is wrong, with what would be right. It holds no value, which may have a password in it.
	Field, Problem string
}

func (e *TracesError) Error() string { return "exposition: TracesConfig." + e.Field + " " + e.Problem }

// tracesPath is where a collector takes spans if the URL has no path.
const tracesPath = "/v1/traces"

// Check fails with a *TracesError if a field cannot be used, or the headers of the environment. It asks no collector.
func (c TracesConfig) Check() error {
	_, err := c.collector()
	return err
}

// collector is who the configuration is about.
func (c TracesConfig) collector() (*collector, error) {
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery+u.Fragment != "":
		return nil, &TracesError{"Endpoint", "is no URL of a collector; give one such as http://127.0.0.1:4318"}
	case u.User != nil:
		return nil, &TracesError{"Endpoint", "has a user or a password in it, which is no place for secrets; give it without, and what the collector asks for in OTEL_EXPORTER_OTLP_HEADERS"}
	case !(c.Ratio > 0 && c.Ratio <= 1): // as said, NaN is none
		return nil, &TracesError{"Ratio", fmt.Sprintf("%v is no share; give a number above 0 and up to 1, such as 0.1", c.Ratio)}
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = tracesPath
	}
	headers, err := headersOf(os.Getenv)
	if err != nil {
		return nil, err
	}
	return newCollector(u.String(), headers), nil
}

// Traces is a TracerProvider that sends spans to a collector. It keeps them until they are sent, at most 2,048, and sends
// every five seconds. What the collector does not take in time is dropped: nothing waits for it but Close.
type Traces struct {
	trace.TracerProvider
	sdk       *sdk.TracerProvider
	collector *collector
	exporter  *telling
}

// NewTraces begins to trace. The collector need not be there yet. It fails with a *TracesError if a field of c cannot be used,
// or the headers of the environment.
func NewTraces(c TracesConfig) (*Traces, error) {
	to, err := c.collector()
	if err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	about, err := resource.New(context.Background(), resource.WithAttributes(attribute.String("service.name", c.Service),
		attribute.String("service.instance.id", c.Instance)), resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		c.Logger.Warn("not all of what OTEL_RESOURCE_ATTRIBUTES says can be used", "error", err)
	}
	exporter, err := otlptrace.New(context.Background(), to)
	if err != nil {
		return nil, fmt.Errorf("exposition: spans cannot be sent: %w", err)
	}
	t := &Traces{collector: to, exporter: &telling{SpanExporter: exporter, log: c.Logger, to: to.url}}
	t.sdk = sdk.NewTracerProvider(sdk.WithBatcher(t.exporter), sdk.WithResource(about), sdk.WithSampler(sdk.TraceIDRatioBased(c.Ratio)))
	t.TracerProvider = t.sdk
	return t, nil
}

// flushTime is how long Close waits for the last spans to be taken.
const flushTime = 5 * time.Second

// errUntaken says that the end came first.
var errUntaken = errors.New("the last spans were not taken in time")

// Close sends what is left, and gives up after five seconds or when ctx ends. Spans that were not taken are told to the Logger;
// whoever ends has nothing to do about them, so there is no error.
func (t *Traces) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	if t.sdk.Shutdown(ctx) != nil {
		t.exporter.say(errUntaken)
	}
	_ = t.collector.Stop(ctx) // the request that is under way too
}

// telling is an exporter that tells of failures: once when they begin, and once when they end. OpenTelemetry's own way is a
// handler of the whole process, and a line for each batch.
type telling struct {
	sdk.SpanExporter
	log *slog.Logger
	to  string
	// mu is for failing: the SDK sends one batch at a time, but Close is another goroutine, and neither is an actor.
	mu      sync.Mutex
	failing bool
}

// ExportSpans implements the SDK's SpanExporter. What fails is told here, and to nobody else.
func (t *telling) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	t.say(t.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

func (t *telling) say(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil && !t.failing:
		t.log.Warn("the collector does not take spans; they are dropped until it does", "collector", t.to, "error", err)
	case err == nil && t.failing:
		t.log.Warn("the collector takes spans again", "collector", t.to)
	}
	t.failing = err != nil
}
